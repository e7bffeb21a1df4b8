# The server forgets, or is told to. Where a second holder is possible, oracle judges by flock(2)
# (programs/oracle.c).

load ../lib/helper
load ../lib/deaf

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

@test "SCRIPT FLUSH during the hold: renewed and released all the same" {
	begin_holder one x -t "$TEST_PATIENCE"
	local token before
	token=$(cli GET lock:x)
	cli SCRIPT FLUSH >/dev/null
	before=$(expiry)
	wait_until -t 3 expires_after "$before"
	assert_equal "$(cli GET lock:x)" "$token"
	cli SCRIPT FLUSH >/dev/null
	let_go one
	assert_equal "$status$out$err" 0
	assert is_free x
}

expires_after() { (($(expiry) > $1)); }

@test "CLIENT KILL during the hold: renewed at once on another connection, not a second's wait" {
	begin_holder one x -t 30
	local before began round
	for round in 1 2 3; do
		before=$(expiry)
		began=$(now_ms)
		cli CLIENT KILL TYPE normal SKIPME yes >/dev/null
		wait_until -t 2 expires_after "$before"
		echo "# renewed after $(($(now_ms) - began)) ms" >>figures
	done
	let_go one
	assert_equal "$status$out" 0
}

@test "FLUSHALL and a thief that is quicker: stopped, exit 80, the thief's key untouched" {
	start_deaf one -t 3 --grace 0.3
	printf 'MULTI\nFLUSHALL\nSET lock:x thief PX 60000\nEXEC\n' | cli >/dev/null
	wait_until is_gone $one_command
	finish one
	assert_equal "$status" 80
	assert_equal "$(taken lock:x)" thief
}

@test "FLUSHALL and another dlock that is quicker: the first is stopped, and never gets it back" {
	start_deaf one -t $((3 * TEST_PATIENCE)) --grace 0
	cli FLUSHALL >/dev/null
	start two dlock -t 3 -n x sh -c 'until [ -e end ]; do sleep 0.05; done'
	wait_until is_gone $one_command
	finish one
	assert_equal "$status" 80
	touch end
	finish two
	assert_equal "$status" 0
}

@test "server restarted from its append-only file: the same lock, COMMAND goes on" {
	server_end "$SERVER"
	server_again "$SERVER" --appendonly yes --appendfsync always
	begin_holder one x -t 3
	local token
	token=$(cli GET lock:x)
	server_end "$SERVER"
	server_again "$SERVER" --appendonly yes --appendfsync always
	assert_equal "$(cli GET lock:x)" "$token"
	wait_until is_quiet $one_command
	let_go one
	assert_equal "$status" 0
	refute_match "$err" "lost|set again"
	server_end "$SERVER"
	rm -r "$SERVER/appendonlydir"
}

@test "server restarted from an older snapshot, before the grant: set again, COMMAND goes on" {
	try dlock x true
	cli SAVE >/dev/null
	begin_holder one x -t 20
	local token fence
	token=$(cli GET lock:x)
	fence=$(cli HGET "$(meta_of x)" fence)
	server_end "$SERVER"
	server_again "$SERVER"
	rm -f "$SERVER/dump.rdb"
	wait_until -t 3 owner_is x "$token"
	assert_equal "$(cli HGET "$(meta_of x)" fence)" "$fence" 'the fence'
	let_go one
	assert_equal "$status" 0
}

@test "server restarted from an older snapshot, in which another holds it: stopped, exit 80" {
	begin_holder old x -t 5
	cli SAVE >/dev/null
	let_go old
	start_deaf one -t 4 --grace 0
	server_end "$SERVER"
	server_again "$SERVER"
	rm -f "$SERVER/dump.rdb"
	wait_until is_gone $one_command
	finish one
	assert_equal "$status" 80
	wait_until is_free x
}
