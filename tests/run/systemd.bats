# As a service of systemd: what dlock tells the service manager, by a socket of the test's own, and
# what COMMAND gets of it.

load ../lib/helper
load ../lib/notify_socket

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() {
	test_begin
	notify_socket
	unset DLOCK_TOKEN
}
teardown() { test_end; }

# ./say: a COMMAND that says something itself, by which its start is known.
make_say() {
	cat >say <<-'END'
		#!/usr/bin/python3
		import os, socket
		s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
		s.sendto(b"READY=1\nSTATUS=of COMMAND", os.environ["NOTIFY_SOCKET"])
	END
	chmod +x say
}

extension='EXTEND_TIMEOUT_USEC=60000000'

@test "a standby says what it waits for and asks for time, then that it holds, and how it ended" {
	begin_holder one leader --label deploy
	start two env NOTIFY_SOCKET="$NOTIFY_SOCKET" dlock leader sh -c 'exit 3'
	wait_until file_has told "^$two_pid $extension\|STATUS=waiting for leader; held by .*:$one_pid \(.*deploy\) for "
	let_go one
	finish two
	assert_equal "$status" 3
	wait_until file_has told 'released leader'
	told_by "$two_pid" >messages
	refute grep -q READY messages
	assert_match "$(tail -n 2 messages | head -n 1)" '^STATUS=holds leader since [0-9-]{10} [0-9:]{8} '
	assert_equal "$(tail -n 1 messages)" 'STATUS=released leader; COMMAND ended with 3'
	# The front says all of it: a manager listens to its main process, by default.
	assert_equal "$(sed 1d told | grep -cv "^$two_pid ")" 0
}

@test "how many are ahead is told anew when that changes" {
	begin_holder one leader
	local name
	for name in two three four; do
		start $name env NOTIFY_SOCKET="$NOTIFY_SOCKET" dlock leader sleep 60
		pid=${name}_pid
		wait_until file_has told "^${!pid} .*waiting for leader"
	done
	wait_until file_has told "^$four_pid .*waiting for leader, 2 ahead; held by"
	kill -TERM "$two_pid"
	wait_until file_has told "^$two_pid STATUS=no longer waits for leader"
	wait_until -t 40 file_has told "^$four_pid .*waiting for leader, 1 ahead; held by" # it looks after 20 to 22 s
	kill -TERM "$four_pid" "$three_pid"
	finish four
	finish three
	finish two
	let_go one
}

@test "the time that it asks for is asked for again, and a watchdog is kept quiet meanwhile" {
	begin_holder one leader
	start two env NOTIFY_SOCKET="$NOTIFY_SOCKET" WATCHDOG_USEC=200000 dlock leader true
	local messages="^$two_pid WATCHDOG=1\|$extension\|STATUS=waiting for leader"
	wait_until eval '(($(grep -cE "$messages" told) >= 4))'
	let_go one
	finish two
	# Then it is COMMAND's to see to.
	wait_until file_has told 'released leader'
	assert_equal "$(grep -c WATCHDOG <(sed '1,/holds leader/d' told))" 0
}

@test "so it is while no server can be reached" {
	own_server other
	start one dlock -S "unix://$PWD/other/socket" leader sleep 60
	wait_until redis-cli -s other/socket EXISTS lock:leader -o /dev/null
	start two env NOTIFY_SOCKET="$NOTIFY_SOCKET" WATCHDOG_USEC=200000 dlock -S "unix://$PWD/other/socket" leader sleep 60
	wait_until file_has told "^$two_pid .*waiting for leader; held by"
	server_end "$PWD/other"
	wait_until file_has told "^$two_pid .*$extension\|STATUS=waiting for leader; (cannot reach|.*connection|.*closed)"
	local lines
	lines=$(wc -l <told)
	wait_until eval '(($(wc -l <told) > lines + 2))'
	kill -TERM "$one_pid" "$two_pid"
	finish two
	finish one
}

@test "--notify-ready: READY=1 comes with the grant, not before, and before COMMAND runs" {
	begin_holder one leader
	make_say
	start two env NOTIFY_SOCKET="$NOTIFY_SOCKET" dlock --notify-ready leader ./say
	wait_until file_has told "waiting for leader"
	refute grep -q READY told
	let_go one
	finish two
	assert_equal "$status" 0
	wait_until file_has told 'released leader'
	sed '/STATUS=waiting/d; 1d; s/ since .*//' told >messages
	assert_equal "$(cut -d' ' -f2- messages)" "READY=1|STATUS=holds leader
READY=1|STATUS=of COMMAND
STATUS=released leader; COMMAND ended with 0"
	assert_equal "$(grep "^$two_pid" messages | grep -c READY)" 1
}

@test "READY=1 comes before COMMAND runs, 20 times" {
	make_say
	local i
	for i in {1..20}; do
		NOTIFY_SOCKET=$NOTIFY_SOCKET dlock --notify-ready leader ./say
	done
	wait_until eval '(($(grep -c "released leader" told) == 20))'
	assert_equal "$(sed 1d told | cut -d' ' -f2- | sed -E 's/.*(holds|of COMMAND|released).*/\1/' | paste -sd' ' | sed 's/holds of COMMAND released//g' | tr -d ' ')" ''
}

@test "a loss is told at once, and at the end" {
	start one env NOTIFY_SOCKET="$NOTIFY_SOCKET" dlock --notify-ready -t 6 leader sh -c 'trap "" TERM; sleep 60 & wait; wait'
	wait_until file_has told 'holds leader'
	dlock -q release --force leader
	wait_until file_has told "^$one_pid STATUS=lost leader; stopping COMMAND"
	finish one
	assert_equal "$status" 80
	wait_until eval 'told_by $one_pid | tail -n 1 | grep -qx "STATUS=lost leader"'
}

@test "--on-lost warn: a loss is told, and that COMMAND goes on" {
	start one env NOTIFY_SOCKET="$NOTIFY_SOCKET" dlock -t 6 --on-lost warn leader sh -c 'until [ -e go ]; do sleep 0.1; done'
	wait_until file_has told 'holds leader'
	dlock -q release --force leader
	wait_until file_has told "^$one_pid STATUS=lost leader; COMMAND goes on"
	touch go
	finish one
	assert_equal "$status" 80
	wait_until eval 'told_by $one_pid | tail -n 1 | grep -qx "STATUS=lost leader"'
}

@test "busy, and no server: the manager learns why" {
	begin_holder one leader
	NOTIFY_SOCKET=$NOTIFY_SOCKET try dlock -n leader true
	assert_equal "$status" 1
	wait_until file_has told 'STATUS=leader is busy; held by '
	let_go one
	NOTIFY_SOCKET=$NOTIFY_SOCKET try dlock -S unix:///nowhere leader true
	assert_equal "$status" 69
	wait_until file_has told 'STATUS=leader: cannot reach unix:///nowhere'
}

@test "an abstract socket; none; one that does not read" {
	local name=@dlock-test-$$
	service "$BATS_TEST_DIRNAME/../programs/notified.py" "$name" "$PWD/abstract"
	wait_until file_has abstract '^begun'
	NOTIFY_SOCKET=$name try dlock leader echo yes
	expect 0 yes
	wait_until file_has abstract 'released leader'
	local path
	for path in /nowhere "@nowhere-$$" relative vsock:2:1234 '' "/$(printf '%0200d' 1)"; do
		NOTIFY_SOCKET=$path try dlock leader echo yes
		expect 0 yes
	done
	# Full after some messages: no one waits for it.
	cat >deaf.py <<-'END'
		import socket, sys, time
		server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
		server.bind(sys.argv[1])
		time.sleep(600)
	END
	service "$PWD/deaf.py" "$PWD/deaf"
	wait_until test -S deaf
	local i
	for i in {1..15}; do
		NOTIFY_SOCKET=$PWD/deaf try dlock leader echo yes
		expect 0 yes
	done
}

@test "COMMAND has NOTIFY_SOCKET, and what it says comes after what dlock says" {
	make_say
	start one env NOTIFY_SOCKET="$NOTIFY_SOCKET" dlock leader ./say
	finish one
	assert_equal "$status" 0
	wait_until file_has told 'released leader'
	sed 1d told | sed -E 's/^[0-9]+ //; s/ since .*//' >messages
	assert_equal "$(<messages)" "STATUS=holds leader
READY=1|STATUS=of COMMAND
STATUS=released leader; COMMAND ended with 0"
}

@test "WATCHDOG_PID and LISTEN_PID that name dlock name COMMAND; others stay" {
	cat >show <<-'END'
		#!/bin/sh
		echo "$$ ${WATCHDOG_PID-unset} ${LISTEN_PID-unset} $LISTEN_FDS"
		exit 7
	END
	chmod +x show
	try sh -c 'WATCHDOG_PID=$$ LISTEN_PID=$$ LISTEN_FDS=1 exec dlock leader ./show'
	assert_equal "$status$err" 7
	read -r pid watchdog listen fds <<<"$out"
	assert_equal "$watchdog $listen $fds" "$pid $pid 1"
	try sh -c 'LISTEN_PID=$$ exec dlock leader ./show'
	read -r pid watchdog listen <<<"$out"
	assert_equal "$watchdog $listen" "unset $pid"
	WATCHDOG_PID=1 LISTEN_PID=x try dlock leader ./show
	assert_match "$out" '^[0-9]+ 1 x'
	# A script without #! too, which libc gives to a shell.
	sed -i 1d show
	try sh -c 'WATCHDOG_PID=$$ exec dlock leader ./show'
	read -r pid watchdog listen <<<"$out"
	assert_equal "$watchdog" "$pid"
	# And dlock guard's.
	try sh -c 'WATCHDOG_PID=$$ exec dlock guard --fence 1 state ./show'
	read -r pid watchdog listen <<<"$out"
	assert_equal "$watchdog" "$pid"
}

@test "a socket that systemd listens on is COMMAND's" {
	hash systemd-socket-activate || left_out "no systemd-socket-activate"
	local port=$((20000 + RANDOM % 10000))
	start service systemd-socket-activate -l "127.0.0.1:$port" -E DLOCK_SERVER -E PATH \
		"$(command -v dlock)" leader python3 -c '
import os, socket
assert os.environ["LISTEN_PID"] == str(os.getpid()), os.environ["LISTEN_PID"]
assert os.environ["LISTEN_FDS"] == "1"
listener = socket.socket(fileno=3)
listener.accept()[0].sendall(b"of COMMAND\n")'
	wait_until bash -c "exec 5<>/dev/tcp/127.0.0.1/$port && head -n 1 <&5 >answer && grep -q . answer" 2>>noise
	assert_equal "$(<answer)" "of COMMAND"
	finish service
	assert_equal "$status" 0
}

@test "a dlock inside of COMMAND is not the service" {
	NOTIFY_SOCKET=$NOTIFY_SOCKET try dlock leader dlock other true
	assert_equal "$status" 0
	wait_until file_has told 'released leader'
	refute grep -q other told
	NOTIFY_SOCKET=$NOTIFY_SOCKET try dlock leader dlock --notify-ready other true
	wait_until file_has told 'READY=1.*holds other'
}

@test "acquire and hold wait the same way" {
	begin_holder one leader
	start two env NOTIFY_SOCKET="$NOTIFY_SOCKET" dlock acquire leader
	wait_until file_has told "^$two_pid $extension\|STATUS=waiting for leader"
	start three env NOTIFY_SOCKET="$NOTIFY_SOCKET" sh -c 'dlock hold leader; exit'
	wait_until file_has told "STATUS=waiting for leader, 1 ahead; held by"
	let_go one
	finish two
	wait_until file_has told "^$two_pid STATUS=holds leader since"
	dlock release leader $out
	finish three
	assert_equal "$status" 0
	assert_equal "$(grep -c 'STATUS=holds leader since' told)" 2
}

# --- Under systemd itself -------------------------------------------------------------------------

shows() { systemctl --user show -P "$2" "$1.service"; }
is_shown() { [[ $(shows "$1" "$2") == "$3"* ]]; }

@test "systemd waits for a standby beyond TimeoutStartSec, and it is active once it leads" {
	mkdir units
	local seconds=$((3 * TEST_PATIENCE))
	cat >units/standby.service <<-END
		[Service]
		Type=notify
		TimeoutStartSec=${seconds}s
		ExecStart=$(realpath "$(command -v dlock)") --notify-ready leader sleep 600
		Environment=DLOCK_SERVER=$DLOCK_SERVER
		Restart=no
	END
	begin_holder one leader
	standby() {
		systemctl --user start --no-block standby
		wait_until is_shown standby StatusText "waiting for leader; held by"
		sleep $((seconds + 2)) # the point is that this time passes
		is_shown standby ActiveState activating
		echo >waited
		wait_until is_shown standby ActiveState active
		is_shown standby StatusText "holds leader since"
		systemctl --user stop standby
		is_shown standby StatusText "released leader"
	}
	export seconds
	under_systemd standby &
	local runner=$!
	wait_until -t $((seconds + 30)) is_file waited || cat under.* >&2
	let_go one
	wait $runner
}
