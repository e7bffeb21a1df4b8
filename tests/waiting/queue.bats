# The queue: in order, also if a waiter dies, stops or comes between; and what waiting costs the server.

load ../lib/helper
load ../lib/waiters
load ../lib/scripts

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

has_short_lease() { (($(cli PTTL "lock:{lock:x}:who:$(token_of "$1")") < 10000)); } # PID

# What the dead leave behind ends with their leases.
bury() {
	assert_equal "$(cli EVAL '
		local immortal = {}
		for _, key in ipairs(redis.call("KEYS", "*")) do
			if redis.call("PTTL", key) == -1 then
				immortal[#immortal + 1] = key
			end
		end
		return immortal' 0)" '' 'without an expiry'
	cli FLUSHALL >/dev/null
}

@test "first come, first served" {
	begin_holder one x
	local name
	for name in a b c d e f g h; do
		enqueue $name
	done
	let_go one
	finish_all a b c d e f g h
	assert_order a b c d e f g h
}

# For how long the scheduler runs a process at a time (ns), where the kernel tells.
slice_of() { sed -n 's/^se\.slice *: *//p' "/proc/$1/sched" 2>/dev/null; } # PID

slices_are_chosen() { printf '%s\n' 6.12 "$(uname -r)" | sort -VC && [[ -n $(slice_of self) ]]; }

assert_slices() { # what COMMAND wrote
	assert_equal "$(sed -n 's/^se\.slice *: *//p' mine)" "$usual"
	! slices_are_chosen || (($(sed -n 's/^se\.slice *: *//p' keeper) < usual)) || fail 'the keeper has a long slice'
	rm mine keeper
}

@test "dlock is run at once when it is woken; COMMAND is as it would be without" {
	local usual
	# shellcheck disable=SC2016 # for the shell in it
	local -a command=(sh -c 'cat /proc/self/sched >mine; cat /proc/$PPID/sched >keeper; :')
	usual=$(slice_of self)
	try dlock x "${command[@]}"
	expect 0
	assert_slices
	begin_holder one x
	start two dlock x "${command[@]}"
	wait_until queued x 1
	wait_until listens "$pid"
	! slices_are_chosen || (($(slice_of "$pid") < usual)) || fail "$(slice_of "$pid"), not below $usual"
	let_go one
	finish_all two
	assert_slices
}

@test "a newcomer with -n never overtakes, however often it tries" {
	begin_holder one x
	local name
	for name in a b c d e f; do
		enqueue $name
	done
	cat >greedy <<-'END'
		#!/bin/bash
		until [[ -e enough ]]; do
			dlock -n -q x sh -c 'echo greedy >>order'
		done
	END
	start greedy1 bash greedy
	start greedy2 bash greedy
	let_go one
	finish_all a b c d e f
	: >enough
	finish greedy1
	finish greedy2
	assert_equal "$(sed -n '1,6p' order | tr '\n' ' ')" "a b c d e f "
}

@test "a newcomer with -n leaves a lock that just expired to the waiters" {
	cli SET lock:x "elsewhere:1:00112233445566778899aabbccddeeff" PX 600000 >/dev/null
	enqueue a
	signal_waiters STOP "$a_pid" # its own timer shall not be what saves it
	cli DEL lock:x >/dev/null
	try dlock -n x true
	assert_equal "$status" 1
	signal_waiters CONT "$a_pid"
	finish_all a
	assert_order a
}

@test "a waiter that was killed is passed over, at every place of the queue" {
	local place name began
	for place in a b c d e; do
		rm -f order one.count
		begin_holder one x
		for name in a b c d e; do
			enqueue $name
		done
		local victim=${place}_pid
		signal_waiters KILL "${!victim}"
		began=$(now_ms)
		let_go one
		for name in a b c d e; do
			[[ $name == "$place" ]] || finish_all $name
		done
		assert_between $(($(now_ms) - began)) 0 $((5000 * TEST_PATIENCE)) ms
		assert_order $(tr -d "$place" <<<'a b c d e')
		bury
	done
}

@test "four dead in a row at the head cost the fifth no more than about a second" {
	begin_holder one x
	local name began
	for name in a b c d e; do
		enqueue $name
	done
	signal_waiters KILL $a_pid $b_pid $c_pid $d_pid
	began=$(now_ms)
	let_go one
	finish_all e
	assert_between $(($(now_ms) - began)) 0 $((4000 * TEST_PATIENCE)) ms
	assert_order e
	bury
}

@test "all waiters killed: the next to come gets it" {
	begin_holder one x
	local name began
	for name in a b c; do
		enqueue $name
	done
	signal_waiters KILL $a_pid $b_pid $c_pid
	let_go one
	began=$(now_ms)
	try dlock -w 20 x echo ran
	expect 0 ran
	assert_between $(($(now_ms) - began)) 0 $((5000 * TEST_PATIENCE)) ms
	bury
}

@test "killed between grant and claim: the next has it within about a second" {
	begin_holder one x
	enqueue a
	enqueue b
	signal_waiters STOP "$a_pid"
	let_go one
	wait_until owner_is_pid "$a_pid"
	signal_waiters KILL "$a_pid"
	local began
	began=$(now_ms)
	finish_all b
	assert_between $(($(now_ms) - began)) 0 $((3000 * TEST_PATIENCE)) ms
	assert_order b
	bury
}

owner_is_pid() { [[ $(cli GET lock:x) == *":$1:"* ]]; }

@test "stopped past its claim, then continued: back at its old place" {
	begin_holder one x
	enqueue a
	enqueue b
	start c dlock x sh -c 'echo c >>order; until [ -e done ]; do sleep 0.02; done'
	wait_until queued x 3
	enqueue d
	signal_waiters STOP "$a_pid"
	let_go one
	finish_all b
	wait_until order_is b c
	signal_waiters CONT "$a_pid"
	wait_until queued x 2 # d, and a again
	assert_equal "$(cli ZRANK "$(queue_of x)" "$(token_of "$a_pid")")" 0
	: >done
	finish_all a c d
	assert_order b c a d
}

@test "passed over before it came to listen again: back at its place at once" {
	begin_holder one x
	enqueue a
	enqueue b
	signal_waiters STOP "$a_pid"
	local token
	token=$(token_of "$a_pid")
	cli RPUSH "lock:{lock:x}:wake:$token" 'look 20000' >/dev/null
	cli DEL "lock:{lock:x}:who:$token" >/dev/null
	cli ZREM "$(queue_of x)" "$token" >/dev/null
	signal_waiters CONT "$a_pid"
	wait_until -t 6 is_first "$token"
	let_go one
	finish_all a b
	assert_order a b
}

is_first() { [[ $(cli ZRANK "$(queue_of x)" "$1") == 0 ]]; } # TOKEN

@test "slow to look after a short listening, but within its claim: not passed over" {
	begin_holder one x
	enqueue a
	enqueue b
	# As the next waiter is told to; then a does not come to listen again for a moment.
	cli RPUSH "lock:{lock:x}:wake:$(token_of "$a_pid")" 'look 1500' >/dev/null
	wait_until has_short_lease "$a_pid"
	signal_waiters STOP "$a_pid"
	wait_until listeners_are 1
	let_go one
	stays 200 owner_is_pid "$a_pid"
	signal_waiters CONT "$a_pid"
	finish_all a b
	assert_order a b
}

@test "slow to read that it is next, and told once more: not passed over" {
	begin_holder one x
	enqueue first --priority 9
	enqueue a
	enqueue b
	signal_waiters STOP "$a_pid"
	# The first message goes to a's socket, the second lies unread.
	local other signalled
	for other in first second; do
		[[ $other == first ]] || enqueue second --priority 9
		signalled=${other}_pid
		kill -TERM "${!signalled}"
		finish $other
	done
	assert_equal "$(cli LLEN "lock:{lock:x}:wake:$(token_of "$a_pid")")" 1
	wait_until is_late "$a_pid"
	let_go one
	stays 200 owner_is_pid "$a_pid"
	signal_waiters CONT "$a_pid"
	finish_all a b
	assert_order a b
}

is_late() { (($(cli PTTL "lock:{lock:x}:who:$(token_of "$1")") < 1800)); } # PID

@test "the handoff's message is delayed past the claim: the next goes, then the old place again" {
	begin_holder one x
	start wire python3 "$BATS_TEST_DIRNAME/../programs/proxy.py" "$PWD/proxy.socket" "$SERVER/socket" "$PWD/turns"
	wait_until test -S proxy.socket
	enqueue a -S "unix://$PWD/proxy.socket"
	enqueue b
	start c dlock x sh -c 'echo c >>order; until [ -e done ]; do sleep 0.02; done'
	wait_until queued x 3
	enqueue d
	kill -STOP "$wire_pid"
	let_go one
	finish_all b
	wait_until order_is b c
	kill -CONT "$wire_pid"
	wait_until queued x 2 # d, and a again
	assert_equal "$(cli ZRANK "$(queue_of x)" "$(token_of "$a_pid")")" 0
	: >done
	finish_all a c d
	assert_order b c a d
	kill "$wire_pid"
	finish wire
}

sockets_of() { find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null | sort; } # PID

@test "killed at random, many times over: everyone else runs, nobody overlaps" {
	cat >step <<-'END'
		#!/bin/bash
		exec 8>judge
		flock -n 8 || echo overlap >>violations
		echo . >>runs
	END
	chmod +x step
	cat >contender <<-'END'
		#!/bin/bash
		for i in {1..8}; do
			dlock -q x ./step || echo "exit $?" >>violations
		done
	END
	local i
	for i in {1..6}; do
		start "c$i" bash contender
	done
	for i in {1..12}; do
		start "v$i" dlock -qq x ./step
		sleep "0.0$((RANDOM % 10))"
		kill -KILL "$pid" 2>/dev/null || true
	done
	for i in {1..6}; do
		finish "c$i"
		assert_equal "$status$err" 0
	done
	for i in {1..12}; do
		finish "v$i"
	done
	refute_file violations
	assert_between "$(wc -l <runs)" 48 60
	bury
}

@test "behind a foreign client: its key deleted, which nobody tells" {
	cli SET lock:x foreign >/dev/null
	enqueue a
	enqueue b
	local began
	began=$(now_ms)
	cli DEL lock:x >/dev/null
	finish_all a b
	assert_between $(($(now_ms) - began)) 0 $((2500 * TEST_PATIENCE)) ms
	assert_order a b
}

@test "behind a foreign client: its key expires" {
	cli SET lock:x foreign PX 600000 >/dev/null
	enqueue a
	local began
	began=$(now_ms)
	cli PEXPIRE lock:x 300 >/dev/null
	finish_all a
	assert_between $(($(now_ms) - began)) 300 $((2800 * TEST_PATIENCE)) ms
}

@test "behind a foreign client: its key goes to another foreign client" {
	cli SET lock:x foreign PX 600000 >/dev/null
	enqueue a
	local began
	began=$(now_ms)
	cli SET lock:x another PX 1500 >/dev/null
	finish_all a
	assert_between $(($(now_ms) - began)) 1500 $((4000 * TEST_PATIENCE)) ms
}

@test "behind a foreign client that extends its lock: still a look a second" {
	cli SET lock:x foreign PX $((2000 * TEST_PATIENCE)) >/dev/null
	enqueue a
	cli PEXPIRE lock:x 600000 >/dev/null
	stays $((2000 * TEST_PATIENCE + 900)) queued x 1 # past what it had at first
	local before after
	before=$(commands_so_far)
	sleep 3
	after=$(commands_so_far)
	assert_between $((after - before)) 3 20 commands
	cli DEL lock:x >/dev/null
	finish_all a
}

@test "the holder's host is dead: the head's own timer" {
	begin_holder one x -t 2
	enqueue a
	enqueue b
	# Both: no process renews, none releases.
	kill -KILL $one_pid $one_keeper
	local began
	began=$(now_ms)
	finish_all a b
	assert_between $(($(now_ms) - began)) 0 $((3500 * TEST_PATIENCE)) ms
	assert_order a b
	finish one
}

@test "the holder's host is dead: the timer of a lone waiter, and of the second of two" {
	local first
	for first in '' a; do
		rm -f one.count order
		begin_holder one x -t 2
		[[ -z $first ]] || enqueue a
		enqueue b
		kill -KILL $one_pid $one_keeper ${first:+$a_pid}
		local began
		began=$(now_ms)
		finish_all b
		assert_between $(($(now_ms) - began)) 0 $((6000 * TEST_PATIENCE)) ms
		finish one
	done
	bury
}

@test "a foreign client takes the lock from a holder: the waiters go on waiting" {
	begin_holder one x -t 3
	enqueue a
	cli SET lock:x foreign PX 4000 >/dev/null
	finish one
	assert_equal "$status" 80
	refute_file order
	finish_all a
	assert_order a
}

@test "a signal gives the place back, and dlock dies of it" {
	begin_holder one x
	local name=a sig
	for sig in INT TERM HUP QUIT; do
		enqueue a
		enqueue b
		kill -$sig "$a_pid"
		finish a
		assert_equal "$status" $((128 + $(kill -l $sig)))
		queued x 1 || fail "$sig: still queued"
		assert_equal "$(cli --raw KEYS 'lock:{lock:x}:w*' | grep -c ":$a_pid:" || true)" 0 'keys of a'
		kill -TERM "$b_pid"
		finish b
	done
	let_go one
}

@test "the end of -w gives the place back" {
	begin_holder one x
	enqueue b
	try dlock -w 0.5 x true
	expect_failure 1 'busy after 500ms: held by'
	queued x 1 || fail 'still queued'
	let_go one
	finish_all b
}

@test "the place is kept when the connection is cut" {
	begin_holder one x
	local name round
	for name in a b c; do
		enqueue $name
	done
	for round in 1 2 3; do
		cli CLIENT KILL TYPE normal SKIPME yes >/dev/null
		for name in a b c; do
			local waiter=${name}_pid
			wait_until listens "${!waiter}"
		done
		queued x 3 || fail "queued: $(cli ZCARD "$(queue_of x)")"
	done
	enqueue d
	let_go one
	finish_all a b c d
	assert_order a b c d
}

@test "the server restarts empty: waiters keep off until the holder is back, then go on in order" {
	begin_holder one x
	local name
	for name in a b c d e f g h; do
		enqueue $name
	done
	local token
	token=$(cli GET lock:x)
	server_end "$SERVER"
	for name in a b c d e f g h; do
		local waiter=${name}_pid
		wait_until is_cut_off "${!waiter}"
	done
	server_again "$SERVER"
	wait_until owner_is x "$token"
	wait_until queued x 8
	refute_file order
	let_go one
	assert_equal "$status" 0
	assert_match "$err" 'set again'
	finish_all_restarted a b c d e f g h
	assert_order a b c d e f g h
}

keeps_off() { (($(cli HGET "$(meta_of x)" off) > 0)); }
is_zombie() { [[ $(proc_state "$1") == Z ]]; } # PID

@test "the server restarts empty, its holder ends before it has set the lock again: no waiting" {
	begin_holder one x -t 10m
	enqueue a
	kill -STOP "$one_keeper"
	server_end "$SERVER"
	wait_until is_cut_off "$a_pid"
	server_again "$SERVER"
	wait_until keeps_off
	kill -RTMIN "$one_command"
	wait_until is_zombie "$one_command"
	kill -CONT "$one_keeper"
	finish one
	assert_equal "$status" 0
	finish_all_restarted a
}

scripts_ran() { (($(grep -c '"EVALSHA"' monitor.out) >= $1)); } # COUNT

# released_with INDEX: what the last script was sent as ARGV[INDEX].
released_with() {
	grep '"EVALSHA"' monitor.out | tail -n 1 | grep -oE '"[^"]*"' | sed -n "$((9 + $1))s/\"//gp"
}

was_release() { [[ -n $(released_with 14) ]]; } # as no renewal has so many

@test "a release says until when the lock is proved, by the server's clock: not when lost" {
	local since
	try dlock x true # the server knows the scripts from now on
	start monitor redis-cli -s "$SERVER/socket" MONITOR
	wait_until file_has monitor.out OK

	try dlock -t 100 x true
	expect 0
	wait_until scripts_ran 2
	since=$(released_with 8)
	# A tenth of the TTL is for clocks at different rates.
	assert_between "$(released_with 14)" $((since + 80000000)) $((since + 90000000))

	begin_holder one x -t 3
	wait_until scripts_ran 8
	let_go one
	wait_until scripts_ran 9
	assert_between "$(($(released_with 14) - $(released_with 8)))" 4000000 20000000

	begin_holder two x -t 3
	cli SET lock:x other >/dev/null
	finish two
	assert_equal "$status" 80
	wait_until scripts_ran 12
	assert_equal "$(released_with 14)" 0
	cli DEL lock:x >/dev/null

	# The front that takes over from a killed keeper knows when the grant came: not just now.
	begin_holder three x -t 3 --grace 0.2
	wait_until scripts_ran 18
	kill -KILL "$three_keeper"
	finish three
	assert_equal "$status" 70
	wait_until was_release
	assert_between "$(($(released_with 14) - $(released_with 8)))" 4000000 20000000
	kill "$monitor_pid"
	finish monitor
}

@test "a waiter ends by a signal while the server is away" {
	begin_holder one x
	enqueue a
	server_end "$SERVER"
	wait_until is_cut_off "$a_pid"
	kill -TERM "$a_pid"
	finish a
	assert_equal "$status" 143
	server_again "$SERVER"
	let_go one
	refute_file order
}

@test "a waiter is a front without a connection and a keeper with one" {
	counts_threads
	begin_holder one x
	local name waiter keeper
	for name in a b c; do
		enqueue $name
	done
	for name in a b c; do
		waiter=${name}_pid
		keeper=$(pgrep -P "${!waiter}")
		assert_equal "$(sockets_of "${!waiter}" | wc -l)" 0 'sockets of the front'
		assert_equal "$(sockets_of "$keeper" | wc -l)" 1 'sockets of the keeper'
		assert_equal "$(pgrep -P "$keeper")" '' 'children of the keeper'
		assert_equal "$(ls "/proc/${!waiter}/task" "/proc/$keeper/task" | grep -c '^[0-9]')" 2 'threads'
	done
	let_go one
	finish_all a b c
}

@test "50 processes, one counter" {
	cat >step <<-'END'
		#!/bin/bash
		read -r count <counter
		echo $((count + 1)) >counter
	END
	chmod +x step
	echo 0 >counter
	local i
	for i in {1..50}; do
		start "p$i" dlock x ./step
	done
	for i in {1..50}; do
		finish "p$i"
		assert_equal "$status$err" 0
	done
	assert_file counter 50
	assert_equal "$(cli KEYS '*')" "$(meta_of x)"
}

# ten_wait OPTION: for x, which is held; all with OPTION.
ten_wait() {
	local mode=${1//[-=]/} i waiter
	begin_holder "$mode" x -t 120 $1
	for i in {1..10}; do
		start "$mode$i" dlock -w 600 $1 x true
	done
	wait_until queued x 10
	for i in {1..10}; do
		waiter=$mode${i}_pid
		wait_until listens "${!waiter}"
	done
}

ten_leave() { # OPTION
	local mode=${1//[-=]/} i waiter
	for i in {1..10}; do
		waiter=$mode${i}_pid
		kill -TERM "${!waiter}"
		finish "$mode$i"
	done
	let_go "$mode"
}

@test "waiting, for a permit, too, costs the server at most 0.3 commands per waiter and second" {
	local -A before
	local after mode usual=$SERVER
	own_server other
	# A server for each, at the same time.
	on_other() { SERVER=$PWD/other DLOCK_SERVER=unix://$PWD/other/socket; }
	ten_wait -x
	before[-x]=$(commands_so_far)
	on_other
	ten_wait --permits=1
	before[--permits=1]=$(commands_so_far)
	sleep 24 # longer than a waiter listens at a time: the looks are in it
	for mode in --permits=1 -x; do
		after=$(commands_so_far)
		assert_between $((after - ${before[$mode]})) 10 $((10 * 24 * 3 / 10)) "commands with $mode"
		ten_leave $mode
		SERVER=$usual DLOCK_SERVER=unix://$usual/socket
	done
}

commands_so_far() { cli INFO stats | sed -n 's/^total_commands_processed:\([0-9]*\).*/\1/p'; }

# release_cost WAITERS: what the server does for one release, all calls inside the script counted.
release_cost() {
	local c='lock:{lock:x}:' before
	cli FLUSHALL >/dev/null
	cli EVAL "
		for i = 1, $1 do
			redis.call('ZADD', '${c}queue', i, 'waiter' .. i)
			redis.call('SET', '${c}who:waiter' .. i, 'x|' .. i .. '|', 'PX', 60000)
		end
		redis.call('SET', 'lock:x', 'me')" 0 >/dev/null
	before=$(commands_so_far)
	give x me fence=1 gen=1 since=1
	echo $(($(commands_so_far) - before))
	assert_equal "${reply[*]}" 'released waiter1'
}

@test "many waiters drain in order, without an error" {
	# The long suite, half a minute: QUEUE_MANY=1000 bats -f many tests/waiting/queue.bats
	local many=${QUEUE_MANY:-150} number waiters=()
	BATS_TEST_TIMEOUT=$((many * TEST_PATIENCE))
	begin_holder one x
	for ((number = 0; number < many; number++)); do
		dlock x sh -c "echo $number >>order" 2>>errors 3>&- 4>&- &
		waiters+=($!)
		wait_until -t 30 queued x $((number + 1))
	done
	let_go one
	wait_until -t $((many)) all_gone "${waiters[@]}"
	assert_equal "$(<errors)" '' 'messages'
	seq 0 $((many - 1)) | diff order -
}

@test "a release costs the server the same with 2 and with 1,000 waiters" {
	local few many
	few=$(release_cost 2)
	many=$(release_cost 1000)
	assert_between "$many" 5 "$few" commands
	assert_between "$few" 5 20 commands
	cli FLUSHALL >/dev/null
}
