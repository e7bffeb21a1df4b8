# -s, --permits, --priority.

load ../lib/helper
load ../lib/waiters

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

sharers_are() { [[ $(cli ZCARD "lock:{lock:x}:holders") == "$1" ]]; }
mode_of() { cli GET lock:x; }

@test "-s is held by many at a time, -x by none beside them" {
	begin_holder a x -s
	begin_holder b x --shared
	try dlock -n -s x echo third
	expect 0 third
	try dlock -n x true
	assert_equal "$status" 1
	try dlock -n --permits 5 x true
	assert_equal "$status" 1
	let_go a
	try dlock -n x true
	assert_equal "$status" 1
	let_go b
	try dlock -n x echo free
	expect 0 free
}

@test "of -x, -s and --permits the last counts" {
	begin_holder a x -s
	try dlock -n -s -x x true
	assert_equal "$status" 1
	try dlock -n --permits 3 -s x true
	expect 0
	try dlock -n -s --permits 3 x true
	assert_equal "$status" 1
	let_go a
}

@test "--permits K: K hold it, and one with a smaller K waits for fewer" {
	begin_holder a x --permits 2
	try dlock -n --permits 1 x true
	assert_equal "$status" 1
	begin_holder b x --permits 2
	try dlock -n --permits 2 x true
	assert_equal "$status" 1
	try dlock -n --permits 3 x echo third
	expect 0 third
	let_go a
	try dlock -n --permits 2 x echo second
	expect 0 second
	let_go b
}

@test "--permits, --priority: what is no such number is refused" {
	local value
	for value in 0 -1 1000001 two ''; do
		try dlock --permits "$value" x true
		expect_failure 64 "--permits: '$value'"
	done
	for value in -1001 1001 high ''; do
		try dlock --priority "$value" x true
		expect_failure 64 "--priority: '$value'"
	done
}

@test "a foreign client sees a shared lock and permits as held, to the end of the longest" {
	local mode
	for mode in -s '--permits 4'; do
		rm -f one.count two.count
		begin_holder one x $mode -t 30
		begin_holder two x $mode -t 90
		assert_equal "$(cli SET lock:x foreign NX)" ''
		assert_between "$(cli PTTL lock:x)" 60000 90000 'pttl of both'
		let_go two
		assert_equal "$(cli SET lock:x foreign NX)" ''
		assert_between "$(cli PTTL lock:x)" 10000 30000 'pttl of the first'
		let_go one
		assert_equal "$(cli SET lock:x foreign NX PX $((300 * TEST_PATIENCE)))" OK
		try dlock -n $mode x true
		assert_equal "$status" 1
		wait_until is_free x
	done
}

@test "a stream of readers does not starve a writer" {
	cat >reader <<-'END'
		#!/bin/bash
		until [[ -e enough ]]; do
			dlock -s x sh -c 'echo r >>order; sleep 0.05' || exit
		done
	END
	local i
	for i in 1 2 3 4; do
		start "r$i" bash reader
	done
	wait_until file_has order r
	try dlock -w 20 x sh -c 'echo w >>order'
	expect 0
	wait_until file_has order w
	# The writers do not keep the readers out either.
	wait_until readers_come_after_the_writer
	: >enough
	for i in 1 2 3 4; do
		finish "r$i"
		assert_equal "$status" 0
	done
}

@test "a newcomer that would fit beside the holders goes ahead of no waiter, with -n or without" {
	begin_holder r x -s
	enqueue w
	try dlock -n -s x true
	expect_failure 1 busy
	enqueue late -s
	let_go r
	finish_all w late
	assert_order w late

	rm order r.count
	begin_holder r x --permits 3
	enqueue w --permits 1
	try dlock -n --permits 3 x true
	expect_failure 1 busy
	enqueue late --permits 3
	refute_file order
	let_go r
	finish_all w late # the second beside the first, perhaps
}

readers_come_after_the_writer() { sed '1,/w/d' order | grep -q r; }

@test "readers that wait behind a writer come in as one batch, later ones behind the next writer" {
	begin_holder one x
	enqueue w1
	local i
	for i in 1 2 3; do
		start "r$i" dlock -s x sh -c "echo r >>order; until [ -e go ]; do sleep 0.02; done"
		wait_until queued x $((i + 1))
	done
	enqueue w2
	enqueue late -s
	let_go one
	wait_until order_is w1 r r r
	sharers_are 3
	queued x 2
	: >go
	finish_all r1 r2 r3 w1 w2 late
	assert_order w1 r r r w2 late
}

@test "a reader that dies does not take the others with it, and frees its share by its own expiry" {
	begin_holder a x -s -t 2
	begin_holder b x -s -t 60
	kill -KILL $a_pid $a_keeper
	finish a
	start w dlock x echo written
	wait_until queued x 1
	wait_until sharers_are 2
	let_go b
	finish w
	expect 0 written
}

@test "a permit holder's host is dead: a waiter has its permit when that expires, and not later" {
	begin_holder a x --permits 2 -t 4
	begin_holder b x --permits 2 -t 600
	start w dlock --permits 2 x echo had
	wait_until queued x 1
	kill -KILL $a_pid $a_keeper
	finish a
	# A look at how long the key lives, which is as long as the permit of b.
	wait_until listeners_are 1
	cli CLIENT UNBLOCK "$(cli CLIENT LIST | sed -n 's/^id=\([0-9]*\) .* cmd=blpop .*/\1/p')" TIMEOUT >/dev/null
	local began
	began=$(now_ms)
	finish w
	expect 0 had
	assert_between $(($(now_ms) - began)) 0 $((8000 * TEST_PATIENCE)) ms
	let_go b
}

@test "permits are never exceeded over 1,000 grants, by the log of the commands" {
	cat >worker <<-'END'
		#!/bin/bash
		for i in {1..50}; do
			dlock -t 30 --permits 3 x sh -c '
				echo + >>log
				until { read -r one && read -r two; } <log; do sleep 0.01; done # a second one
				echo - >>log' || echo "exit $?" >>violations
		done
	END
	local i
	for i in {1..20}; do
		start "w$i" bash worker
	done
	for i in {1..20}; do
		wait_until -t 100 is_gone "$(eval echo "\$w${i}_pid")"
		finish "w$i"
		assert_equal "$status$err" 0
	done
	refute_file violations
	assert_equal "$(grep -c + log)" 1000
	assert_between "$(awk '$0 == "+" { n++ } $0 == "-" { n-- } n > most { most = n } END { print most }' log)" 2 3 'at a time'
	assert_equal "$(cli KEYS '*')" "$(meta_of x)"
}

@test "--priority goes ahead of those that wait, and not of the holder" {
	begin_holder one x
	enqueue a
	enqueue b
	enqueue high --priority 2
	enqueue low --priority -2
	enqueue c
	enqueue higher --priority 1000
	assert_equal "$(dlock status --json x | python3 -c '
import json, sys
print(*[w["priority"] for w in json.load(sys.stdin)[0]["waiters"]])')" '1000 2 0 0 0 -2'
	let_go one
	finish_all a b c high low higher
	assert_order higher high a b c low
}

@test "a point of priority is worth a minute of waiting: nobody starves" {
	begin_holder one x
	enqueue old
	enqueue young
	# As though they had come earlier.
	local queue='lock:{lock:x}:queue'
	cli ZINCRBY $queue -61000000 "$(cli ZRANGE $queue 0 0)" >/dev/null
	cli ZINCRBY $queue -50000000 "$(cli ZRANGE $queue 1 1)" >/dev/null
	enqueue high --priority 1
	let_go one
	finish_all old high young
	assert_order old high young
}

@test "the server restarts empty: all sharers set their shares again, a writer keeps off" {
	local mode name ttl=$((6 * TEST_PATIENCE))
	for mode in -s '--permits 3'; do
		rm -f *.count order
		begin_holder a x $mode -t $ttl
		begin_holder b x $mode -t $ttl
		begin_holder c x $mode -t $ttl
		local word
		word=$(mode_of)
		enqueue w
		server_end "$SERVER"
		server_again "$SERVER"
		wait_until sharers_are 3
		assert_equal "$(mode_of)" "$word"
		wait_until queued x 1
		refute_file order
		for name in a b c; do
			let_go $name
			assert_equal "$status" 0
			assert_match "$err" 'set again'
		done
		# Where it had asked before they were back, for as long as a share may last.
		finish_all_restarted w
	done
}

@test "the server restarts empty and a writer takes the lock: every sharer is stopped" {
	begin_holder a x -s -t 6
	begin_holder b x -s -t 6
	kill -STOP $a_keeper $b_keeper
	server_end "$SERVER"
	server_again "$SERVER"
	cli SET lock:x foreign PX 3000 >/dev/null
	kill -CONT $a_keeper $b_keeper
	local name
	for name in a b; do
		finish $name
		assert_equal "$status" 80 "$name: $err"
	done
	wait_until is_free x
}

@test "status shows sharers and permit holders, and which waiter waits in which mode" {
	begin_holder a x -s --label reader
	begin_holder b x -s --label other
	enqueue w --priority 7
	try dlock status --json x
	assert_equal "$(python3 -c '
import json, sys
lock = json.load(sys.stdin)[0]
print(lock["mode"], *sorted(h["label"] for h in lock["holders"]), lock["waiting"],
	*[(w["mode"], w["priority"]) for w in lock["waiters"]])' <<<"$out")" "shared other reader 1 ('exclusive', 7)"
	let_go a
	let_go b
	finish_all w
	rm *.count
	begin_holder a x --permits 4
	try dlock status --json x
	assert_match "$out" '"mode": ?"permits"'
	let_go a
}
