# --settle: no lock from a server that came up lately, and may have lost what it knew.

load helper

setup_file() { file_begin; }
setup() { test_begin; }
teardown() { test_end; }
teardown_file() { file_end; }

up() { cli INFO server | sed -n 's/^uptime_in_seconds:\([0-9]*\).*/\1/p'; }
is_waiting() { [[ $(cli ZCARD 'lock:{lock:x}:queue') == 1 ]]; }
up_for() { (($(up) >= $1)); }

@test "a server that has been up for less gives no lock, and says so" {
	try dlock -n --settle 1h x touch ran
	expect_failure 1 'busy: the server came up lately, and gives no lock for (1h|5[0-9]m[0-9.]*s) more'
	refute_file ran
	try dlock -w 200ms --settle 1h y touch ran
	expect_failure 1 'busy after 200ms: the server came up lately'
	try dlock -s -n --settle 1h z touch ran
	expect_failure 1 'came up lately'
	try dlock --permits 3 -n --settle 1h p touch ran
	expect_failure 1 'came up lately'
	refute_file ran
}

@test "a server that has been up for longer is not asked to wait" {
	wait_until up_for 3
	try dlock -n --settle 1 x echo ran
	expect 0 ran
}

@test "who waits gets the lock when the time is over, and not before" {
	server_end "$SERVER"
	local from
	from=$(now_ms)
	server_again "$SERVER"
	try dlock --settle 2 x date +%s%3N
	assert_equal "$status $err" '0 '
	assert_between $((out - from)) 2000 $((2000 + 2500 * TEST_PATIENCE)) 'ms after the start'
}

@test "the server restarts empty: a newcomer that settles lets the holder return" {
	hold one x
	kill -STOP $one_keeper
	server_end "$SERVER"
	server_again "$SERVER"
	start two dlock --settle 3 x touch ran
	wait_until is_waiting
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

@test "others share it: who settles does not join them before the time is over" {
	server_end "$SERVER"
	server_again "$SERVER"
	hold one x -s
	# However long that took.
	local settle=$(($(up) + 4))
	try dlock -n -s --settle $settle x touch ran
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

@test "it costs a run nothing that does not ask for it" {
	cli CONFIG RESETSTAT >/dev/null
	try dlock x true
	cli INFO commandstats >stats
	refute grep -q '^cmdstat_info' stats
	try dlock --settle 1ms x true
	cli INFO commandstats >stats
	assert grep -q '^cmdstat_info' stats
}

@test "what is no time" {
	try dlock --settle 366d x true
	expect_failure 64 "'366d'"
	try dlock --settle -1 x true
	expect_failure 64 "'-1'"
}
