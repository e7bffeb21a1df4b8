# Busy locks: not waiting, waiting for a while, waiting for ever.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

@test "-n on a busy lock: 1 at once, COMMAND not run, and the message names the holder" {
	begin_holder one x --label 'night run'
	try dlock -n x touch ran
	expect_failure 1 "^dlock: x: .*held by $(hostname):$one_pid \(tester, night run\) for [0-9]+(ms|s)"
	assert_between "$took" 0 $((1000 * TEST_PATIENCE)) ms
	refute_file ran
	let_go one
	expect 0
}

@test "the label is COMMAND's base name where none is given" {
	begin_holder one x
	try dlock -n x touch ran
	expect_failure 1 "held by $(hostname):$one_pid \(tester, witness\) for "
	let_go one
}

@test "-E sets the exit code of busy and of timed out, 0 included" {
	begin_holder one x
	local code
	for code in 0 1 42 255; do
		try dlock -n -E $code x touch ran
		expect_failure $code 'held by'
		try dlock -w $((200 * TEST_PATIENCE))ms --conflict-exit-code=$code x touch ran
		expect_failure $code 'held by'
	done
	refute_file ran
	let_go one
}

@test "-E does not change what COMMAND returns" {
	try dlock -n -E 42 x sh -c 'exit 1'
	expect 1
}

@test "-w ends within 100 ms of its time, and never before" {
	begin_holder one x
	local attempt late=9999
	for attempt in 1 2 3; do
		try dlock -w 1.2 x touch ran
		expect_failure 1 'held by'
		((took >= 1200)) || fail "$took ms are less than 1200"
		((took - 1200 < late)) && late=$((took - 1200))
		((late > 100)) || break
	done
	assert_between "$late" 0 $((100 * TEST_PATIENCE)) 'ms too late'
	refute_file ran
	let_go one
}

@test "-w with durations below a second and with units" {
	begin_holder one x
	try dlock -w 300ms x true
	expect_failure 1 ''
	assert_between "$took" 300 $((900 * TEST_PATIENCE)) ms
	try dlock --wait=0.0166667m x true
	expect_failure 1 ''
	assert_between "$took" 1000 $((1600 * TEST_PATIENCE)) ms
	let_go one
}

@test "the later of -n and -w wins, and -w 0 is -n" {
	begin_holder one x
	try dlock -w 100 -n x true
	expect_failure 1 ''
	assert_between "$took" 0 $((1000 * TEST_PATIENCE)) 'ms with -w 100 -n'
	try dlock -n -w 1 x true
	expect_failure 1 ''
	assert_between "$took" 1000 $((1600 * TEST_PATIENCE)) 'ms with -n -w 1'
	try dlock -w 100 --wait 1 x true
	expect_failure 1 ''
	assert_between "$took" 1000 $((1600 * TEST_PATIENCE)) 'ms with -w 100 --wait 1'
	try dlock -w 0 x true
	expect_failure 1 ''
	assert_between "$took" 0 $((1000 * TEST_PATIENCE)) 'ms with -w 0'
	let_go one
}

@test "a waiter runs soon after the holder has ended, within -w and without" {
	local option
	for option in '' '-w 60'; do
		begin_holder one x
		start two dlock $option x sh -c 'echo ${EPOCHREALTIME:-$(date +%s.%N)}'
		wait_until is_asking $two_pid
		local released
		let_go one
		released=$(now_ms)
		finish two
		assert_equal "$status" 0
		out=${out/./}
		assert_between "$((${out:0:13} - released))" -2000 $((1000 * TEST_PATIENCE)) 'ms from release to start'
		rm -f one.count
	done
}

# What a Redis 5 says of a time that is not in whole seconds, a newer one is made to say.
@test "a server that waits for whole seconds only: woken, out of time, and a TTL that ends" {
	service "$BATS_TEST_DIRNAME/../programs/rewrite.py" "$PWD/old.socket" "$SERVER/socket" \
		ask '\.[0-9]{3}\r\n' $'.no!\r\n' answer 'timeout is not a float' 'timeout is not an integer'
	wait_until test -S old.socket
	begin_holder one x
	start two dlock -S "unix://$PWD/old.socket" x echo ran
	wait_until is_asking $two_pid
	try dlock -w 1.2 -S "unix://$PWD/old.socket" x touch late
	assert_equal "$status" 1
	assert_match "$err" 'busy after 1.2s: held by'
	refute_file late
	assert_between "$took" 1200 $((1900 * TEST_PATIENCE)) ms
	let_go one
	finish two
	expect 0 ran
	local before
	before=$(now_ms)
	cli SET lock:x "elsewhere:1:00112233445566778899aabbccddeeff" PX 1500 >/dev/null
	try dlock -w 20 -S "unix://$PWD/old.socket" x date +%s%3N
	assert_equal "$status$err" 0
	assert_between "$((out - before))" 1500 $((3500 * TEST_PATIENCE)) 'ms until the start'
}

# The processor time of all of them.
ticks_of() { # PID...
	local one
	for one; do
		sed 's/.*) //' "/proc/$one/stat"
	done | awk '{ sum += $12 + $13 } END { print sum }'
}

@test "a waiter is asleep: it uses no processor time and few commands" {
	begin_holder one x
	start two dlock x echo ran
	wait_until is_asking $two_pid
	local before after ticks
	before=$(ticks_of $(processes_of $two_pid))
	cli CONFIG RESETSTAT >/dev/null
	stays 2000 is_alive $two_pid
	after=$(ticks_of $(processes_of $two_pid))
	ticks=$((after - before))
	assert_between "$ticks" 0 10 'ticks of 10 ms in two seconds'
	local scripts
	scripts=$(cli INFO commandstats | sed -n 's/^cmdstat_evalsha:calls=\([0-9]*\),.*/\1/p')
	assert_between "${scripts:-0}" 0 60 'scripts in two seconds'
	let_go one
	finish two
	expect 0 ran
}

@test "-q drops the busy line, -qq too; the exit code stays" {
	begin_holder one x
	local option
	for option in -q --quiet -qq '-q -q'; do
		try dlock $option -n x true
		expect 1
		try dlock $option -w 0.1 -E 9 x true
		expect 9
	done
	let_go one
}

@test "-q still says why dlock failed, -qq says nothing" {
	try dlock -q x /no/such/thing
	expect_failure 127 ''
	try dlock -qq x /no/such/thing
	expect 127
	try dlock -q -S "unix://$PWD/none" x true
	expect_failure 69 ''
	try dlock -qq -S "unix://$PWD/none" x true
	expect 69
}

@test "the lock of a host that died is taken after its TTL, and not before" {
	local before
	before=$(now_ms)
	cli SET lock:x "elsewhere:1:00112233445566778899aabbccddeeff" PX 1500 >/dev/null
	try dlock -w 20 x date +%s%3N
	assert_equal "$status$err" 0
	assert_between "$((out - before))" 1500 $((3500 * TEST_PATIENCE)) 'ms until the start'
}

@test "-w counts from the start, a server that does not answer included" {
	fake_server silent
	try dlock -w 1 -S "unix://$PWD/silent/socket" x true
	expect_failure 69 ''
	assert_between "$took" 1000 $((1500 * TEST_PATIENCE)) ms
}

@test "nobody overlaps: 12 contenders, a shared counter, and the kernel's own lock as the judge" {
	cat >step <<-'END'
		#!/bin/bash
		exec 8>judge
		flock -n 8 || echo overlap >>violations
		read -r count <counter
		read -r last <fence
		((DLOCK_FENCE > last)) || echo "fence $DLOCK_FENCE after $last" >>violations
		echo $((count + 1)) >counter
		echo "$DLOCK_FENCE" >fence
	END
	chmod +x step
	echo 0 >counter
	echo 0 >fence
	cat >contender <<-'END'
		#!/bin/bash
		for i in 1 2 3 4 5; do
			dlock x ./step || echo "exit $?" >>violations
		done
	END
	local i
	for i in {1..12}; do
		start "c$i" bash contender
	done
	for i in {1..12}; do
		finish "c$i"
		assert_equal "$err" ''
	done
	refute_file violations
	assert_file counter 60
}

@test "contenders on different databases, prefixes or names do not meet" {
	begin_holder one x
	try dlock -n -S "unix://$SERVER/socket?db=3" x echo other db
	expect 0 'other db'
	try dlock -n --prefix p: x echo other prefix
	expect 0 'other prefix'
	try dlock -n X echo other name
	expect 0 'other name'
	try dlock -n --per-host x echo other name
	expect 0 'other name'
	let_go one
}

# ---- The request is answered, and the answer lost -------------------------------------------------

# cut_off SECONDS: a way to the server at cut.socket that loses the grant, and with it all connections for so
# long.
cut_off() {
	rm -f cut.socket
	service "$BATS_TEST_DIRNAME/../programs/cutter.py" "$PWD/cut.socket" "$SERVER/socket" granted "$1"
	wait_until test -S cut.socket
}

@test "-n, its grant is lost, the server away for 0.4 s: it is taken back, not left for the TTL" {
	dlock x true # so that the first request is answered by the script, and not by NOSCRIPT
	local words
	for words in '-t 60s' '--at-least 1h' acquire; do
		cut_off 0.4
		local command=(dlock -S "unix://$PWD/cut.socket" -n $words x touch ran)
		[[ $words != acquire ]] || command=(dlock acquire -S "unix://$PWD/cut.socket" -n -t 15m x)
		try "${command[@]}"
		expect_failure 69 'cannot|lost|closed|reach|no answer'
		wait_until -t 5 is_free x
	done
	refute_file ran
}

@test "-n, its grant is lost, the server stays away: the line has the TTL, --at-least counts not" {
	dlock x true
	cut_off 60
	try dlock -S "unix://$PWD/cut.socket" -n -t 5s --at-least 1h x touch ran
	expect_failure 69 '; if the lock was granted all the same, it frees itself within 5s$'
	assert_between "$(cli PTTL lock:x)" 1 5000 'ms until it frees itself'
	wait_until nothing_runs # what tried to take it back has given up
	assert is_held x
	wait_until is_free x
	refute_file ran
}

@test "--at-least is the server's as soon as the grant is known, whatever dies after that" {
	start one dlock -t 600 --at-least 1h x sh -c 'echo $$ >command; exec sleep 300'
	wait_until is_file command
	wait_until kept_for 3500000
	kill -STOP $one_pid # neither is to see the other's end
	wait_until is_stopped $one_pid
	kill -KILL "$(parent_of "$(<command)")" $one_pid
	finish one
	assert kept_for 3500000
	cli FLUSHALL
}

kept_for() { (($(cli PTTL lock:x) > $1)); }
