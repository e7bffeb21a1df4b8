# Behind three Sentinels: one master, two replicas. Found, followed when they choose another, in
# mid-hold and in mid-wait.

load ../lib/helper
load ../lib/sentinel

readonly SERVERS='d1 d2 d3' PORT_FILE=port

setup_file() {
	file_begin
	local one
	# Master and replicas by turns; SERVER only serves the helper.
	server_begin "$BATS_FILE_TMPDIR/d1" --repl-diskless-sync-delay 0
	for one in d2 d3; do
		server_begin "$BATS_FILE_TMPDIR/$one" --repl-diskless-sync-delay 0 \
			--replicaof 127.0.0.1 "$(port d1)"
	done
	wait_until node_has d1 'connected_slaves:2'
	for one in s1 s2 s3; do
		sentinel_begin "$one" main "$(port d1)" 2
	done
	wait_until -t 60 settled
}

teardown_file() {
	local one
	for one in s1 s2 s3 d1 d2 d3; do
		server_end "$BATS_FILE_TMPDIR/$one"
	done
	file_end
}

setup() {
	test_begin
	export SENTINELS=127.0.0.1:$(port s1),127.0.0.1:$(port s2),127.0.0.1:$(port s3)
	export DLOCK_SERVER=redis+sentinel://$SENTINELS/main
	wait_until -t 40 settled
	master=$(master)
}

teardown() { test_end; }

@test "the master is found, and named by -v and the report" {
	try dlock -v --report report x sh -c 'echo ran'
	assert_equal "$status $out" '0 ran'
	assert_match "$err" "granted by redis://127.0.0.1:$(port "$master")"
	file_has report "\"server\":\"redis://127.0.0.1:$(port "$master")\""
	assert_equal "$(node "$master" EXISTS "$(meta_of x)")" 1
	begin_holder one x
	try dlock -n x true
	expect_failure 1 "held by $(hostname):$one_pid"
	try dlock status --json
	assert_match "$out" '"name":"x"'
	let_go one
	expect 0
}

@test "a database of it" {
	DLOCK_SERVER+=/3 try dlock x redis-cli -p "$(port "$master")" -n 3 EXISTS lock:x
	expect 0 1
}

@test "a service that no sentinel knows: at once, 78" {
	try dlock -S "redis+sentinel://$SENTINELS/other" x touch ran
	expect_failure 78 "no sentinel of redis.sentinel://.* knows the service 'other'"
	try dlock -S "redis+sentinel://$SENTINELS/other" --if-unreachable skip x touch ran
	assert_equal "$status" 78
	try dlock status -S "redis+sentinel://$SENTINELS/other"
	assert_equal "$status" 78
	refute_file ran
}

@test "all sentinels down: at once, 69; with one of them unknowing too" {
	try dlock -S redis+sentinel://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/main x touch ran
	expect_failure 69 "no sentinel names a master for 'main'.*127.0.0.1:3: Connection refused"
	((took < 4000 * TEST_PATIENCE)) || fail "it took $took ms"
	try dlock -S "redis+sentinel://127.0.0.1:1,127.0.0.1:$(port s1)/other" x touch ran
	expect_failure 69 'Connection refused'
	refute_file ran
}

@test "a dead and a silent sentinel before the one that answers cost little" {
	fake_server silent
	try dlock x true # so that the server knows the scripts
	try dlock -S "redis+sentinel://127.0.0.1:1,127.0.0.1:$(<silent/port),127.0.0.1:$(port s3)/main" x echo ran
	expect 0 ran
	((took < 2000 * TEST_PATIENCE)) || fail "it took $took ms"
}

@test "silent sentinels: 69 when time is up" {
	fake_server silent
	try dlock -w 700ms -S "redis+sentinel://127.0.0.1:$(<silent/port)/main" x touch ran
	expect_failure 69 'does not answer'
	assert_between "$took" 600 $((3000 * TEST_PATIENCE))
	refute_file ran
}

@test "what is no sentinel" {
	fake_server garbage
	try dlock -S "redis+sentinel://127.0.0.1:$(<garbage/port)/main" x touch ran
	expect_failure 76 'does not speak the Redis protocol'
	try dlock -S "redis+sentinel://127.0.0.1:$(port "$master")/main" x touch ran
	expect_failure 76 'unknown command'
	refute_file ran
}

@test "a password: the master's; a sentinel that asks for one gets the same" {
	own_server secret --requirepass pw
	sentinel_begin s4 secret "$(<secret/port)" 1 'sentinel auth-pass secret pw'
	try dlock -S "redis+sentinel://:pw@127.0.0.1:$(port s4)/secret" x echo ran
	expect 0 ran
	try dlock -S "redis+sentinel://127.0.0.1:$(port s4)/secret" x touch ran
	expect_failure 77 'asks for a password'
	server_end "$BATS_FILE_TMPDIR/s4"
	sentinel_begin s4 secret "$(<secret/port)" 1 'sentinel auth-pass secret pw' 'requirepass pw'
	try dlock -S "redis+sentinel://:pw@127.0.0.1:$(port s4)/secret" x echo ran
	expect 0 ran
	try dlock -S "redis+sentinel://127.0.0.1:$(port s4)/secret" x touch ran
	expect_failure 77 'the sentinel .* asks for a password'
	try dlock -S "redis+sentinel://:no@127.0.0.1:$(port s4)/secret" x touch ran
	expect_failure 77 'the sentinel .* does not accept'
	server_end "$BATS_FILE_TMPDIR/s4"
	refute_file ran
}

@test "a user with the rights of the manual's rule, but not for ROLE" {
	needs acl
	node "$master" ACL SETUSER app on '>pw' '~lock:*' +@all -role >/dev/null
	try dlock -S "redis+sentinel://app:pw@$SENTINELS/main" x echo ran
	node "$master" ACL DELUSER app >/dev/null
	# A sentinel that wants no password is told none.
	expect 0 ran
}

@test "named as the master, but a replica: no lock is taken there, though it could be written to" {
	local other
	other=$(replicas_of "$master" | head -n 1)
	node "$other" CONFIG SET replica-read-only no >/dev/null
	sentinel_begin s4 stale "$(port "$other")" 9
	try dlock -w 1 -S "redis+sentinel://127.0.0.1:$(port s4)/stale" stale touch ran
	node "$other" CONFIG SET replica-read-only yes >/dev/null
	server_end "$BATS_FILE_TMPDIR/s4"
	expect_failure 69 'is not a master now'
	refute_file ran
	assert_equal "$(node "$other" --scan --pattern '*lock:stale*')" ''
}

@test "another master is chosen: in mid-hold COMMAND goes on, in mid-wait the turn comes" {
	begin_holder one x -t $((10 * TEST_PATIENCE)) -v --report report
	start two dlock -v x echo second
	# One whose holder's expiry gives no reason to look.
	begin_holder far y -t 60
	start three dlock y echo third
	wait_until listen_at "$master" 2
	wait_until replicas_have 'lock:{lock:x}:queue'
	node s1 SENTINEL FAILOVER main
	wait_until is_chosen_anew
	# The waiters listen at the new master, behind the same holders; the old one still takes itself for one.
	wait_until listen_at "$(master)" 2
	assert node_has "$master" role:master
	wait_until -t 40 settled
	assert is_alive "$one_command"
	wait_until node_counts "$(master)" ZCARD 'lock:{lock:x}:queue' 1
	assert_equal "$(node "$(master)" GET lock:x | cut -d: -f2)" "$one_pid"
	let_go one
	expect 0 '' "$err"
	refute_match "$err" 'lost|stopped'
	finish two
	assert_equal "$status $out" '0 second'
	assert_match "$err" "granted by redis://127.0.0.1:$(port "$(master)")"
	let_go far
	expect 0
	finish three
	expect 0 third
	wait_until -t 5 node_counts "$(master)" EXISTS lock:x 0
}

listen_at() { [[ $(node "$1" CLIENT LIST | grep -c cmd=blpop) == "$2" ]]; }
node_counts() { [[ $(node "$1" "${@:2:$#-2}") == "${!#}" ]]; }
replicas_have() {
	local one
	for one in $(replicas_of "$master"); do
		node_counts "$one" EXISTS "$1" 1 || return 1
	done
}

@test "the master is killed before anything was replicated: the lock is set again at the next" {
	local one
	# No renewal comes between the loss at the replicas and the master's death.
	begin_holder one x -t 60 --report report
	start two dlock x echo second
	wait_until node_counts "$master" ZCARD 'lock:{lock:x}:queue' 1
	for one in $(replicas_of "$master"); do
		wait_until node_counts "$one" ZCARD 'lock:{lock:x}:queue' 1
		node "$one" CONFIG SET replica-read-only no >/dev/null
		node "$one" FLUSHALL >/dev/null
		node "$one" CONFIG SET replica-read-only yes >/dev/null
	done
	server_end "$BATS_FILE_TMPDIR/$master"
	try dlock -w 200ms z touch ran
	expect_failure 69 "cannot reach redis://127.0.0.1:$(port "$master")"
	assert_between "$took" 200 100000 'ms until it gave up'
	refute_file ran
	wait_until -t 40 is_chosen_anew
	wait_until -t 10 node_counts "$(master)" EXISTS lock:x 1
	# A master that comes back does so as a replica.
	server_again "$BATS_FILE_TMPDIR/$master" --repl-diskless-sync-delay 0 \
		--replicaof 127.0.0.1 "$(port "$(master)")"
	assert is_alive "$one_command"
	refute_match "$(<two.out)" second
	let_go one
	assert_equal "$status" 0
	assert_match "$err" 'set again'
	file_has report '"reclaimed":1'
	finish two
	assert_equal "$status $out" '0 second'
}

@test "the master hangs: newcomer, holder and waiter go on at the next" {
	begin_holder one x -t $((20 * TEST_PATIENCE))
	start two dlock x echo second
	wait_until listen_at "$master" 1
	wait_until replicas_have 'lock:{lock:x}:queue'
	kill -STOP "$(<"$BATS_FILE_TMPDIR/$master/pid")"
	try dlock -w 200ms z touch ran
	expect_failure 69 "redis://127.0.0.1:$(port "$master") does not answer"
	refute_file ran
	start three dlock z echo ran
	wait_until is_chosen_anew
	finish three
	# Choosing may take longer than the five seconds that a client waits that never had an answer.
	[[ $status == 0 && $out == ran ]] || expect_failure 69 'does not answer'
	wait_until listen_at "$(master)" 1
	kill -CONT "$(<"$BATS_FILE_TMPDIR/$master/pid")"
	let_go one
	assert_equal "$status" 0
	finish two
	expect 0 second
}
