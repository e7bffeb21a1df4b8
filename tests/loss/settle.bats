# --settle: no lock from a server that came up lately, and may have lost what it knew; 3s without the
# option.

load ../lib/helper

setup_file() { file_begin; }
setup() {
	test_begin
	rm "$XDG_CONFIG_HOME/dlock.conf" # its `settle = 0` is for all other tests
}
teardown() { test_end; }
teardown_file() { file_end; }

readonly STARTED='the server started [0-9.]+m?s ago; waiting [0-9.]+s for holders to return'

up() { cli INFO server | sed -n 's/^uptime_in_seconds:\([0-9]*\).*/\1/p'; }
was_asked() { [[ -n $(cli HGET "lock:{lock:${1:-x}}:meta" contended) ]]; }
up_for() { (($(up) >= $1)); }
calls() { cli INFO commandstats | sed -n "s/^cmdstat_$1:calls=\([0-9]*\).*/\1/p"; }

# The server again, without data; `from` is when, in ms.
restart() {
	server_end "$SERVER"
	from=$(now_ms)
	server_again "$SERVER"
}

# waited_since FROM: what date said, in ms; not before three seconds were over.
waited_since() {
	assert_equal "$status $err" '0 '
	assert_between $((out - $1)) 3000 $((3000 + 2500 * TEST_PATIENCE)) 'ms after the start'
}

@test "without the option: 3 s, for -n as well" {
	restart
	try dlock -n x date +%s%3N
	waited_since "$from"
	try dlock -n x echo ran
	expect 0 ran
	assert_between "$took" 0 $((1000 * TEST_PATIENCE)) ms
}

@test "hold and acquire wait as well, and -v says for what" {
	restart
	try dlock -v acquire -n x
	assert_equal "$status" 0
	assert_match "$err" "$STARTED"
	assert_between "$(($(now_ms) - from))" 3000 $((3000 + 2500 * TEST_PATIENCE)) ms
	dlock release x "${out% *}"
	restart
	try dlock -v -n -s x true
	assert_match "$err" "$STARTED"
	restart
	try sh -c 'dlock hold -n x && date +%s%3N && dlock release x'
	waited_since "$from"
}

@test "a newcomer with -n after a restart without data is not faster than the holder that returns" {
	begin_holder one x
	kill -STOP $one_keeper
	restart
	start two dlock -n x touch ran
	wait_until was_asked
	kill -CONT $one_keeper
	wait_until is_held x
	finish two
	expect_failure 1 'busy: held by '
	refute_file ran
	let_go one
	assert_equal "$status" 0
	assert_match "$err" 'it is set again$'
}

@test "the holder of meanwhile is named at once, with -n" {
	restart
	begin_holder one x --settle 0
	try dlock -n x true
	expect_failure 1 'busy: held by '
	assert_between "$took" 0 $((1500 * TEST_PATIENCE)) ms
	let_go one
}

@test "-w that is shorter than the rest ends as busy, and says why" {
	try dlock -w 200ms --settle 1h x touch ran
	expect_failure 1 "busy after 200ms: the server started [0-9.]+m?s ago; waiting (1h|5[0-9]m)[0-9.ms]* for holders to return"
	try dlock -s -w 200ms --settle 1h z touch ran
	expect_failure 1 'for holders to return'
	try dlock --permits 3 -w 200ms --settle 1h p touch ran
	expect_failure 1 'for holders to return'
	refute_file ran
}

@test "a signal ends the wait of -n; and until then the server is asked once" {
	start one dlock -n --settle 1h x touch ran
	wait_until was_asked
	cli CONFIG RESETSTAT >/dev/null
	stays 1500 is_alive $one_pid
	assert_equal "$(calls evalsha)$(calls eval)" ''
	kill -INT $one_pid
	finish one
	assert_equal "$status" 130
	refute_file ran
}

@test "0 turns it off, and asks nothing" {
	restart
	cli CONFIG RESETSTAT >/dev/null
	try dlock --settle 0 -n x echo ran
	expect 0 ran
	assert_between "$(($(now_ms) - from))" 0 $((2500 * TEST_PATIENCE)) ms
	assert_equal "$(calls info)" ''
}

@test "a server that has been up for long is asked for that once, and for nothing else" {
	wait_until up_for 5
	dlock x true
	cli CONFIG RESETSTAT >/dev/null
	dlock --settle 0 x true
	cli INFO commandstats | cut -d: -f1 | sort >without
	cli CONFIG RESETSTAT >/dev/null
	dlock x true
	assert_equal "$(calls info)" 1
	cli INFO commandstats | cut -d: -f1 | grep -v '^cmdstat_info$' | sort >with
	assert diff without with
}

@test "the server restarts while -n waits: the time begins anew" {
	restart
	start one dlock -n x date +%s%3N
	wait_until was_asked
	wait_until up_for 2
	restart
	finish one
	waited_since "$from"
}

@test "the server ends while -n waits: 69" {
	restart
	start one dlock -n x touch ran
	wait_until was_asked
	server_end "$SERVER"
	finish one
	expect_failure 69 'cannot reach|closed'
	refute_file ran
	server_again "$SERVER"
}

@test "INFO refused: the lock is granted, with a word under -v; where --settle was given 77" {
	needs acl
	cli ACL SETUSER guest reset on '>pw' '~lock:*' +@all -info >/dev/null
	export DLOCK_SERVER=unix://guest:pw@$SERVER/socket
	try dlock -n x echo ran
	expect 0 ran
	try dlock -v -n x echo ran
	assert_equal "$status $out" '0 ran'
	assert_match "$err" 'does not say for how long it has been up \(INFO\)'
	try dlock -v acquire x
	assert_match "$err" 'does not say for how long it has been up \(INFO\)'
	dlock release x "${out% *}"
	try dlock -n --settle 3s x true
	expect_failure 77 '\+INFO is missing'
	mkdir -p "$XDG_CONFIG_HOME"
	echo 'settle = 3s' >"$XDG_CONFIG_HOME/dlock.conf"
	try dlock -n x true
	expect_failure 77 '\+INFO is missing'
	try dlock check
	assert_equal "$status" 77
	rm "$XDG_CONFIG_HOME/dlock.conf"
	try dlock check
	assert_equal "$status" 1
	cli ACL DELUSER guest >/dev/null
}

@test "a quorum: -n waits until a majority has settled" {
	local i from
	for i in a b c; do
		own_server $i
	done
	from=$(now_ms)
	export DLOCK_SERVER=redis+quorum://127.0.0.1:$(<a/port),127.0.0.1:$(<b/port),127.0.0.1:$(<c/port)
	try dlock -v -n x date +%s%3N
	assert_match "$err" "$STARTED"
	# The first two were started a moment before.
	assert_between $((out - from)) 2000 $((3000 + 2500 * TEST_PATIENCE)) ms
	try dlock -w 300ms --settle 1h x true
	expect_failure 1 'for holders to return'
}

@test "with --also: neither is taken before the time is over, and the first lives through it" {
	restart
	try dlock -n -t 1 --also y x date +%s%3N
	waited_since "$from"
}

@test "a server that has been up for longer is not asked to wait" {
	wait_until up_for 3
	try dlock -n --settle 1 x echo ran
	expect 0 ran
}

@test "a waiter gets the lock when the time is over, and not before" {
	restart
	try dlock --settle 2 x date +%s%3N
	assert_equal "$status $err" '0 '
	assert_between $((out - from)) 2000 $((2000 + 2500 * TEST_PATIENCE)) 'ms after the start'
}

@test "the server restarts empty: a newcomer that waits lets the holder return" {
	begin_holder one x
	kill -STOP $one_keeper
	restart
	start two dlock x touch ran
	wait_until queued x 1
	kill -CONT $one_keeper
	wait_until is_held x
	wait_until up_for 5
	refute_file ran
	let_go one
	assert_equal "$status" 0
	assert_match "$err" 'it is set again$'
	finish two
	expect 0
	assert test -e ran
}

@test "others share it: one that settles does not join them before the time is over" {
	restart
	begin_holder one x -s --settle 0
	# However long that took.
	local settle=$(($(up) + 4))
	try dlock -w 100ms -s --settle $settle x touch ran
	assert_equal "$status" 1
	start two dlock -s --settle $settle x touch ran
	until up_for $((settle - 1)); do
		[[ ! -e ran ]] || up_for $settle || fail 'joined too early' || return 1
		sleep 0.05
	done
	wait_until test -e ran
	assert is_held x
	finish two
	expect 0
	let_go one
}

@test "what is no time" {
	try dlock --settle 366d x true
	expect_failure 64 "'366d'"
	try dlock --settle -1 x true
	expect_failure 64 "'-1'"
}
