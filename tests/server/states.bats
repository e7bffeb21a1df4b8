# Servers in trouble: what passes is waited for, within -w, and else said in one line. A holder goes on
# if it can.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() {
	cli SCRIPT KILL >/dev/null 2>&1 || true
	cli CONFIG SET maxmemory 0 >/dev/null
	cli CONFIG SET min-replicas-to-write 0 >/dev/null
	cli REPLICAOF NO ONE >/dev/null
	test_end
}

# refused REGEX: exit 69 with one line when -w is over, COMMAND not run.
refused() {
	try dlock -w $((500 * TEST_PATIENCE))ms x touch ran
	expect_failure 69 "$1"
	try dlock -w $((500 * TEST_PATIENCE))ms --if-unreachable skip x touch ran
	assert_equal "$status" 0
	assert_match "$err" "$1"
	refute_file ran
}

# refused_at_once REGEX: the same, and -n does not wait for what an operator has to mend.
refused_at_once() {
	try dlock -n x touch ran
	expect_failure 69 "$1"
	((took < 3000 * TEST_PATIENCE)) || fail "it took $took ms"
	refused "$1"
}

# waits_for COMMAND...: a dlock that finds the server so waits, and runs once COMMAND has mended it.
waits_for() {
	start waiter dlock -v x echo ran
	stays 300 is_alive "$waiter_pid"
	"$@" >/dev/null
	finish waiter
	assert_equal "$status $out" '0 ran'
}

@test "LOADING: waited for; a lock that was saved is found again by its holder" {
	local debug=()
	! server_is_from 7.0 || debug=(--enable-debug-command yes)
	own_server big "${debug[@]}"
	export DLOCK_SERVER=unix://$PWD/big/socket
	redis-cli -s big/socket CONFIG SET rdbcompression no >/dev/null
	redis-cli -s big/socket DEBUG POPULATE 150 filler 1000 >/dev/null
	begin_holder one y -t 30 --report report
	redis-cli -s big/socket SAVE >/dev/null
	load
	try dlock -w $((300 * TEST_PATIENCE))ms x touch ran
	expect_failure 69 'is still loading its data'
	refute_file ran
	try dlock x echo ran
	expect 0 ran
	wait "$loading"
	load
	# Until then the server cannot tell whether it is busy.
	try dlock -n y true
	expect_failure 1 "held by $(hostname):$one_pid"
	let_go one
	assert_equal "$status" 0
	file_has report '"reclaimed":0'
}

# The server starts anew and takes its time: 150 keys of 15 ms each.
load() {
	server_end "$PWD/big"
	server_again "$PWD/big" --key-load-delay 15000 --loading-process-events-interval-bytes 1024 &
	loading=$!
	wait_until is_loading
}
is_loading() { redis-cli -s big/socket PING 2>&1 | grep -q LOADING; }

@test "BUSY: a script that does not end" {
	cli CONFIG SET lua-time-limit 50 >/dev/null
	begin_holder one y -t $((12 * TEST_PATIENCE))
	hang
	refused 'is busy with a script that does not end'
	waits_for cli SCRIPT KILL
	hang
	stays 1500 is_alive "$one_command"
	cli SCRIPT KILL >/dev/null
	wait_until is_renewed
	let_go one
	assert_equal "$status" 0
}

# A moment ago: what is left of its TTL.
is_renewed() { (($(cli PTTL lock:y) > 11500 * TEST_PATIENCE)); }

hang() {
	start hanger redis-cli -s "$SERVER/socket" EVAL 'while true do end' 0
	wait_until is_hanging
}
is_hanging() { cli PING 2>&1 | grep -q BUSY; }

@test "OOM: no lock is taken; a holder renews and releases its own" {
	begin_holder one y -t $((4 * TEST_PATIENCE))
	cli CONFIG SET maxmemory 1 >/dev/null
	refused_at_once 'is out of memory and takes no writes'
	waits_for cli CONFIG SET maxmemory 0
	cli CONFIG SET maxmemory 1 >/dev/null
	stays $((5000 * TEST_PATIENCE)) is_alive "$one_command"
	let_go one
	expect 0
	assert is_free y
}

@test "NOREPLICAS: no lock is taken; a holder goes on once there are some in time" {
	needs minimum
	begin_holder one y -t $((12 * TEST_PATIENCE))
	cli CONFIG SET min-replicas-to-write 1 >/dev/null
	refused_at_once 'has too few replicas and takes no writes'
	waits_for cli CONFIG SET min-replicas-to-write 0
	cli CONFIG SET min-replicas-to-write 1 >/dev/null
	wait_until file_has one.err 'cannot renew the lock'
	cli CONFIG SET min-replicas-to-write 0 >/dev/null
	wait_until is_renewed
	let_go one
	assert_equal "$status" 0
}

@test "NOREPLICAS for good: COMMAND is stopped in time; the release is tried until it is taken" {
	needs minimum
	begin_holder one y -t 2
	cli CONFIG SET min-replicas-to-write 1 >/dev/null
	finish one
	assert_equal "$status" 80
	cli CONFIG SET min-replicas-to-write 0 >/dev/null
	begin_holder two z
	cli CONFIG SET min-replicas-to-write 1 >/dev/null
	kill -RTMIN "$two_command"
	wait_until is_gone "$two_command"
	stays 200 is_held z
	cli CONFIG SET min-replicas-to-write 0 >/dev/null
	finish two
	assert_equal "$status" 0
	assert is_free z
}

@test "MISCONF: a server that cannot save" {
	local protected=()
	! server_is_from 7.0 || protected=(--enable-protected-configs yes)
	own_server full --save '3600 1000000' "${protected[@]}"
	mkdir "$PWD/full/gone"
	redis-cli -s full/socket CONFIG SET dir "$PWD/full/gone" >/dev/null
	rmdir "$PWD/full/gone"
	redis-cli -s full/socket BGSAVE >/dev/null
	export DLOCK_SERVER=unix://$PWD/full/socket
	wait_until cannot_save
	refused_at_once 'cannot save its data and takes no writes'
	waits_for redis-cli -s full/socket CONFIG SET stop-writes-on-bgsave-error no
}
cannot_save() { redis-cli -s full/socket INFO persistence | grep -q rdb_last_bgsave_status:err; }

@test "MASTERDOWN: a replica that has lost its master" {
	own_server lone
	redis-cli -s lone/socket REPLICAOF 127.0.0.1 1 >/dev/null
	redis-cli -s lone/socket CONFIG SET replica-serve-stale-data no >/dev/null
	export DLOCK_SERVER=unix://$PWD/lone/socket
	refused 'is a replica without its master'
	waits_for redis-cli -s lone/socket REPLICAOF NO ONE
}

@test "READONLY: a replica; a holder goes on once it is the master again" {
	begin_holder one y -t $((12 * TEST_PATIENCE))
	cli REPLICAOF 127.0.0.1 1 >/dev/null
	refused 'is a read-only replica'
	waits_for cli REPLICAOF NO ONE
	cli REPLICAOF 127.0.0.1 1 >/dev/null
	stays 1500 is_alive "$one_command"
	cli REPLICAOF NO ONE >/dev/null
	wait_until is_renewed
	let_go one
	assert_equal "$status" 0
}

has_room() { [[ $(cli CONFIG SET maxclients 10000 2>/dev/null) == OK ]]; }

@test "no room for another connection" {
	redis-cli -s "$SERVER/socket" CONFIG SET maxclients 1 >/dev/null
	start one redis-cli -s "$SERVER/socket" MONITOR
	wait_until file_has one.out OK
	refused_at_once 'takes no more connections'
	start waiter dlock x echo ran
	stays 300 is_alive "$waiter_pid"
	kill "$one_pid"
	finish one
	finish waiter
	expect 0 ran
	wait_until has_room # the waiter's connection may still be there
}
