# How to write a test. A file is tests/WHAT_IT_TRIES/NAME.bats, has a line in ../tiers, and begins with
#
#   load ../lib/helper
#   setup_file() { file_begin; }        a private redis-server, and programs/
#   setup() { test_begin; }             a clean environment, a folder to work in, and an empty server
#   teardown() { test_end; }            fails if the test left a process or a key behind
#   teardown_file() { file_end; }
#
# The title says the case, in 90 characters at most. A test runs dlock as a user does, and says what must be seen:
#
#   @test "-n: a lock that is held is busy, and COMMAND does not run" {
#           begin_holder one x          returns when COMMAND runs; one_pid, one_keeper and one_command are its processes
#           try dlock -n x touch ran    sets status, out, err and took
#           expect_failure 1 'busy: held by'
#           refute_file ran
#           let_go one
#   }
#
# Servers are real ones, never mocks. Wait for a condition (wait_until, finish), never for a time: a machine may be busy.
# A TTL or limit that must last is multiplied by TEST_PATIENCE, by which ../all stretches all limits where it is needed.
# For every lock service at once there is service/conformance.bats. Break dlock, and see the test fail (mutants/).
#
# From outside: DLOCK is the program under test (src/dlock of this tree), TEST_BIN the folder with those of programs/.

bats_require_minimum_version 1.5.0

readonly PYTHON=/usr/bin/python3 # where Debian's python3-redis is
TEST_PATIENCE=${TEST_PATIENCE:-1}

load ../lib/rights

# ---- A file's server and programs ----------------------------------------------------------------

file_begin() {
	programs_begin
	server_begin "$SERVER"
}

# Without the server: for a file that has servers of another kind.
programs_begin() {
	export BATS_TEST_TIMEOUT=$((150 * TEST_PATIENCE))
	export BIN=$BATS_FILE_TMPDIR/bin SERVER=$BATS_FILE_TMPDIR/server
	local program tool
	program=$(realpath "${DLOCK:-$BATS_TEST_DIRNAME/../../src/dlock}")
	if [[ ! -x $program ]]; then
		echo "no program to test: $program (set DLOCK)" >&2
		return 1
	fi
	mkdir -p "$BIN" "$SERVER"
	ln -s "$program" "$BIN/dlock"
	# By name in every test, whatever PATH is then.
	for tool in redis-server redis-cli; do
		ln -s "$(command -v $tool)" "$BIN/$tool"
	done
	for tool in ask launch oracle witness; do
		if [[ -n ${TEST_BIN:-} ]]; then
			ln -s "$(realpath "$TEST_BIN/$tool")" "$BIN/$tool"
		else
			cc -std=c17 -D_GNU_SOURCE -O1 -o "$BIN/$tool" "$BATS_TEST_DIRNAME/../programs/$tool.c" \
				$([[ $tool != ask ]] || echo -lhiredis)
		fi
	done
	ln -s "$(realpath "$BATS_TEST_DIRNAME/../programs/in_mounts")" "$BIN/in_mounts"
	# ::1 if there is one, which only servers from Redis 6.2 on can be told.
	export LOCALHOSTS=127.0.0.1
	! server_is_from 6.2 || LOCALHOSTS+=' -::1'
	loading_dlock
	sanitizers_begin
}

# For a dlock that was built with sanitizers: a finding fails the test (test_end) even if no test
# reads that dlock's stderr. Tests may preload something, and look at the limit of core files, which
# sanitizers else lower for themselves. Not under strace: see unleaked.
sanitizers_begin() {
	local own=log_path=$BATS_FILE_TMPDIR/finding:disable_coredump=0
	export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}$own:verify_asan_link_order=0
	export UBSAN_OPTIONS=${UBSAN_OPTIONS:+$UBSAN_OPTIONS:}$own:print_stacktrace=1
	# A process with threads would sleep for a second at its end.
	export TSAN_OPTIONS=${TSAN_OPTIONS:+$TSAN_OPTIONS:}$own:atexit_sleep_ms=0
}

# unleaked COMMAND...: for strace, under which LeakSanitizer cannot work.
unleaked() { ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 "$@"; }

# The program under test, or the one built beside it, as LOADING/dlock: what LD_PRELOAD names has
# no effect on a program with libc linked in.
loading_dlock() {
	local program
	export LOADING=$BATS_FILE_TMPDIR/loading
	program=$(realpath "$BIN/dlock")
	readelf -lW "$program" | grep -q INTERP ||
		program=$(realpath -m "${TEST_BIN:-$BATS_TEST_DIRNAME/../programs}/dlock")
	mkdir -p "$LOADING"
	ln -s "$program" "$LOADING/dlock"
}

file_end() {
	server_end "$SERVER"
}

# The server's own version, which tells a Valkey from a Redis by nothing but being greater.
server_is_from() { # VERSION
	local version
	version=$("$BIN/redis-server" --version | grep -oE 'v=[0-9.]+')
	printf '%s\n' "$1" "${version#v=}" | sort -VC
}

# server_begin DIR [OPTION]...: a redis-server on DIR/socket and on a free port, written to
# DIR/port, of $LOCALHOSTS. Nothing is kept on disk.
server_begin() {
	local dir try
	dir=$(realpath -m "$1")
	shift
	mkdir -p "$dir"
	for try in {1..30}; do
		echo $((15000 + (RANDOM * 32768 + RANDOM) % 17000)) >"$dir/port"
		if server_again "$dir" "$@"; then
			return 0
		fi
	done
	cat "$dir/log" >&2
	return 1
}

# server_again DIR [OPTION]...: the same place, an empty memory.
server_again() {
	local dir
	dir=$(realpath "$1")
	shift
	rm -f "$dir/socket"
	(
		cd "$dir"
		unset TEST_MARK
		exec "$BIN/redis-server" --port "$(<port)" \
			--bind $LOCALHOSTS --unixsocket "$dir/socket" --unixsocketperm 700 \
			--save '' --appendonly no --daemonize no --loglevel warning \
			"$@" >log 2>&1 </dev/null 3>&- 4>&-
	) &
	remember $! "$dir/pid"
	local pid us
	recall "$dir/pid"
	now_us
	local limit=$((us + 10000000 * TEST_PATIENCE))
	until is_serving "$dir"; do
		now_us
		if is_gone "$pid" || ((us > limit)); then
			return 1
		fi
		nap 0.02
	done
}

is_serving() { # DIR
	[[ -S $1/socket && $("$BIN/ask" "$1/socket" PING 2>/dev/null) == @(PONG|NOAUTH*) ]]
}

server_end() { end_remembered "$1/pid"; }

# remember PID FILE: a process that is to be ended later, as end_remembered FILE does. Its number alone may be another's
# by then.
remember() {
	local state threads born
	read_stat "$1"
	echo "$1" >"$2"
	echo "$born" >"$2.born"
	disown "$1"
}

# recall FILE: sets pid, of which is_gone knows now which it was.
recall() {
	pid=$(<"$1")
	BORN[$pid]=$(<"$1.born")
}

# kill_remembered FILE: sets pid as well. Also one that is stopped is killed.
kill_remembered() {
	recall "$1"
	is_gone "$pid" || kill -KILL "$pid" 2>/dev/null || true
}

# end_remembered FILE: returns once it is gone.
end_remembered() {
	[[ -e $1 ]] || return 0
	local pid
	kill_remembered "$1"
	wait_until is_gone "$pid"
	rm -f "$1" "$1.born"
}

# A port that nobody listens on just now.
free_port() {
	local port
	while
		port=$((15000 + (RANDOM * 32768 + RANDOM) % 17000))
		is_served $port
	do :; done
	echo $port
}

# with_ports BEGIN END [NAME]...: until BEGIN has begun the servers of these names; END ends those that it did begin. A
# port that was free may be another's when it is wanted.
with_ports() {
	local try
	for try in {1..5}; do
		! "$1" "${@:3}" || return 0
		"$2" "${@:3}"
	done
	return 1
}

is_served() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; } # PORT

# own_server NAME [OPTION]...: another one, in ./NAME, that ends with the test.
own_server() {
	echo "$PWD/$1" >>"$BATS_TEST_TMPDIR/servers"
	server_begin "$@"
}

server_pid() { echo "$(<"$SERVER/pid")"; }
server_stop() { halt "$(server_pid)"; }
server_continue() { kill -CONT "$(server_pid)"; }

# The file's server, directly; one that stands still is no reason to stand still as well.
cli() { cli_of "$SERVER" "$@"; }

# cli_of DIR [WORD]...: the server in DIR, by programs/ask.c, or by redis-cli where an option of it is asked for, or
# its questions come on stdin.
cli_of() {
	case ${2-} in
	'' | --*) timeout 60 redis-cli -s "$1/socket" "${@:2}" ;;
	*) "$BIN/ask" "$1/socket" "${@:2}" ;;
	esac
}

# expiry_of KEY [REDIS-CLI...]: when the server will let it go, in ms since 1970; by default the file's server.
expiry_of() {
	local ask=("${@:2}")
	"${ask[@]:-cli}" EVAL "$EXPIRY return expiry_of(KEYS[1])" 1 "$1"
}

# For a script. Only a Redis from 7.0 on has PEXPIRETIME; an older one is asked twice for the time, as a millisecond may
# end between two calls.
readonly EXPIRY='
	local function now()
		local time = redis.call("TIME")
		return time[1] * 1000 + math.floor(time[2] / 1000)
	end
	local function expiry_of(key)
		local at = redis.pcall("PEXPIRETIME", key)
		if type(at) == "number" then
			return at
		end
		local began, left
		repeat
			began = now()
			left = redis.call("PTTL", key)
		until began == now()
		return left < 0 and left or began + left
	end'

# taken KEY: what it holds; then it is gone. Only a Redis from 6.2 on has GETDEL.
taken() { cli EVAL 'local held = redis.call("GET", KEYS[1]) redis.call("DEL", KEYS[1]) return held' 1 "$1"; }

# ---- Before and after each test ------------------------------------------------------------------

test_begin() {
	environment_begin
	export DLOCK_SERVER=unix://$SERVER/socket
	[[ -e $SERVER/pid ]] || server_again "$SERVER"
	cli FLUSHALL >/dev/null
	cli CONFIG RESETSTAT >/dev/null
}

# The same for any server.
environment_begin() {
	# Before each command bats records where it is, to show that line if the command fails: that took a third of all
	# time. The lines of the test itself are enough, as `fail` says the others; once it has failed, that line stands.
	set +T
	trap '[[ ${BATS_ERROR_STATUS-} ]] || bats_debug_trap "$BASH_SOURCE"' DEBUG
	unset out err # a caller's, exported, would have no room for what `try` puts there
	unset "${!DLOCK_@}" DLOCK REDISCLI_AUTH MAKEFLAGS POSIXLY_CORRECT
	export HOME=$BATS_TEST_TMPDIR XDG_CONFIG_HOME=$BATS_TEST_TMPDIR/config
	export USER=tester LOGNAME=tester SHELL=/bin/sh LC_ALL=C.UTF-8 TZ=UTC TERM=dumb
	export PATH=$BIN:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	export TEST_MARK=$BATS_TEST_TMPDIR
	ulimit -S -c 0
	cd "$BATS_TEST_TMPDIR"
	# Servers start all the time here, and no test is to wait for that: settle.bats has what happens else.
	mkdir -p "$XDG_CONFIG_HOME"
	echo 'settle = 0' >"$XDG_CONFIG_HOME/dlock.conf"
}

# For a test with `ulimit -f`: ThreadSanitizer writes a file at every start, and would end by the signal.
skip_where_files_must_grow() {
	! built_with tsan || left_out "ThreadSanitizer needs a file that may grow"
}

# What a test leaves is a finding even where its own checks passed.
test_end() {
	local failed=0 pid
	environment_end only_memory_is_left || failed=1
	if [[ -e $SERVER/pid ]]; then
		recall "$SERVER/pid"
		if is_gone "$pid"; then
			server_end "$SERVER"
		else
			kill -CONT "$pid"
		fi
	fi
	return $failed
}

# environment_end CONDITION...: the same for any server, on which nothing is left if CONDITION is so.
environment_end() {
	local failed=0
	if [[ -z ${BATS_TEST_COMPLETED:-} ]]; then
		evidence
	else
		wait_until nothing_runs || failed=1
		wait_until "$@" || failed=1
	fi
	no_findings_left || failed=1
	local pid dir file
	for file in "$BATS_TEST_TMPDIR"/serves.*[0-9]; do
		end_remembered "$file"
	done
	if [[ -e $BATS_TEST_TMPDIR/servers ]]; then
		while read -r dir; do
			server_end "$dir"
		done <"$BATS_TEST_TMPDIR/servers"
	fi
	[[ $failed == 0 && -n ${BATS_TEST_COMPLETED:-} ]] || for pid in $(marked_pids); do
		kill -KILL "$pid" 2>/dev/null || true
	done
	return $failed
}

# marked: /proc/PID/environ of every process that this test started, by a mark in its environment; grep is in a shell that
# has none.
marked() {
	local mark=TEST_MARK=$TEST_MARK
	unset TEST_MARK
	exec grep -lzsxF "$mark" /proc/[0-9]*/environ
}

# marked_pids: their numbers. Not at the head of a pipeline: what stands behind it has the mark, too.
marked_pids() {
	local one
	for one in $(marked); do
		echo "${one//[!0-9]/}"
	done
}

nothing_runs() { [[ -z $(marked) ]]; }

# What sanitizers found, in any process.
no_findings_left() {
	local file none=true
	for file in "$BATS_FILE_TMPDIR"/finding.*; do
		[[ -s $file ]] || continue
		none=false
		echo "--- a finding of a sanitizer"
		head -c 4000 "$file"
		rm "$file"
	done
	$none
}

# Only meta, and every key ends by itself.
only_memory_is_left() {
	[[ -z $(keys_left) ]]
}

# A refusal counts as something left.
keys_left() {
	[[ -e $SERVER/pid ]] || return 0
	local pid
	recall "$SERVER/pid"
	is_gone "$pid" || cli EVAL '
		local left = {}
		for db in redis.call("INFO", "keyspace"):gmatch("db(%d+):") do
			redis.call("SELECT", db)
			for _, key in ipairs(redis.call("KEYS", "*")) do
				local ttl = redis.call("PTTL", key)
				if ttl == -1 or (ttl > 0 and not key:find("}:meta$") and not key:find("}:meta:")) then
					left[#left + 1] = "db" .. db .. " " .. redis.call("TYPE", key).ok .. " " .. key .. " pttl " .. ttl
				end
			end
		end
		return left' 0 2>&1
}

# Printed when something failed.
evidence() {
	echo "--- keys"
	[[ ! -e $SERVER/pid ]] || timeout 2 "$BIN/ask" "$SERVER/socket" KEYS '*' || true
	echo "--- processes"
	local pids
	pids=$(marked_pids)
	pids=${pids//$'\n'/,}
	[[ -z $pids ]] || ps -o pid,ppid,pgid,sid,stat,args -p "$pids" || true
	local file
	for file in "$BATS_TEST_TMPDIR"/*.err; do
		[[ -s $file ]] || continue
		echo "--- $(basename "$file")"
		head -c 2000 "$file"
	done
}

# ---- Saying what was wrong -----------------------------------------------------------------------

# The functions by which the test came here are said as well: bats shows the test's own line alone.
fail() {
	local i file
	printf '%s\n' "$@" >&2
	for ((i = 1; i < ${#FUNCNAME[@]}; i++)); do
		[[ ${FUNCNAME[i]} != "${BATS_TEST_NAME-}" ]] || break
		file=${BASH_SOURCE[i]}
		[[ $file != "${BATS_TEST_SOURCE-}" ]] || file=$BATS_TEST_FILENAME
		echo "  by ${FUNCNAME[i]}, ${file##*/} line ${BASH_LINENO[i - 1]}" >&2
	done
	return 1
}

assert_equal() { # ACTUAL EXPECTED [WHAT]
	[[ $1 == "$2" ]] || fail "${3:-value}:" "  expected: $2" "  seen:     $1"
}

assert_match() { # ACTUAL REGEX [WHAT]
	[[ $1 =~ $2 ]] || fail "${3:-value}:" "  expected to match: $2" "  seen:     $1"
}

refute_match() { # ACTUAL REGEX [WHAT]
	[[ ! $1 =~ $2 ]] || fail "${3:-value}:" "  expected not to match: $2" "  seen:     $1"
}

assert_between() { # VALUE LEAST MOST [WHAT]
	(($1 >= $2 && $1 <= $3)) || fail "${4:-value}: $1 is not between $2 and $3"
}

assert_file() { # FILE TEXT: the whole content
	[[ -e $1 ]] || fail "$1 was not written"
	assert_equal "$(<"$1")" "$2" "$1"
}

refute_file() {
	[[ ! -e $1 ]] || fail "$1 is there, holding: $(head -c 300 "$1")"
}

assert() { # CONDITION...
	"$@" || fail "not so: $*"
}

refute() { # CONDITION...
	! "$@" || fail "should not be so: $*"
}

# ---- Running -------------------------------------------------------------------------------------

# try COMMAND...: sets status, out, err (without trailing newlines; the files are try.out, try.err)
# and took (ms).
try() {
	local us
	now_us
	local began=$us
	status=0
	"$@" >"$BATS_TEST_TMPDIR/try.out" 2>"$BATS_TEST_TMPDIR/try.err" 3>&- 4>&- || status=$?
	now_us
	took=$(((us - began) / 1000))
	read_outputs try
	tried="$*"
}

# read_outputs NAME: sets out and err, by NAME.out and NAME.err.
read_outputs() {
	read_text out "$BATS_TEST_TMPDIR/$1.out"
	read_text err "$BATS_TEST_TMPDIR/$1.err"
}

# read_text VARIABLE FILE: without trailing newlines, and a zero byte as @; no process is started.
read_text() {
	local text='' piece
	while IFS= read -rd '' piece; do
		text+=$piece@
	done <"$2"
	text+=$piece
	while [[ $text == *$'\n' ]]; do
		text=${text%$'\n'}
	done
	printf -v "$1" %s "$text"
}

expect() { # STATUS [OUT [ERR]]: of the last try; OUT and ERR whole, empty where not given
	[[ $status == "$1" && $out == "${2-}" && $err == "${3-}" ]] || fail "$tried" \
		"  status: $status, expected $1" "  stdout: $out" "  expected: ${2-}" \
		"  stderr: $err" "  expected: ${3-}"
}

# last_line FILE
last_line() { tail -n 1 "$1"; }

# expect_failure STATUS REGEX: nothing on stdout, one line on stderr that begins "dlock: " and
# matches.
expect_failure() {
	[[ $status == "$1" && -z $out && $err == "dlock: "* && $err != *$'\n'* && $err =~ $2 ]] || fail \
		"$tried" "  status: $status, expected $1" "  stdout: $out, expected none" \
		"  stderr: $err" "  expected one line, dlock: and $2"
}

# start NAME [LAUNCH SETTING]... COMMAND...: in the background, in a session of its own with
# signals as at login; sets pid, and NAME_pid. Its output goes to NAME.out and NAME.err.
start() {
	local name=$1 state threads born
	shift
	: >"$BATS_TEST_TMPDIR/$name.out" 2>"$BATS_TEST_TMPDIR/$name.err" # for one that is killed before it has them
	launch default setsid "$@" >"$BATS_TEST_TMPDIR/$name.out" 2>"$BATS_TEST_TMPDIR/$name.err" \
		</dev/null 3>&- 4>&- &
	pid=$!
	declare -g "${name}_pid=$pid"
	read_stat "$pid"
	BORN[$pid]=$born
}

# fake_server MODE: a server that is no Redis, or one in trouble (programs/fake_server.py), in ./MODE.
fake_server() {
	mkdir "$1"
	service "$BATS_TEST_DIRNAME/../programs/fake_server.py" "$1" "$PWD/$1"
	wait_until is_file "$1/port"
}

# proxy SOCKET [SECONDS [BYTES]]: passes what comes to ./proxy.socket on to SOCKET; ./turns has
# which side speaks when. Answers come that much late, in pieces of so many bytes.
proxy() {
	service "$BATS_TEST_DIRNAME/../programs/proxy.py" "$PWD/proxy.socket" "$1" "$PWD/turns" "${@:2}"
	wait_until test -S proxy.socket
}

# What was said through the proxy, on one connection or another, in one line.
turns() {
	wait_until has_ended turns
	paste -sd ' ' turns
}

has_ended() { [[ $(grep -c connect "$1") == $(grep -c end "$1") ]]; }

# hole NAME: a proxy to the file's server at ./NAME.socket; ./NAME.rules says what it swallows.
hole() {
	service "$BATS_TEST_DIRNAME/../programs/hole.py" "$PWD/$1.socket" "$SERVER/socket" "$PWD/$1.rules" \
		"$PWD/$1.counts"
	wait_until test -S "$1.socket"
}

# rule NAME TEXT
rule() {
	echo "$2" >"$1.rules.new"
	mv "$1.rules.new" "$1.rules"
}

# service SCRIPT [ARG]...: ends with the test, or by `end_remembered "$last_service"` before.
service() {
	env -u TEST_MARK "$PYTHON" "$@" </dev/null >/dev/null 2>"$BATS_TEST_TMPDIR/service.err" 3>&- 4>&- &
	remember $! "$BATS_TEST_TMPDIR/serves.$!"
	last_service=$BATS_TEST_TMPDIR/serves.$!
}

# finish NAME: waits for what start began; sets status, out, err as try does.
finish() {
	local name=$1 variable=${1}_pid
	wait_until is_gone "${!variable}" || return 1
	status=0
	wait "${!variable}" || status=$?
	read_outputs "$name"
	tried="$name"
}

# ---- Waiting -------------------------------------------------------------------------------------

now_ms() {
	local now=${EPOCHREALTIME/[.,]/}
	echo "${now:0:-3}"
}

now_us() { us=${EPOCHREALTIME/[.,]/}; } # into us, without a process

# nap SECONDS: without a process, as tests wait all the time. The FIFO never has anything to read.
nap() {
	[[ -p $BATS_FILE_TMPDIR/nap ]] || mkfifo -m 666 "$BATS_FILE_TMPDIR/nap" 2>/dev/null || true
	read -rt "$1" <>"$BATS_FILE_TMPDIR/nap" || (($? > 128)) || sleep "$1"
}

# rest_after LOOKED: for three times as long as the look that began at LOOKED (us) took, 20 ms at least and 0.3 s at most:
# what is dear, or what a busy machine delays, takes little of a processor. Sets us to the time after it.
rest_after() {
	local rest
	now_us
	rest=$((3 * (us - $1)))
	rest=$((rest < 20000 ? 20000 : rest > 300000 ? 300000 : rest))
	printf -v rest 0.%06d $rest
	nap "$rest"
	now_us
}

# wait_until [-t SECONDS] CONDITION...: within 15 s.
wait_until() {
	local us seconds=15
	if [[ $1 == -t ]]; then
		seconds=$2
		shift 2
	fi
	now_us
	local limit=$((us + seconds * 1000000 * TEST_PATIENCE)) looked=$us
	until "$@"; do
		now_us
		if ((us > limit)); then
			fail "waited in vain for: $*" || true
			evidence >&2
			keys_left >&2
			return 1
		fi
		rest_after $looked
		looked=$us
	done
}

# stays MS CONDITION...: so now, and all the while.
stays() {
	local us
	now_us
	local limit=$((us + $1 * 1000)) looked=$us
	shift
	while ((us < limit)); do
		"$@" || fail "no longer so: $*" || return 1
		rest_after $looked
		looked=$us
	done
}

# read_stat PID: sets state (R, S, T, Z …), threads (how many), and born, the tick in which it began; nothing if it is
# gone.
read_stat() {
	local stat='' fields
	IFS= read -rd '' stat 2>/dev/null <"/proc/$1/stat" || true
	read -ra fields <<<"${stat##*) }"
	state=${fields[0]-} threads=${fields[17]-} born=${fields[19]-}
}

proc_state() { # PID
	local state threads born
	read_stat "$1"
	echo "$state"
}

proc_status() { # PID FIELD
	local name value
	while read -r name value; do
		if [[ $name == "$2:" ]]; then
			echo "$value"
			return
		fi
	done <"/proc/$1/status"
} 2>/dev/null

parent_of() { proc_status "$1" PPid; }

# A number is given away again, and soon on a busy machine: is_gone knows which process was meant, if `start` began it or
# `recall` read its number. While one thread is there a server still listens, though its first thread is a zombie.
declare -gA BORN
is_gone() { # PID
	local state threads born
	[[ $1 ]] || return
	read_stat "$1"
	[[ -z $state || $state == [ZX] && $threads -le 1 || $born != "${BORN[$1]-$born}" ]]
}

is_alive() { ! is_gone "$1"; }

is_dlock() { # PID
	local name=
	read -r name <"/proc/$1/comm" && [[ $name == dlock* ]]
} 2>/dev/null
is_stopped() { [[ $(proc_state "$1") == [Tt] ]]; }

# halt PID...: servers; when it returns they stand still. A signal that stops a process reaches one of its threads, which
# stops the others once it runs: until then those go on, on a busy machine for longer than a request takes.
halt() {
	kill -STOP "$@"
	wait_until are_halted "$@"
}
are_halted() { # PID...
	local pid stat line
	for pid; do
		for stat in "/proc/$pid/task"/*/stat; do
			# One that has ended meanwhile does not go on either.
			if { read -r line <"$stat"; } 2>/dev/null; then
				[[ $line == *') '[TtXZ]' '* ]] || return 1
			fi
		done
	done
}

# The keeper of a dlock that waits: its only child.
keeper_of() { # FRONT
	local all
	read -r all <"/proc/$1/task/$1/children"
	echo "$all"
}

# Of each waiter whole: its front, and its keeper.
processes_of() { # FRONT...
	local one
	for one; do
		echo "$one" "$(keeper_of "$one")"
	done
}

# A waiter whole: its front, and its keeper. For KILL both are stopped before: neither is to see the other's end.
signal_waiters() { # SIGNAL FRONT...
	local all
	read -r -d '' -a all < <(processes_of "${@:2}") || true
	[[ $1 != KILL ]] || kill -STOP "${all[@]}"
	kill "-$1" "${all[@]}"
}

all_gone() {
	local one
	for one; do
		is_gone "$one" || return 1
	done
}

# Asleep with no signal on its way to it: whatever it was to do about a signal is done. CHLD does
# not count: it may stay pending where it is blocked and children are awaited by other means.
is_quiet() { # PID...
	local one name value
	for one; do
		[[ $(proc_state "$one") == S ]] || return 1
		while read -r name value; do
			[[ $name != @(SigPnd|ShdPnd): ]] || (((16#$value & ~(1 << 16)) == 0)) || return 1
		done <"/proc/$one/status" || return 1
		[[ $(proc_state "$one") == S ]] || return 1
	done
} 2>/dev/null

# A dlock asleep in its wait: the front, and its keeper, which has a connection to the server.
is_asking() { # FRONT
	local keeper
	is_dlock "$1" && keeper=$(keeper_of "$1") && is_dlock "$keeper" && has_socket "$keeper" && is_quiet "$1" "$keeper"
}

has_socket() { # PID
	local one
	for one in "/proc/$1/fd"/*; do
		[[ ! -S $one ]] || return 0
	done
	return 1
}

is_held() { [[ $(cli EXISTS "lock:$1") == 1 ]]; }
is_free() { [[ $(cli EXISTS "lock:$1") == 0 ]]; }
queued() { [[ $(cli ZCARD "lock:{lock:$1}:queue") == "$2" ]]; } # LOCK COUNT: so many wait for it
owner_is() { [[ $(cli GET "lock:$1") == "$2" ]]; } # NAME TOKEN
is_file() { [[ -s $1 ]]; }
file_has() { grep -qE -- "$2" "$1" 2>/dev/null; } # FILE REGEX

# begin_holder NAME LOCK [OPTION]...: starts a holder of LOCK that lives until the test ends it by
# `let_go NAME`; returns once COMMAND runs. NAME_pid is the front, NAME_keeper, NAME_command.
begin_holder() {
	local name=$1 lock=$2
	shift 2
	rm -f "$BATS_TEST_TMPDIR/$name.count" # of an earlier one by that name
	start "$name" dlock "$@" "$lock" witness count "$BATS_TEST_TMPDIR/$name.count"
	wait_until file_has "$BATS_TEST_TMPDIR/$name.count" '^ready'
	declare -g "${name}_command=$(sed -n 's/^ready //p' "$BATS_TEST_TMPDIR/$name.count")"
	local command=${name}_command
	declare -g "${name}_keeper=$(parent_of "${!command}")"
}

let_go() {
	local command=${1}_command
	kill -RTMIN "${!command}"
	finish "$1"
}

# received NAME: the signals that the witness got, one a line.
received() { sed -e '/^ready/d' -e 's/ .*//' "$BATS_TEST_TMPDIR/$1.count"; }

# Where dlock keeps what it remembers of a lock with the default prefix.
meta_of() { echo "lock:{lock:$1}:meta"; }

# python [ARG]... <<PROGRAM: with programs/ at hand.
python() { PYTHONPATH=$BATS_TEST_DIRNAME/../programs PYTHONDONTWRITEBYTECODE=1 "$PYTHON" - "$@" 3>&- 4>&-; }
