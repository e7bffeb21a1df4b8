# The same lock taken again inside its holder.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

scripts_called() { cli INFO commandstats | sed -n 's/^cmdstat_evalsha:calls=\([0-9]*\),.*/\1/p'; }

@test "inside its holder a lock is had at once, with the same token and fence" {
	try dlock x sh -c 'echo $DLOCK_TOKEN $DLOCK_FENCE; dlock x sh -c "echo \$DLOCK_TOKEN \$DLOCK_FENCE \$DLOCK_NAME; exit 7"'
	assert_equal "$status$err" 7
	assert_equal "$(sed 2d try.out) x" "$(sed 1d try.out)"
	assert_equal "$(cli KEYS '*')" "$(meta_of x)"
}

@test "with a cleared environment too, and through other locks in between" {
	try dlock x dlock y env -i XDG_CONFIG_HOME="$XDG_CONFIG_HOME" DLOCK_SERVER="$DLOCK_SERVER" "$BIN/dlock" -w 5 z "$BIN/dlock" -w 5 x echo in
	expect 0 in
	try dlock -s x env -i XDG_CONFIG_HOME="$XDG_CONFIG_HOME" DLOCK_SERVER="$DLOCK_SERVER" "$BIN/dlock" -n x true
	expect_failure 81 deadlock
}

# Which process was started, and which read of an ancestor first.
lookers_of() { sed -n '1s/ .*//p' "$1" && sed -n '/environ/{s/ .*//p;q}' "$1"; } # TRACE

# When it was started, and when it read of an ancestor for the first time.
moments_of() { sed -n "1s/^[0-9]* *\([0-9.]*\) .*/\1/p" "$1" && sed -n "/environ/{s/^[0-9]* *\([0-9.]*\) .*/\1/p;q}" "$1"; } # TRACE

@test "a waiter looks at its ancestors after a tenth of a second, or half of the time that it has" {
	local -a cleared=(env -i XDG_CONFIG_HOME="$XDG_CONFIG_HOME" DLOCK_SERVER="$DLOCK_SERVER")
	local i had=0 # half of so little time may be over before a busy machine comes to it, or a tenth of a second
	for i in {1..7}; do
		try dlock x "${cleared[@]}" "$BIN/dlock" -w 0.09 x echo in
		((status != 0)) || had=$((had + 1))
	done
	((had >= 4)) || fail "had $had times of 7: $err"
	export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 # not under strace
	for i in 1 2 3 4 5; do # a busy machine may be late for a look at once, but not each time
		try dlock x "${cleared[@]}" ASAN_OPTIONS="$ASAN_OPTIONS" strace -qq -ttt -f -e signal=none -e trace=execve,openat \
			-o trace "$BIN/dlock" x echo in
		expect 0 in
		moments_of trace | awk '{ at[NR] = $1 } END { exit !(NR == 2 && at[2] - at[1] >= 0.09) }' || fail "$(moments_of trace)"
		# The keeper asks, and would look before it waits; the front looks beside it.
		[[ $(lookers_of trace | uniq | wc -l) == 1 ]] || fail "$(lookers_of trace)"
	done
	# Without a timer it looks before it waits.
	try dlock x "${cleared[@]}" ASAN_OPTIONS="$ASAN_OPTIONS" strace -qq -f -e signal=none -e trace=timerfd_settime \
		-e inject=timerfd_settime:error=EINVAL -o untimed "$BIN/dlock" x echo in
	expect 0 in
	file_has untimed EINVAL || fail "$(<untimed)"
}

@test "-n, shared and permits inside: had at once as well, beside nobody else" {
	local mode
	for mode in '' -n -s '--permits 1'; do
		try dlock x dlock $mode x dlock -n x echo in
		expect 0 in
	done
	try dlock -s x dlock -s x echo in
	expect 0 in
	try dlock --permits 1 x dlock --permits 1 x echo in
	expect 0 in
}

@test "a share inside one's own share does not wait behind a writer that waits" {
	start outer dlock -s x sh -c 'until [ -e go ]; do sleep 0.02; done; dlock -w 5 -s x echo in'
	wait_until is_held x
	start writer dlock x echo written
	wait_until queued x 1
	: >go
	finish outer
	expect 0 in
	finish writer
	expect 0 written
}

@test "what would wait for its own holder: 81 at once, whatever -w says" {
	try dlock -s x dlock x touch ran
	expect_failure 81 '^dlock: x: waiting would deadlock: the dlock around this one holds it shared \(-s\); use the same mode inside$'
	try dlock -s x dlock -w 60 --permits 2 x touch ran
	expect_failure 81 deadlock
	try dlock --permits 2 x dlock x touch ran
	expect_failure 81 'deadlock.*permit'
	try dlock --permits 2 x dlock -n -s x touch ran
	expect_failure 81 deadlock
	refute_file ran
	assert_equal "$(cli KEYS '*')" "$(meta_of x)"
}

@test "it costs no more round trips than any other lock" {
	try dlock x true
	cli CONFIG RESETSTAT >/dev/null
	try dlock x true
	local plain
	plain=$(scripts_called)
	assert_equal "$plain" 2 'to take and to give back'
	cli CONFIG RESETSTAT >/dev/null
	try dlock x dlock x true
	assert_equal "$(scripts_called)" 2 'the inner one asks for nothing'
	cli CONFIG RESETSTAT >/dev/null
	try dlock x dlock y true
	assert_equal "$(scripts_called)" 4
}

@test "siblings inside one holder do not exclude each other" {
	cat >both <<-'END'
		#!/bin/bash
		dlock x sh -c ': >first; until [ -e second ]; do sleep 0.02; done' &
		dlock x sh -c ': >second; until [ -e first ]; do sleep 0.02; done'
		wait
	END
	try dlock x bash both
	expect 0
}

@test "a token from the environment counts only while its lock is held" {
	local token
	token=$(dlock x printenv DLOCK_TOKEN)
	begin_holder other x
	DLOCK_TOKEN=$token try dlock -n x true
	assert_equal "$status" 1
	token=$(cli GET lock:x)
	# By the environment alone: not an ancestor.
	DLOCK_TOKEN=$token try dlock -n x echo in
	expect 0 in
	DLOCK_TOKEN="' $token 1 * % {" try dlock -n y echo odd
	expect 0 odd
	let_go other
}

@test "the inner one lives longer than its own TTL, and is stopped with the outer one" {
	start outer dlock -t $((6 * TEST_PATIENCE)) x dlock -t $TEST_PATIENCE x witness count "$PWD/inner"
	wait_until file_has inner '^ready'
	local command
	command=$(sed -n 's/^ready //p' inner)
	stays $((3000 * TEST_PATIENCE)) is_alive "$command"
	assert_equal "$(received_in inner)" ''
	cli SET lock:x foreign PX $((3000 * TEST_PATIENCE)) >/dev/null
	finish outer
	assert_equal "$status" 80
	is_gone "$command" || fail 'the inner COMMAND lives on'
	wait_until is_free x
}

received_in() { sed -e '/^ready/d' "$1"; }

@test "the inner dlock killed: its COMMAND is stopped, the outer one keeps the lock" {
	start outer dlock x sh -c 'dlock --grace 0.2 x witness count inner & echo $! >pid; wait; until [ -e go ]; do sleep 0.02; done'
	wait_until file_has inner '^ready'
	kill -KILL "$(<pid)"
	wait_until is_gone "$(sed -n 's/^ready //p' inner)" || kill -RTMIN "$(sed -n 's/^ready //p' inner)"
	assert is_held x
	: >go
	finish outer
	assert_equal "$status" 0
}

@test "what an inner dlock leaves behind for a handover is not taken for COMMAND's" {
	start outer dlock a sh -c 'until [ -e go ]; do sleep 0.02; done; dlock x sh -c "until [ -e done ]; do sleep 0.02; done"'
	: >go
	wait_until is_held x
	start waiter dlock x echo had
	wait_until queued x 1
	wait_until is_quiet $(processes_of "$waiter_pid")
	signal_waiters STOP "$waiter_pid"
	: >done
	finish outer
	expect 0
	assert is_free a
	signal_waiters CONT "$waiter_pid"
	finish waiter
	expect 0 had
}
