# --syslog: every kind of message, as a line that a grep can rely on. Each is
#   <PRIORITY>DATE dlock[PID]: NAME: what happened
# with the priority of facility user: 11 for errors, 12 warnings, 14 with -v, 15 with -vv.

load ../lib/helper
load ../lib/log_socket

setup_file() { file_begin; }
teardown_file() { file_end; }

setup() {
	test_begin
	log_socket_begin
	: >lines
	service "$BATS_TEST_DIRNAME/../programs/syslogd.py" "$PWD/log" "$PWD/lines"
	wait_until test -S log
}
teardown() { test_end; }

# said PRIORITY REGEX: exactly one line is that, from the text on.
said() {
	local line="^<$1>[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} dlock\[[0-9]+\]: $2\$"
	arrived() { [[ $(grep -cE -- "$1" lines) == 1 ]]; }
	wait_until -t 5 arrived "$line" || fail "no such line: $line" "$(<lines)"
}

# logs STATUS PRIORITY REGEX OPTION...: a run that says just that, on stderr too.
logs() {
	local status_wanted=$1 priority=$2 regex=$3
	shift 3
	: >lines
	try ./logged dlock --syslog "$@"
	assert_equal "$status" "$status_wanted" "$*: $err"
	said "$priority" "$regex"
	assert grep -qE -- "^dlock: $regex\$" try.err
	assert_equal "$(wc -l <lines)" "$(wc -l <try.err)" "lines"
}

# run_in_background NAME OPTION...: a run that logs, with a witness as COMMAND; as `hold`.
holds() {
	local name=$1
	shift
	start "$name" ./logged dlock --syslog "$@" witness count "$PWD/$name.count"
	wait_until file_has "$name.count" '^ready'
	declare -g "${name}_command=$(sed -n 's/^ready //p' "$name.count")"
	local command=${name}_command
	declare -g "${name}_keeper=$(parent_of "${!command}")"
}

readonly HOLDER='held by [^ ]+:[0-9]+ \(tester, count, 1st\) for [0-9a-z]+'

@test "busy, timed out" {
	begin_holder one x --label 'count, 1st'
	logs 1 12 "x: busy: $HOLDER" -n x true
	logs 1 12 "x: busy after 200ms: $HOLDER" -w 0.2 x true
	let_go one
}

@test "no server, one that refuses, a key that is somebody else's" {
	logs 69 11 'x: cannot reach unix:///no/where: No such file or directory' -S unix:///no/where x true
	logs 0 12 'x: not run \(--if-unreachable skip\): cannot reach unix:///no/where: No such file or directory' \
		--if-unreachable skip -S unix:///no/where x true
	own_server closed --requirepass secret
	logs 77 11 "x: unix://.*/closed/socket asks for a password \(.*\)" -S "unix://$PWD/closed/socket" x true
	cli LPUSH lock:x y >/dev/null
	logs 76 11 "x: the key 'lock:x' holds other data than a lock and was left alone; .*" x true
	cli DEL lock:x >/dev/null
}

@test "the command line, the configuration, the command" {
	logs 64 11 "--wait: 'soon' is no duration .*" -w soon x true
	logs 64 11 "unknown option '--nonsense'" --nonsense x true
	DLOCK_SERVER='' logs 78 11 "no server is named: .*" --config /dev/null x true
	echo 'colour = red' >conf
	logs 78 11 "conf:1: unknown key 'colour'" --config conf x true
	logs 127 11 "x: .*'/no/such/program'.*" x /no/such/program
	touch plain
	logs 126 11 "x: cannot execute '[^ ]*plain': Permission denied" x ./plain
	printf 'server = unix://:pw@%s/socket\n' "$SERVER" >conf
	chmod 644 conf
	logs 0 12 'conf:1: any user may read this password .*' --config conf x true
	logs 64 11 "x: .*/no/such/folder/report.*" --report /no/such/folder/report x true
}

@test "-v: what goes on" {
	: >lines
	try ./logged dlock --syslog -v x true
	assert_equal "$status" 0
	said 14 "x: asking unix://$SERVER/socket"
	said 14 'x: waited [0-9a-z]+, held for [0-9a-z]+, fencing token [0-9]{16}'
	try ./logged dlock --syslog -v --cooldown 1h x true
	said 14 'x: not run: it succeeded [0-9a-z]+ ago \(begun [0-9a-z]+ ago, on [^)]+\)'
	begin_holder one x --label 'count, 1st'
	: >lines
	try ./logged dlock --syslog -v -w $((200 * TEST_PATIENCE))ms x true
	said 14 "x: waiting, 0 ahead; $HOLDER"
	let_go one
}

@test "-vv: each renewal, which -v does not tell of" {
	local run='until grep -q renewed lines; do sleep 0.05; done'
	: >lines
	try ./logged dlock --syslog -v -t 2 x sleep 1
	refute grep -q renewed lines
	try ./logged dlock --syslog -vv -t 2 x timeout 10 sh -c "$run"
	assert_equal "$status" 0
	assert grep -qE '^<15>.* x: the lock is renewed$' lines
	assert grep -qx 'dlock: x: the lock is renewed' try.err
}

@test "lost: taken by somebody else, no longer proved, set again" {
	holds one -t 3 x
	cli SET lock:x foreign PX 5000 >/dev/null
	finish one
	assert_equal "$status" 80
	said 11 'x: the lock was lost: somebody else took it, or it was ended; stopping COMMAND'
	cli DEL lock:x >/dev/null

	: >lines
	holds two -t 3 --on-lost warn y
	cli SET lock:y foreign PX 5000 >/dev/null
	wait_until file_has lines 'goes on'
	said 12 'y: the lock was lost; COMMAND goes on \(--on-lost warn\)'
	kill -RTMIN "$two_command"
	finish two
	cli DEL lock:y >/dev/null

	: >lines
	holds three -t 30 z
	cli FLUSHALL >/dev/null
	cli CLIENT KILL TYPE normal >/dev/null || true
	wait_until file_has lines 'set again'
	said 12 'z: the server had lost the lock; nobody came between, it is set again'
	kill -RTMIN "$three_command"
	finish three
	assert_equal "$status" 0

	: >lines
	holds four -t 2 w
	server_stop
	finish four
	server_continue
	assert_equal "$status" 80
	said 11 'w: the lock cannot be proved any longer; stopping COMMAND'
	said 12 'w: cannot renew the lock \(.*\); trying again until it cannot be proved any longer'
}

@test "--max-run, a keeper or a front that was killed, children that live on" {
	: >lines
	try ./logged dlock --syslog --max-run 0.2 x sleep 100
	assert_equal "$status" 124
	said 11 'x: ran for more than 200ms; stopping COMMAND'

	: >lines
	holds one x
	kill -KILL "$one_keeper"
	finish one
	assert_equal "$status" 70
	said 11 "x: dlock's keeper was killed; COMMAND was stopped"

	: >lines
	holds two -t 3 x
	kill -KILL "$two_pid"
	wait_until is_gone "$two_command"
	said 11 "x: dlock \(pid $two_pid\) was killed; stopping COMMAND"
	wait_until is_free x

	: >lines
	try ./logged dlock --syslog x sh -c 'sleep 1 >/dev/null 2>&1 & echo $! >child'
	assert_equal "$status" 0
	said 12 "x: .*$(<child).*"
	wait_until is_free x
}

@test "a release that cannot be sent; a report that cannot be written" {
	: >lines
	try ./logged dlock --syslog -t 60 x sh -c "kill -STOP $(server_pid)"
	server_continue
	assert_equal "$status" 0
	said 12 'x: could not release the lock \(.*\); it frees itself within [0-9]+ s'
	cli FLUSHALL >/dev/null
	: >lines
	try ./logged dlock --syslog --report-fd 7 x true 7>/dev/full
	said 12 'x: cannot write the report to .*: No space left on device'
}

@test "the other commands: status, check, guard" {
	logs 69 11 'cannot reach unix:///no/where: No such file or directory' status -S unix:///no/where
	logs 69 11 'cannot reach unix:///no/where: No such file or directory' check -S unix:///no/where
	try dlock guard --fence 5 state true
	logs 82 11 "the fencing token 4 is stale: 'state' has seen 5" guard --fence 4 state true
}

@test "only with --syslog, or syslog = yes; -q and -qq count, too; nothing of it is inherited" {
	begin_holder one x
	try ./logged dlock -n x true
	try ./logged dlock --syslog -q -n x true
	try ./logged dlock --syslog -qq -S unix:///no/where x true
	printf 'syslog = no\n' >conf
	try ./logged dlock --config conf -n x true
	try ./logged dlock --syslog y sh -c 'ls -l /proc/self/fd >fds'
	assert_equal "$(<lines)" ''
	refute grep -q socket fds
	printf 'syslog = yes\n' >conf
	try ./logged dlock --config conf -n x true
	said 12 'x: busy: held by .*'
	let_go one

	# A warning before COMMAND opens the socket: COMMAND does not get it.
	printf 'server = unix://:pw@%s/socket\n' "$SERVER" >conf
	chmod 644 conf
	try ./logged dlock --syslog --config conf x sh -c 'ls -l /proc/self/fd >fds'
	assert_equal "$status" 0
	refute grep -q socket fds
}

@test "foreign text stays one line, without control characters; a long NAME is not cut off" {
	begin_holder one x
	local token record
	token=$(cli GET lock:x)
	record=$(cli GET "lock:{lock:x}:who:$token")
	cli SET "lock:{lock:x}:who:$token" "${record%%host=*}"$'host=h\e[31m\u202eX\nY\tpid=1\tuser=%s%n\tlabel=l' KEEPTTL >/dev/null
	: >lines
	try ./logged dlock --syslog -n x true
	said 12 'x: busy: held by h\?\[31m\?X\?Y:1 \(%s%n, l\) for .*'
	cli FLUSHALL >/dev/null
	let_go one || true
	local name
	name=$(printf 'n%.0s' {1..512})
	: >lines
	try ./logged dlock --syslog -v "$name" true
	said 14 "$name: asking .*"
	: >lines
	try ./logged dlock --syslog -v $'a\u202eb' true # no control character, but it turns text round
	said 14 'a\?b: asking .*'
}

@test "no syslog to be had, or one that takes nothing: the run goes as without" {
	rm log
	try ./logged dlock --syslog -n -v x echo ran
	assert_equal "$status $out" '0 ran'
	# Without a reader the keeper hangs in its message; the front sees to it that COMMAND ends in time.
	deaf_log dgram
	holds one -t 4 y
	server_stop
	local stopped
	stopped=$(now_ms)
	wait_until is_gone "$one_command"
	assert_between $(($(now_ms) - stopped)) 0 4000 "ms, of the TTL's 4000"
	wait_until file_has one.err 'y: the lock cannot be proved any longer' # before it hangs
	end_remembered "$last_service"
	finish one
	server_continue
	assert_equal "$status" 80
}
