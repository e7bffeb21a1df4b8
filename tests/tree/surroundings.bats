# What the kill path assumes of its surroundings: a syslog daemon and a stderr that take what they are
# given, /proc, descriptors, processes, and that of front and keeper one is not stopped while it kills.
# Whatever is missing, COMMAND's tree is gone before the next holder's command begins, or was never
# started.
#
# The judge is the kernel: every process of a tree holds a flock(2) on one file for as long as it lives,
# and the next holder's command wants that lock when it begins.

load ../lib/helper
load ../lib/log_socket

setup_file() {
	file_begin
	local one
	for one in stop_at_kill second_writer late_look; do
		cc -std=c17 -D_GNU_SOURCE -O1 -shared -fPIC -o "$BATS_FILE_TMPDIR/$one.so" \
			"$BATS_TEST_DIRNAME/../programs/$one.c"
	done
}

teardown_file() { file_end; }

setup() {
	test_begin
	log_socket_begin
	write_judged
}

teardown() { test_end; }

# ---- Commands that are judged ---------------------------------------------------------------------

# Every command that runs under the lock NAME sources `judge NAME` first. From there on the command and
# what it starts hold NAME.living. If processes of the last holder still do, `overlaps` says so.
#
# tree NAME       ignores the stop signal. It has a child, a child in a session of its own, and two
#                 orphans like these
# script NAME...  the same under `dlock hold [OPTION]... NAME`, but for the last two: they are not the
#                 script's tree
# next NAME       the next holder's command
write_judged() {
	cat >judge <<-'END'
		exec 9>>"$1.living"
		flock -n 9 || echo "$1: $0 began while processes of the last holder lived" >>overlaps
	END
	cat >grow <<-'END'
		trap '' TERM
		sleep 300 &
		setsid sleep 300 &
		echo $$ >"$1.command.new" && mv "$1.command.new" "$1.command"
		while :; do sleep 0.05; done
	END
	cat >tree <<-'END'
		#!/bin/bash
		ulimit -Sn >"$1.limit"
		ulimit -n 64 2>/dev/null # for the judge
		. ./judge "$1"
		(sleep 300 & setsid sleep 300 &)
		. ./grow "$1"
	END
	cat >script <<-'END'
		#!/bin/bash
		name=${!#}
		dlock hold "$@" || exit
		. ./judge "$name"
		. ./grow "$name"
	END
	cat >next <<-'END'
		#!/bin/bash
		. ./judge "$1"
		echo began >"$1.next"
	END
	chmod +x tree script next
}

# grows NAME: waits until the tree under NAME is whole; sets NAME_command and NAME_keeper.
grows() {
	wait_until is_file "$1.command"
	declare -g "$1_command=$(<"$1.command")"
	declare -g "$1_keeper=$(parent_of "$(<"$1.command")")"
}

# queue NAME...: a next holder for each lock.
queue() {
	local name
	for name; do
		start "next_$name" dlock -qq "$name" ./next "$name"
	done
}

# judged NAME...: the next holder's command begins, and nothing of the last one's is there any more.
judged() {
	local name
	for name; do
		wait_until -t 25 is_file "$name.next" || return 1
		finish "next_$name"
		assert_equal "$status" 0 "the next holder of $name"
	done
	[[ ! -e overlaps ]] || fail "$(<overlaps)"
}

# ---- A syslog daemon that hangs -------------------------------------------------------------------

front_killed_with_deaf_log() { # KIND
	deaf_log "$1"
	start x ./logged dlock --syslog -t $((3 * TEST_PATIENCE)) --grace 0.2 x ./tree x
	grows x
	queue x
	kill -KILL $x_pid
	judged x
	finish x
}

@test "front killed, the syslog daemon hangs (datagram): the tree is gone before the next begins" {
	front_killed_with_deaf_log dgram
}

@test "front killed, the syslog daemon hangs (stream): the tree is gone before the next begins" {
	front_killed_with_deaf_log stream
}

@test "keeper killed, the syslog daemon hangs: the tree is gone before the next, and dlock ends" {
	deaf_log dgram
	start x ./logged dlock --syslog -t $((3 * TEST_PATIENCE)) --grace 0.2 x ./tree x
	grows x
	queue x
	kill -KILL $x_keeper
	judged x
	finish x
	assert_equal "$status" 70
}

# hold_unproved COMMAND...: it runs a script whose keeper hears nothing from the server any more.
hold_unproved() {
	hole far
	DLOCK_SERVER=unix://$PWD/far.socket start x "$@" ./script "${options[@]}" -t $((4 * TEST_PATIENCE)) --grace 0.3 x
	grows x
	queue x
	rule far 'up=0'
	judged x
	finish x
}

@test "hold, the syslog daemon hangs, the lock is not proved any longer: the script stops in time" {
	local options=(--syslog)
	deaf_log dgram
	hold_unproved ./logged
}

@test "hold, stderr is a socket, the syslog daemon hangs: the script is stopped in time" {
	local options=()
	deaf_log dgram
	service "$BATS_TEST_DIRNAME/../programs/bad_stderr.py" socket "$PWD/ear" "$PWD/ready"
	wait_until is_file ready
	hold_unproved ./logged "$PYTHON" "$BATS_TEST_DIRNAME/../programs/bad_stderr.py" into "$PWD/ear"
}

@test "hold, stderr is a full socket, the syslog daemon hangs: the script is stopped in time" {
	local options=()
	deaf_log stream
	service "$BATS_TEST_DIRNAME/../programs/bad_stderr.py" socket "$PWD/ear" "$PWD/ready"
	wait_until is_file ready
	hold_unproved ./logged "$PYTHON" "$BATS_TEST_DIRNAME/../programs/bad_stderr.py" into full "$PWD/ear"
}

# ends_within SECONDS STATUS COMMAND...
ends_within() {
	local seconds=$1 wanted=$2
	shift 2
	try timeout -s KILL $((seconds * TEST_PATIENCE)) "$@"
	assert_equal "$status" "$wanted" "$*: $err"
}

@test "the syslog daemon hangs, front and keeper live: nothing waits for it" {
	local kind
	for kind in dgram stream; do
		deaf_log $kind
		ends_within 8 3 ./logged dlock --syslog -v x sh -c 'exit 3'
		wait_until is_free x
		ends_within 8 0 ./logged dlock --syslog x sh -c 'sleep 1 >/dev/null 2>&1 &'
		wait_until is_free x
		ends_within 8 124 ./logged dlock --syslog --max-run 0.2 x sleep 60
		wait_until is_free x
		ends_within 8 80 ./logged dlock --syslog x \
			sh -c 'redis-cli -s "${DLOCK_SERVER#unix://}" SET lock:x thief PX 60000 >/dev/null'
		cli DEL lock:x >/dev/null
		end_remembered "$last_service"
	done
}

@test "the syslog daemon hangs, a renewal fails once: the next are made, and COMMAND goes on" {
	deaf_log dgram
	hole far
	DLOCK_SERVER=unix://$PWD/far.socket start x ./logged dlock --syslog -t $((3 * TEST_PATIENCE)) x ./tree x
	grows x
	local token
	token=$(cli GET lock:x)
	rm far.socket
	end_remembered "$last_service"
	wait_until file_has x.err 'cannot renew'
	hole far
	stays $((4500 * TEST_PATIENCE)) owner_is x "$token"
	assert is_alive "$x_command"
	queue x
	kill -KILL $x_pid
	judged x
	finish x
}

# ---- A stderr without a reader --------------------------------------------------------------------

@test "front killed, stderr a pipe that another fills before the message: the tree ends in time" {
	service "$BATS_TEST_DIRNAME/../programs/bad_stderr.py" pipe "$PWD/pipe" "$PWD/ready"
	wait_until is_file ready
	start x sh -c 'exec 2>pipe env "$@"' sh PATH="$LOADING:$PATH" LD_PRELOAD="$BATS_FILE_TMPDIR/second_writer.so" \
		dlock -t $((3 * TEST_PATIENCE)) --grace 0.2 x ./tree x
	grows x
	queue x
	kill -KILL $x_pid
	judged x
	finish x
}

@test "front killed, stderr a terminal that was stopped by Ctrl-S: the tree is gone in time" {
	needs terminal
	service "$BATS_TEST_DIRNAME/../programs/bad_stderr.py" tty "$PWD/tty" "$PWD/ready"
	wait_until is_file ready
	start x sh -c 'exec 2>tty dlock "$@"' sh -t $((3 * TEST_PATIENCE)) --grace 0.2 x ./tree x
	grows x
	queue x
	kill -KILL $x_pid
	judged x
	finish x
}

# ---- /proc ----------------------------------------------------------------------------------------

# write_blind HOW: ./blind COMMAND... runs COMMAND in a namespace of its own, where /proc is as HOW has it.
write_blind() {
	printf '#!/bin/sh\n%s\n' "$1" >blind
	chmod +x blind
}

# refused COMMAND...: with 71, one line that says why, and without having asked the server.
refused() {
	cli CONFIG RESETSTAT >/dev/null
	try timeout -s KILL $((20 * TEST_PATIENCE)) ./blind "$@"
	expect_failure 71 '/proc'
	refute_match "$(cli INFO commandstats)" 'eval'
	refute_file ran
}

sees_nothing() {
	refused dlock x touch ran
	refused dlock -n x touch ran
	refused dlock --also y x touch ran
	refused dlock hold x
	try ./blind dlock acquire -t 60 x
	assert_equal "$status" 0 'acquire'
	local token=${out%% *}
	try ./blind dlock status -q x
	expect 0
	try ./blind dlock renew x "$token"
	assert_equal "$status" 0 'renew'
	try ./blind dlock release x "$token"
	assert_equal "$status" 0 'release'
	assert is_free x
}

@test "/proc of another PID namespace: refused with 71 before the grant; acquire and status work" {
	needs pids
	write_blind "exec unshare ${AS_ROOT[*]}"' --pid --fork --kill-child "$@"'
	sees_nothing
}

@test "no /proc but an empty folder: refused with 71 before the grant; acquire and status work" {
	! built_with asan || left_out 'AddressSanitizer needs /proc'
	! built_with tsan || left_out 'ThreadSanitizer needs /proc'
	needs mount
	write_blind 'exec in_mounts sh -c "mount -t tmpfs none /proc && exec \"\$@\"" sh "$@"'
	sees_nothing
}

@test "/proc of its own PID namespace: nothing is refused" {
	needs pids
	write_blind 'exec in_mounts unshare --pid --fork --kill-child --mount-proc "$@"'
	try ./blind dlock x sh -c 'exit 5'
	expect 5
	# Not as the first process there, which could not be stopped.
	try ./blind sh -c 'sh -c "dlock hold -t 2 x && exit 6"; exit $?'
	expect 6
	wait_until is_free x # the keeper dies with its PID namespace, perhaps before it has released
}

@test "/proc of its own PID namespace, by a user of a thousand groups: nothing is refused" {
	needs pids users
	local as=()
	((EUID == 0)) || as=(unshare --map-root-user --map-auto)
	try "${as[@]}" unshare --mount --pid --fork --kill-child --mount-proc \
		setpriv --groups "$(seq -s , 10001 11000)" dlock x sh -c 'exit 5'
	expect 5
	wait_until is_free x
}

# ---- Descriptors ----------------------------------------------------------------------------------

# few WHICH: with 8 to 24 descriptors, as `ulimit WHICH` counts them, and the front killed.
few() {
	local most name names=()
	for most in {8..24}; do
		start n$most bash -c "ulimit $1 $most"' && exec dlock "$@"' bash \
			-t $((6 * TEST_PATIENCE)) --grace 0.2 n$most ./tree n$most
	done
	for most in {8..24}; do
		name=n$most
		pid=${name}_pid
		wait_until started_or_ended $name "${!pid}"
		if [[ ! -e $name.command ]]; then
			finish $name
			expect_failure 71 '' || return 1
			assert is_free $name
			continue
		fi
		# COMMAND gets the limit that its caller had.
		assert_equal "$(<"$name.limit")" $most "COMMAND's limit"
		grows $name
		names+=("$name")
	done
	# Of 16 descriptors every dlock can do with, some must be left.
	((${#names[@]} > 0)) || fail 'none was granted'
	queue "${names[@]}"
	for name in "${names[@]}"; do
		pid=${name}_pid
		kill -KILL "${!pid}"
	done
	judged "${names[@]}"
	for name in "${names[@]}"; do
		pid=${name}_keeper
		wait_until is_gone "${!pid}"
		finish $name
	done
}

started_or_ended() { [[ -e $1.command ]] || is_gone "$2"; }

@test "a soft limit of 8 to 24 descriptors, front killed: refused first, or all gone in time" {
	few -Sn
}

@test "a hard limit of 8 to 24 descriptors, front killed: refused first, or all gone in time" {
	few -n
}

# ---- What lingers has two guardians ---------------------------------------------------------------

# lingering_keeper HOW SIGNAL: COMMAND leaves behind, by HOW, a process that writes `left`; then the keeper
# gets SIGNAL.
lingering_keeper() {
	local left
	cat >stay <<-'END'
		#!/bin/bash
		. ./judge x
		trap '' TERM
		echo $$ >left.new && mv left.new left
		while :; do sleep 0.05; done
	END
	chmod +x stay
	try dlock -t $((3 * TEST_PATIENCE)) --grace 0.2 x bash -c "$1"' >/dev/null 2>&1 </dev/null &
		until [[ -e left ]]; do sleep 0.02; done; exit 4'
	assert_equal "$status" 4 "$err"
	left=$(<left)
	assert_match "$err" "stays with what COMMAND left running: .*\b$left\b"
	queue x
	kill "-$2" "$(parent_of "$left")"
	if ! judged x; then
		kill -KILL "$left" # it may be without the test's mark
		return 1
	fi
	assert is_gone "$left"
	# As a keeper that was stopped may be.
	wait_until nothing_runs
}

readonly PLAIN='./stay' DAEMON='(setsid sh -c "./stay &" &)' BARE='env -i setsid ./stay'

@test "keeper killed while the lock stays with what COMMAND left: gone before the next begins" {
	lingering_keeper "$PLAIN" KILL
}

@test "the same with a daemon that forked twice" { lingering_keeper "$DAEMON" KILL; }

@test "the same with a process that has nothing of dlock's environment" { lingering_keeper "$BARE" KILL; }

@test "keeper stopped while the lock stays with what COMMAND left: gone before the next begins" {
	lingering_keeper "$PLAIN" STOP
}

@test "the same with a daemon that forked twice, keeper stopped" { lingering_keeper "$DAEMON" STOP; }

@test "the same with nothing of dlock's environment, keeper stopped" { lingering_keeper "$BARE" STOP; }

# in_crowd ROUNDS COUNT LIFE: COMMAND leaves behind a process that has so many others, and then starts
# ./stay, of which it is no ancestor any more; last_keeper is the keeper.
in_crowd() {
	[[ -e $BIN/crowd ]] ||
		cc -std=c17 -D_GNU_SOURCE -O1 -static -o "$BIN/crowd" "$BATS_TEST_DIRNAME/../programs/crowd.c"
	cat >stay <<-'END'
		#!/bin/bash
		. ./judge x
		trap '' TERM
		echo $$ >left.new && mv left.new left
		while :; do sleep 0.05; done
	END
	chmod +x stay
	try dlock -t $((6 * TEST_PATIENCE)) --grace 0.2 x bash -c 'env -i PATH="$PATH" crowd "$@" setsid sh -c "./stay & wait" >/dev/null 2>&1 </dev/null &
		echo $! >crowd.pid; exit 4' bash "$@"
	assert_equal "$status" 4 "$err"
	last_keeper=$(parent_of "$(<crowd.pid)")
}

# The second guardian looks once a second, and has room for 8,192.
@test "keeper killed after 9,600 processes came and went in what COMMAND left: none lives on" {
	in_crowd 6 1600 2200
	wait_until -t 60 is_file left
	queue x
	# By then it has been seen as well.
	stays 2500 is_alive "$(<left)"
	kill -KILL "$last_keeper"
	judged x
	assert is_gone "$(<left)"
	wait_until nothing_runs
}

# mutants.bats runs this with room for 64, too: then the others cannot be stopped, as nothing leads to them.
@test "keeper killed while COMMAND left many: the lock is not released before the last has gone" {
	in_crowd 1 200 100000
	local all expires freed living
	wait_until has_children "$(<crowd.pid)" 200
	stays 2500 is_alive "$(<crowd.pid)" # by then they are noted
	all=$(children_of "$(<crowd.pid)")
	kill -KILL "$last_keeper"
	wait_until is_gone "$last_keeper"
	expires=$(expiry_of lock:x)
	wait_until is_free x
	freed=$(now_ms)
	living=$(how_many_live $all)
	((living == 0)) || kill -KILL $all 2>/dev/null || true
	((living == 0 || freed >= expires)) || fail "released while $living processes of the last holder lived"
}

children_of() { cat "/proc/$1/task/$1/children"; }
has_children() { [[ $(children_of "$1" | wc -w) == "$2" ]]; }

how_many_live() { # PID...
	local one count=0
	for one; do
		is_gone "$one" || count=$((count + 1))
	done
	echo $count
}

# ---- The keeper stopped as it kills ---------------------------------------------------------------

stopped_as_it_kills() { # TTL...
	local ttl name names=()
	hole far
	for ttl; do
		name=t$ttl
		names+=("$name")
		touch $name.stop
		start $name env PATH="$LOADING:$PATH" LD_PRELOAD="$BATS_FILE_TMPDIR/stop_at_kill.so" \
			STOP_AT_KILL="$PWD/$name.stop" DLOCK_SERVER="unix://$PWD/far.socket" \
			dlock -t $((ttl * TEST_PATIENCE)) $name ./tree $name
	done
	for name in "${names[@]}"; do
		grows $name
	done
	queue "${names[@]}"
	rule far 'up=0'
	judged "${names[@]}"
	for name in "${names[@]}"; do
		refute_file $name.stop
		finish $name
		assert_equal "$status" 80 $name
	done
}

@test "keeper stopped as it is about to kill, TTL 3 s, 5 s, 10 s: the tree ends before the lock" {
	stopped_as_it_kills 3 5 10
}

# ---- Processes ------------------------------------------------------------------------------------

# as_other_user NAME COMMAND...: `start`, as a user that has no other process.
as_other_user() {
	needs users
	as_user $(((EUID == 0 ? 70000 : 20000) + RANDOM))
	chmod 755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_TEST_TMPDIR" "${BATS_FILE_TMPDIR%/*}" \
		"${BATS_TEST_TMPDIR%/*}" "$BIN"
	mkdir -m 777 out
	cp "$(realpath "$BIN/dlock")" dlock
	local port
	port=$(<"$SERVER/port")
	export DLOCK_SERVER=redis://127.0.0.1:$port
	start "$1" "${become[@]}" "${@:2}"
}

@test "COMMAND at its user's limit of processes when the lock is to be renewed: it goes on" {
	cat >greedy <<-END
		#!$PYTHON
		import os, signal, sys, time
		children = []
		try:
		    while True:
		        child = os.fork()
		        if child == 0:
		            signal.pause()
		        children.append(child)
		except BlockingIOError:
		    open("out/full", "w").write(f"{len(children)}\\n")
		while not os.path.exists("end"):
		    time.sleep(0.02)
		for child in children:
		    os.kill(child, signal.SIGKILL)
		sys.exit(7)
	END
	chmod +x greedy
	as_other_user x bash -c 'ulimit -u 12 && exec "$@"' bash "$PWD/dlock" -t $((3 * TEST_PATIENCE)) x ./greedy
	wait_until is_file out/full
	local token
	token=$(cli GET lock:x)
	stays $((7000 * TEST_PATIENCE)) owner_is x "$token"
	touch end
	finish x
	assert_equal "$status" 7 "$err"
	assert is_free x
}

# ---- What was there before dlock ------------------------------------------------------------------

@test "keeper killed: what a script had started before it became dlock lives, COMMAND's does not" {
	cat >before <<-'END'
		#!/bin/bash
		for ((i = 0; i < 80; i++)); do
			sleep 301 &
		done
		# Orphans of its jobs become dlock's children: now, and while COMMAND runs.
		for at in begin granted; do
			(until [[ -e $at ]]; do sleep 0.02; done; sleep 301 & setsid sleep 301 & echo >"$at.done") &
		done
		exec dlock -t 30 --grace 1 x ./tree x
	END
	chmod +x before
	touch begin
	start x ./before
	grows x
	wait_until test -e begin.done
	touch granted
	wait_until test -e granted.done
	queue x
	stays $((1500 * TEST_PATIENCE)) is_alive $x_keeper # dlock looks every second
	kill -KILL $x_keeper
	judged x
	finish x
	assert_equal "$status" 70
	assert_equal "$(strangers | wc -l)" 84 'processes that were there before'
	strangers | xargs kill -KILL
}

# The processes of this test that are no dlock's.
strangers() {
	local one
	for one in $(marked_pids); do
		[[ $(tr '\0' ' ' <"/proc/$one/cmdline") != 'sleep 301 ' ]] || echo "$one"
	done
}

# ---- The keeper killed after the lock was lost -----------------------------------------------------

# A COMMAND that kills the keeper as soon as it hears the stop signal, with a child that is deaf to it.
killed_in_grace() {
	cat >killer <<-'SCRIPT'
		#!/bin/bash
		trap 'kill -KILL $PPID; wait' TERM
		./tree x &
		until [[ -e x.command ]]; do sleep 0.02; done
		while :; do wait; done
	SCRIPT
	chmod +x killer
	start x dlock -t $((6 * TEST_PATIENCE)) --report report x ./killer
	wait_until is_file x.command
}

was_lost() {
	finish x
	assert_equal "$status" 80 "$err"
	assert_equal "$(jq -r .outcome report)" lost
}

@test "keeper killed in the grace, after the lock could not be proved any longer: exit 80, lost" {
	hole far
	DLOCK_SERVER=unix://$PWD/far.socket killed_in_grace
	queue x
	rule far 'up=0'
	was_lost
	judged x
}

@test "keeper killed in the grace, after the lock was lost: exit 80, lost" {
	killed_in_grace
	cli SET lock:x thief PX 60000 >/dev/null
	was_lost
	assert_equal "$(taken lock:x)" thief
}

# ---- COMMAND ends while its tree is looked at -----------------------------------------------------

# Each process of the tree says that it was asked to stop, and ends. COMMAND has gone when its children are
# looked for, and has not when its parent's are.
begin_asked() { # NAME [OPTION]...
	local name=$1
	shift
	cat >asked <<-'END'
		#!/bin/bash
		trap 'echo "$1" >>told; exit' TERM
		echo >"$1.there"
		while :; do sleep 0.05; done
	END
	chmod +x asked
	start "$name" env PATH="$LOADING:$PATH" LD_PRELOAD="$BATS_FILE_TMPDIR/late_look.so" \
		dlock -t "$((100 * TEST_PATIENCE))" "$@" x env -u LD_PRELOAD \
		bash -c 'for i in 1 2 3 4; do ./asked "$i" & done; trap "exec sleep 0.02" TERM; wait'
	local i
	for i in 1 2 3 4; do
		wait_until is_file $i.there
	done
}

all_were_asked_once() {
	wait_until eval '(($(wc -l <told) >= 4))'
	assert_equal "$(sort told | tr '\n' ' ')" "1 2 3 4 "
}

@test "COMMAND ends as its children are looked for: each of them is asked to stop, and once" {
	: >told
	begin_asked a --max-run "$((2 * TEST_PATIENCE))s"
	all_were_asked_once
	finish a
	assert_equal "$status" 124
}

@test "the same with the keeper stopped" {
	: >told
	begin_asked a --max-run "$((2 * TEST_PATIENCE))s"
	kill -STOP "$(pgrep -P "$a_pid")"
	all_were_asked_once
	finish a
	assert_equal "$status" 124
}
