# Circles of waits: found, ended by exactly one, and never seen where there is none.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }


# partner NAME MINE OTHER [OPTION]...: holds MINE, and once all of the circle do, takes OTHER; the
# exit code of that goes to NAME.code.
partner() {
	local name=$1 mine=$2 other=$3
	shift 3
	start "$name" dlock "$@" "$mine" sh -c "
		: >has.$mine.$name
		until [ -e go.$name ]; do sleep 0.02; done
		dlock $* $other sh -c ': >ran.$name'
		echo \$? >$name.code"
	wait_until test -e "has.$mine.$name"
}

go() { : >"go.$1"; } # NAME

all_ended() {
	local name
	for name; do
		finish "$name"
		assert_equal "$status" 0 "$name"
	done
}

@test "two wait for each other: the one that came last leaves with 81 and names the circle" {
	partner one a b
	partner two b a
	go one
	wait_until queued b 1
	go two
	local began
	began=$(now_ms)
	all_ended two one
	assert_between $(($(now_ms) - began)) 1000 $((6000 * TEST_PATIENCE)) ms
	assert_file two.code 81
	assert_file one.code 0
	refute_file ran.two
	assert_equal "$(wc -l <two.err)" 1
	assert_match "$(<two.err)" "^dlock: a: waiting would deadlock: a is held by $(hostname):$one_pid, which waits for b, which is held by a dlock around this one; take these locks in one order everywhere$"
	assert_equal "$(<one.err)" ''
}

@test "three in a circle: exactly one leaves" {
	partner one a b
	partner two b c
	partner three c a
	local name
	for name in three one two; do
		go $name
	done
	all_ended one two three
	assert_equal "$(sort -n *.code | tr '\n' ' ')" '0 0 81 '
	assert_equal "$(cat one.err two.err three.err | wc -l)" 1
	assert_match "$(cat one.err two.err three.err)" 'which waits for ., which is held by .*, which waits for ., which is held '
}

@test "three times, all at the same moment: one victim each time" {
	local round
	for round in 1 2 3; do
		rm -f go.* has.* ran.* *.code
		partner one a b
		partner two b a
		: >go.one & : >go.two
		all_ended one two
		assert_equal "$(sort -n one.code two.code | tr '\n' ' ')" '0 81 ' "round $round"
	done
}

@test "readers that would become writers: two share a and want b, and the other way round" {
	# Each holds a share of a; one wants b, whose holder wants a alone.
	start one dlock -s a sh -c ': >has1; until [ -e go1 ]; do sleep 0.02; done; dlock b true; echo $? >one.code'
	start two dlock b sh -c ': >has2; until [ -e go2 ]; do sleep 0.02; done; dlock a true; echo $? >two.code'
	begin_holder bystander a -s
	wait_until test -e has1
	wait_until test -e has2
	: >go1
	wait_until queued b 1
	: >go2
	finish two
	assert_file two.code 81
	let_go bystander
	finish one
	assert_file one.code 0
}

@test "under another prefix" {
	partner one a b --prefix team:
	partner two b a --prefix team:
	go one
	go two
	all_ended one two
	assert_equal "$(sort -n one.code two.code | tr '\n' ' ')" '0 81 '
}

@test "with --also: what a set holds while it waits counts" {
	partner one b a
	start two dlock --also a --also c b true # one request for all
	wait_until queued b 1
	assert is_held a
	go one
	wait_until is_file one.code
	finish one
	finish two
	# The one that came last is `one`, which wants a.
	assert_file one.code 81
	assert_equal "$status$err" 0
}

@test "with a cleared environment" {
	start one dlock a sh -c ": >has1; until [ -e go ]; do sleep 0.02; done; env -i XDG_CONFIG_HOME=$XDG_CONFIG_HOME DLOCK_SERVER=$DLOCK_SERVER $BIN/dlock b true; echo \$? >one.code"
	start two dlock b sh -c ": >has2; until [ -e go ]; do sleep 0.02; done; env -i XDG_CONFIG_HOME=$XDG_CONFIG_HOME DLOCK_SERVER=$DLOCK_SERVER $BIN/dlock a true; echo \$? >two.code"
	wait_until test -e has1
	wait_until test -e has2
	: >go
	finish one
	finish two
	assert_equal "$(sort -n one.code two.code | tr '\n' ' ')" '0 81 '
}

@test "no false alarm: a chain, a tree and a queue are no circles" {
	begin_holder root c
	partner one a b
	partner two b c
	partner other d c
	go one
	go two
	go other
	wait_until queued b 1
	wait_until queued c 2
	stays 4000 refute_any_code
	let_go root
	all_ended one two other
	assert_equal "$(cat one.code two.code other.code | tr '\n' ' ')" '0 0 0 '
	assert_equal "$(cat one.err two.err other.err)" ''
}

refute_any_code() { [[ -z $(cat one.code two.code other.code 2>/dev/null) ]]; }

@test "no false alarm: of permits another one may come free" {
	begin_holder bystander a --permits 2
	partner one a b --permits 2
	start two dlock b sh -c ': >has2; until [ -e go2 ]; do sleep 0.02; done; dlock --permits 2 a true; echo $? >two.code'
	wait_until test -e has2
	go one
	wait_until queued b 1
	: >go2
	wait_until queued a 1
	stays 4000 queued a 1
	let_go bystander
	finish two
	finish one
	assert_equal "$(cat one.code two.code | tr '\n' ' ')" '0 0 '
}

@test "no false alarm: a waiter that was killed closes no circle" {
	start two dlock b sh -c ': >has2; until [ -e go2 ]; do sleep 0.02; done; dlock a true; echo $? >two.code'
	wait_until test -e has2
	start one dlock a sh -c 'dlock b true & echo $! >waiter; : >has1; until [ -e end ]; do sleep 0.02; done'
	wait_until test -e has1
	wait_until queued b 1
	signal_waiters KILL "$(<waiter)"
	# As if its lease had been a long one: that shows no more that it lives.
	start lease sh -c 'until [ -e end ]; do redis-cli -s "$0/socket" PEXPIRE "$1" 1600; sleep 0.1; done' "$SERVER" \
		"$(cli KEYS 'lock:{lock:b}:who:*' | grep -v ":$(cli GET lock:b)$")"
	: >go2
	wait_until queued a 1
	stays 4000 queued a 1
	refute_file two.code
	: >end
	finish lease
	finish one
	finish two
	assert_file two.code 0
	cli FLUSHALL >/dev/null # what the dead waiter left ends with its lease
}

@test "a waiter that holds nothing says nothing of that and asks for nothing more" {
	begin_holder one a
	start two dlock a true
	wait_until queued a 1
	cli CONFIG RESETSTAT >/dev/null
	stays 2500 queued a 1
	assert_equal "$(cli GET "$(cli KEYS '*:who:*' | grep -v ":who:$(cli GET lock:a)$")" | grep -c held=)" 0
	assert_between "$(cli INFO commandstats | sed -n 's/^cmdstat_evalsha:calls=\([0-9]*\),.*/\1/p' | grep . || echo 0)" 0 0 scripts
	let_go one
	finish two
}
