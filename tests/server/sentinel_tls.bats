# Behind Sentinels that speak TLS alone, as their servers do: found, followed when they choose another,
# and each of them believed only by its certificate.

load ../lib/helper
load ../lib/authority
load ../lib/sentinel

readonly SERVERS='d1 d2' PORT_FILE=tls

setup_file() {
	file_begin
	make_authority
	make_usual_certificates
	tls_begin "$BATS_FILE_TMPDIR/d1" --tls-replication yes --repl-diskless-sync-delay 0
	tls_begin "$BATS_FILE_TMPDIR/d2" --tls-replication yes --repl-diskless-sync-delay 0 \
		--replicaof 127.0.0.1 "$(port d1)"
	wait_until node_has d1 'connected_slaves:1'
	begin s1 good
	begin s2 good
	begin s3 elsewhere
	wait_until -t 60 settled
}

teardown_file() {
	local one
	for one in s1 s2 s3 d1 d2; do
		server_end "$BATS_FILE_TMPDIR/$one"
	done
	file_end
}

setup() {
	test_begin
	export SENTINELS=127.0.0.1:$(port s1),localhost:$(port s2)
	export DLOCK_SERVER=rediss+sentinel://$SENTINELS/main?cacert=$CA/ca.pem
	wait_until -t 40 settled
	master=$(master)
}

teardown() { test_end; }

present() { present_at "$BATS_FILE_TMPDIR/$1" "$2"; }

sentinel_listens() { printf '%s\n' "port 0" "tls-port $1" "tls-replication yes" "tls-auth-clients no"; }

# begin NAME CERTIFICATE: a Sentinel. Among themselves they do not mind which host a certificate is for.
begin() {
	sentinel_begin "$1" main "$(port d1)" 1 "tls-ca-cert-file $CA/ca.pem" "tls-cert-file $CA/$2.pem" \
		"tls-key-file $CA/$2.key"
}

listen_at() { [[ $(node "$1" CLIENT LIST | grep -c cmd=blpop) == "$2" ]]; }

@test "the master is found by TLS, and named; waiters are woken" {
	has_tls || return 0
	try dlock -v --report report x echo ran
	assert_equal "$status $out" '0 ran'
	assert_match "$err" "granted by rediss://127.0.0.1:$(port "$master")"
	assert_equal "$(jq -r .server report)" "rediss://127.0.0.1:$(port "$master")"
	begin_holder one x
	try dlock -n x touch ran
	expect_failure 1 "held by $(hostname):$one_pid"
	try dlock status --json
	assert_match "$out" '"name":"x"'
	start two dlock x echo second
	wait_until listen_at "$master" 1
	let_go one
	expect 0
	finish two
	expect 0 second
	refute_file ran
}

@test "a sentinel whose certificate is wrong is passed over; where all are, 77" {
	has_tls || return 0
	try dlock -S "rediss+sentinel://127.0.0.1:$(port s3),127.0.0.1:$(port s1)/main?cacert=$CA/ca.pem" x echo ran
	expect 0 ran
	try dlock -w 5 -S "rediss+sentinel://127.0.0.1:$(port s3)/main?cacert=$CA/ca.pem" x touch ran
	expect_failure 77 "the certificate of the sentinel 127\.0\.0\.1:$(port s3) is for another address"
	((took < 4000 * TEST_PATIENCE)) || fail "it took $took ms"
	refute_file ran
	# Without TLS they hear nothing, and say nothing.
	try dlock -w 0.5 -S "redis+sentinel://$SENTINELS/main" x touch ran
	expect_failure 69 "no sentinel names a master|does not answer"
	refute_file ran
}

@test "the master must prove to be the address that Sentinels name; else 77, nothing asked there" {
	has_tls || return 0
	local case
	for case in elsewhere named; do
		present "$master" $case
		node "$master" CONFIG RESETSTAT >/dev/null
		try dlock -w 5 x touch ran
		expect_failure 77 "the certificate of rediss://127\.0\.0\.1:$(port "$master") is for another address"
		refute_match "$(node "$master" INFO commandstats)" 'eval'
		try dlock status
		expect_failure 77 'is for another address'
	done
	# With sni= it must be that, as the Sentinels must.
	try dlock -S "$DLOCK_SERVER&sni=localhost" x echo ran
	expect 0 ran
	present "$master" good
	refute_file ran
}

@test "another master is chosen: in mid-hold COMMAND goes on, in mid-wait the turn comes" {
	has_tls || return 0
	begin_holder one x -t $((10 * TEST_PATIENCE)) --report report
	start two dlock -v x echo second
	wait_until listen_at "$master" 1
	node "$master" WAIT 1 5000 >/dev/null
	node s1 SENTINEL FAILOVER main
	wait_until is_chosen_anew
	wait_until listen_at "$(master)" 1
	assert is_alive "$one_command"
	let_go one
	assert_equal "$status" 0
	refute_match "$err" 'lost|stopped'
	finish two
	assert_equal "$status $out" '0 second'
	assert_match "$err" "granted by rediss://127.0.0.1:$(port "$(master)")"
}
