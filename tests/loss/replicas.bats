# --wait-replicas: a lock counts once so many replicas have it, and is released if they have not.

load ../lib/helper

setup_file() {
	file_begin
	cli CONFIG SET repl-diskless-sync-delay 0 >/dev/null
	local one
	for one in 1 2; do
		server_begin "$BATS_FILE_TMPDIR/replica$one" --replicaof 127.0.0.1 "$(<"$SERVER/port")"
	done
	wait_until replicas_follow 2
	# Everybody has what came before.
	cli SET x 1 PX 1 >/dev/null
}

teardown_file() {
	server_end "$BATS_FILE_TMPDIR/replica1"
	server_end "$BATS_FILE_TMPDIR/replica2"
	file_end
}

setup() {
	test_begin
	wait_until replicas_follow 2
}

teardown() {
	thaw
	test_end
}

replicas_follow() { [[ $(cli INFO replication | grep -c 'state=online') == "$1" ]]; }
replica() { cli_of "$BATS_FILE_TMPDIR/replica$1" "${@:2}"; }
freeze() { kill -STOP "$(<"$BATS_FILE_TMPDIR/replica2/pid")"; }
thaw() { kill -CONT "$(<"$BATS_FILE_TMPDIR/replica2/pid")"; }

# What the server is asked to wait for from now on: watch_waits, then waits: "REPLICAS MS", a line each.
watch_waits() {
	start monitor redis-cli -s "$SERVER/socket" MONITOR
	wait_until file_has monitor.out OK
}
waits() { sed -n 's/.*"WAIT" "\([0-9]*\)" "\([0-9]*\)"/\1 \2/p' monitor.out; }
end_watch() {
	kill "$monitor_pid"
	finish monitor
}

@test "COMMAND finds the lock on as many replicas as were asked for" {
	local n
	for n in 1 2; do
		try dlock --wait-replicas 2 x redis-cli -s "$BATS_FILE_TMPDIR/replica$n/socket" EXISTS lock:x
		expect 0 1
	done
}

@test "too few in time: COMMAND does not run, and the lock is free at once" {
	freeze
	try dlock --wait-replicas 2:300ms --report report x touch ran
	expect_failure 69 '1 of the 2 replicas of unix://.* released'
	refute_file ran
	assert is_free x
	file_has report '"outcome":"unreachable","exit":69,.*"fence":null'
	try dlock --wait-replicas 1:300ms x echo ran
	expect 0 ran
	try dlock --wait-replicas 2:300ms --if-unreachable skip x touch ran
	assert_equal "$status" 0
	refute_file ran
}

@test "a server without replicas, and one that is itself one" {
	own_server alone
	try dlock -S "unix://$PWD/alone/socket" --wait-replicas 1:100ms x touch ran
	expect_failure 69 '0 of the 1 replicas'
	assert_equal "$(redis-cli -s alone/socket EXISTS lock:x)" 0
	try dlock -S "unix://$BATS_FILE_TMPDIR/replica1/socket" -w 300ms --wait-replicas 1 x touch ran
	expect_failure 69 'read-only replica'
	refute_file ran
}

@test "it costs no round trip: WAIT goes with the request, and with no other" {
	dlock --wait-replicas 1 x true
	proxy "$SERVER/socket"
	watch_waits
	try dlock -S "unix://$PWD/proxy.socket" --wait-replicas 2 x true
	expect 0
	wait_until file_has turns end
	assert_equal "$(paste -sd ' ' turns)" 'connect > < > < end'
	end_watch
	assert_equal "$(waits)" '2 1000'
}

@test "the time for it is what was given, and never more than -w leaves" {
	watch_waits
	try dlock --wait-replicas 1:250ms x true
	expect 0
	freeze
	try dlock -w 2 --wait-replicas 2:1m x true
	expect_failure 69 '1 of the 2'
	assert is_free x
	end_watch
	assert_equal "$(waits | head -n 1)" '1 250'
	assert_between "$(waits | sed -n '2s/2 //p')" 1 2000 'ms of WAIT'
}

@test "scripts that the server does not know yet: sent in full, with a WAIT of its own" {
	cli SCRIPT FLUSH >/dev/null
	try dlock --wait-replicas 2 x echo ran
	expect 0 ran
	cli SCRIPT FLUSH >/dev/null
	freeze
	try dlock --wait-replicas 2:200ms x echo ran
	expect_failure 69 '1 of the 2'
	assert is_free x
}

@test "busy with -n: said at once, though the replicas lag" {
	begin_holder one x
	freeze
	try dlock -n --wait-replicas 2:30s x true
	expect_failure 1 'held by'
	((took < 3000 * TEST_PATIENCE)) || fail "it waited for the replicas: $took ms"
	let_go one
	expect 0
}

@test "a waiter's claim counts only with replicas as well; else the next one gets it" {
	begin_holder one x
	start two dlock --wait-replicas 2:500ms x touch ran
	wait_until queued x 1
	start three dlock x echo third
	wait_until queued x 2
	freeze
	let_go one
	finish two
	expect_failure 69 '1 of the 2 replicas'
	refute_file ran
	finish three
	expect 0 third
}

@test "a waiter that queued while the replicas lagged gets its turn once they follow" {
	begin_holder one x
	freeze
	start two dlock --wait-replicas 2:700ms x echo second
	wait_until queued x 1
	thaw
	let_go one
	finish two
	expect 0 second
}

@test "TERM while the replicas are awaited: nothing is left behind" {
	freeze
	start one dlock --wait-replicas 2:1m x touch ran
	wait_until is_held x
	kill "$one_pid"
	finish one
	assert_equal "$status" 143
	refute_file ran
	assert is_free x
}

@test "with --also: all of them or none" {
	try dlock --wait-replicas 2 --also y x redis-cli -s "$BATS_FILE_TMPDIR/replica2/socket" EXISTS lock:x lock:y
	expect 0 2
	freeze
	try dlock --wait-replicas 2:200ms --also y x touch ran
	assert_equal "$status" 69
	assert_match "$err" '1 of the 2 replicas'
	refute_file ran
	assert is_free x
	assert is_free y
}

@test "what is no number of replicas" {
	local text
	for text in '' 0 -1 101 x 1: 1:x 1:-1s 1:0 1:2m :1s '1 ' 12345678901; do
		try dlock --wait-replicas "$text" x true
		expect_failure 64 "--wait-replicas: '$text' is no number of replicas"
	done
}
