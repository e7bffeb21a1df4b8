# --also: several locks, all or none.

load helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

queued() { [[ $(cli ZCARD "lock:{lock:$1}:queue") == "$2" ]]; } # NAME COUNT
all_held() { [[ $(cli EXISTS "${@/#/lock:}") == "$#" ]]; }
none_held() { [[ $(cli EXISTS "${@/#/lock:}") == 0 ]]; }

@test "all are held while COMMAND runs, and all given back" {
	start one dlock --also b --also 'a z' c sh -c 'until [ -e go ]; do sleep 0.02; done'
	wait_until all_held 'a z' b c
	local name
	for name in 'a z' b c; do
		try dlock -n "$name" true
		expect_failure 1 "held by $(hostname):$one_pid "
	done
	: >go
	finish one
	assert_equal "$status$err" 0
	none_held 'a z' b c
}

@test "DLOCK_FENCES has them in canonical order, DLOCK_NAME and DLOCK_FENCE are NAME's" {
	try dlock --also b --also 'a z' --also c --also b c sh -c 'echo "$DLOCK_FENCES"; echo "$DLOCK_NAME=$DLOCK_FENCE"'
	assert_match "$out" $'^a z=[0-9]+ b=[0-9]+ (c=[0-9]+)\n(.*)$'
	assert_equal "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
	try dlock c sh -c 'echo "$DLOCK_FENCES"'
	expect 0
}

@test "-n: one is busy, none is kept, and the message says which" {
	hold one b
	try dlock -n --also a --also b --also z c touch ran
	expect_failure 1 "^dlock: c: busy: b is held by $(hostname):$one_pid "
	none_held a c z
	refute_file ran
	let_go one
}

@test "-w: those that were had meanwhile are given back when it ends" {
	hold one b
	try dlock -w 1 --also a --also b c touch ran
	expect_failure 1 'busy after 1s: b is held by'
	assert_between "$took" 1000 $((1500 * TEST_PATIENCE)) ms
	none_held a c
	refute_file ran
	let_go one
}

@test "a signal while it waits gives all back" {
	hold one b
	start two dlock --also a --also b c touch ran
	wait_until queued b 1
	assert is_held a
	kill -TERM "$two_pid"
	finish two
	assert_equal "$status" 143
	none_held a c
	queued b 0
	let_go one
}

@test "a bad NAME is refused, --per-host goes for all" {
	try dlock --also '' x true
	expect_failure 64 'is empty'
	try dlock --also 'a://b' x true
	expect_failure 64 'URL'
	try dlock --per-host --also b a sh -c 'echo $DLOCK_FENCES'
	assert_match "$out" "^$(hostname)/a=[0-9]+ $(hostname)/b=[0-9]+$"
}

@test "those that are held are renewed while the next is waited for, and while COMMAND runs" {
	hold one b -t $((60 * TEST_PATIENCE))
	start two dlock -t $((2 * TEST_PATIENCE)) --also a --also b c sh -c 'echo run; until [ -e end ]; do sleep 0.05; done'
	wait_until is_held a
	local token
	token=$(cli GET lock:a)
	stays $((4000 * TEST_PATIENCE)) owner_is a "$token"
	let_go one
	wait_until file_has two.out run
	stays $((2500 * TEST_PATIENCE)) all_held a b c
	touch end
	finish two
	assert_equal "$status$err" 0
}

@test "one is lost: COMMAND is stopped, the others are given back" {
	start one dlock -t 3 --also b a witness count count
	wait_until file_has count '^ready'
	cli SET lock:b foreign PX 4000 >/dev/null
	finish one
	assert_equal "$status" 80
	none_held a
	assert_equal "$(cli GET lock:b)" foreign
	wait_until is_free b
}

@test "one is lost while the next is waited for: all is begun again" {
	hold one b
	start two dlock -t 2 --also a b echo ran
	wait_until queued b 1
	cli SET lock:a foreign PX 1500 >/dev/null
	wait_until queued b 0
	wait_until queued b 1
	let_go one
	finish two
	expect 0 ran
}

@test "the server restarts empty: all are set again" {
	hold one a --also b --also c
	local token
	token=$(cli GET lock:a)
	server_end "$SERVER"
	server_again "$SERVER"
	local name
	for name in a b c; do
		wait_until owner_is $name "$token"
	done
	let_go one
	assert_equal "$status" 0
	none_held a b c
}

@test "the front is killed, the keeper is killed: all are given back" {
	hold one a --also b --also c
	kill -KILL $one_pid
	wait_until none_held a b c
	finish one
	rm one.count
	hold one a --also b --also c
	kill -KILL $one_keeper
	finish one
	assert_equal "$status" 70
	none_held a b c
}

@test "in whatever order they are named, they never wait in a circle: 6 contenders on 3 locks" {
	cat >step <<-'END'
		#!/bin/bash
		for name in "$@"; do
			exec {fd}>"judge.$name"
			flock -n $fd || echo "overlap on $name" >>violations
		done
		echo . >>runs
	END
	chmod +x step
	cat >contender <<-'END'
		#!/bin/bash
		for i in {1..10}; do
			dlock --also "$2" --also "$3" "$1" ./step "$@" || echo "exit $?" >>violations
			dlock --also "$1" "$3" ./step "$1" "$3" || echo "exit $?" >>violations
		done
	END
	local i=0 order
	for order in 'a b c' 'a c b' 'b a c' 'b c a' 'c a b' 'c b a'; do
		start "c$((++i))" bash contender $order
	done
	for i in {1..6}; do
		wait_until -t 60 is_gone "$(eval echo "\$c${i}_pid")"
		finish "c$i"
		assert_equal "$status$err" 0
	done
	refute_file violations
	assert_equal "$(wc -l <runs)" 120
}

@test "inside: one that is held already is had, the others are taken" {
	try dlock a dlock -w 5 --also a b sh -c 'dlock -n a dlock -n b echo "$DLOCK_FENCES"'
	assert_match "$out" '^a=[0-9]+ b=[0-9]+$'
	assert_equal "$status$err" 0
	try dlock --also b a dlock -n b dlock -n a echo in
	expect 0 in
	none_held a b
}

@test "shared ones and permits" {
	hold one a -s --also b
	try dlock -n -s --also b a echo shared
	expect 0 shared
	try dlock -n --also b c true
	expect_failure 1 'b is held by'
	let_go one
}

@test "dead waiters in a row for one of them are passed over when it is given back" {
	hold one a --also b
	local i began
	for i in 1 2 3 4; do
		start "w$i" dlock b echo had
		wait_until queued b $i
		wait_until is_quiet "$pid"
	done
	kill -KILL $w1_pid $w2_pid $w3_pid
	began=$(now_ms)
	let_go one
	finish w4
	expect 0 had
	assert_between $(($(now_ms) - began)) 0 $((6000 * TEST_PATIENCE)) ms
	cli FLUSHALL >/dev/null # what the dead left ends with their leases
}
