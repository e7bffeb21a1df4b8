# A Redis Cluster whose nodes speak TLS alone: redirects go on with TLS, and each node must prove to be
# the one that a redirect names.

load ../lib/helper
load ../lib/authority

setup_file() {
	file_begin
	make_authority
	make_usual_certificates
	local one
	for one in a b; do
		tls_begin "$BATS_FILE_TMPDIR/$one" --tls-cluster yes --tls-replication yes \
			--cluster-enabled yes --cluster-config-file nodes.conf --cluster-node-timeout 5000
	done
	node a CLUSTER ADDSLOTS $(seq 0 8191) >/dev/null
	node b CLUSTER ADDSLOTS $(seq 8192 16383) >/dev/null
	node b CLUSTER SET-CONFIG-EPOCH 2 >/dev/null
	node a CLUSTER MEET 127.0.0.1 "$(tls_of b)" >/dev/null
	wait_until -t 30 is_well a
	wait_until -t 30 is_well b
}

teardown_file() {
	server_end "$BATS_FILE_TMPDIR/a"
	server_end "$BATS_FILE_TMPDIR/b"
	file_end
}

setup() {
	test_begin
	node a FLUSHALL >/dev/null
	node b FLUSHALL >/dev/null
	export DLOCK_SERVER=rediss://localhost:$(tls_of a)?cacert=$CA/ca.pem
}

teardown() {
	local one left
	for one in a b; do
		left=$(node $one --scan | grep -v '}:meta' || true)
		[[ -z ${BATS_TEST_COMPLETED:-} || -z $left ]] || fail "left on $one: $left"
	done
	test_end
}

node() { cli_of "$BATS_FILE_TMPDIR/$1" "${@:2}"; }
tls_of() { echo "$(<"$BATS_FILE_TMPDIR/$1/tls")"; }
is_well() { [[ $(node "$1" CLUSTER INFO | tr -d '\r' | grep -cE '^cluster_(state:ok|slots_ok:16384|known_nodes:2)$') == 3 ]]; }
present() { present_at "$BATS_FILE_TMPDIR/$1" "$2"; }
has() { [[ $(node "$1" EXISTS "lock:$2") == 1 ]]; }
waits_at() { [[ $(node "$1" ZCARD "lock:{lock:$2}:queue") == 1 && $(node "$1" CLIENT LIST | grep -c 'cmd=blpop') == 1 ]]; }

# A lock NAME whose slot is on that node.
name_on() {
	local i
	for i in {1..50}; do
		if [[ $(node "$1" EXISTS "lock:n$i") == [01] ]]; then
			echo "n$i"
			return
		fi
	done
}

@test "a redirect goes on with TLS; the report and status name the node" {
	has_tls || return 0
	local a b
	a=$(name_on a) b=$(name_on b)
	begin_holder one "$b" --also "$a"
	assert has a "$a"
	assert has b "$b"
	try dlock -n "$b" touch ran
	expect_failure 1 "held by $(hostname):$one_pid"
	try dlock status
	assert_match "$out" "$a .*"
	assert_match "$out" "$b .*"
	let_go one
	expect 0
	try dlock --report report "$b" echo ran
	expect 0 ran
	assert_equal "$(jq -r .server report)" "rediss://127.0.0.1:$(tls_of b)"
	refute_file ran
}

@test "waiting at another node, by TLS; ended, or its keeper killed: released there" {
	has_tls || return 0
	local name
	name=$(name_on b)
	begin_holder one "$name"
	start two dlock "$name" echo second
	wait_until waits_at b "$name"
	let_go one
	finish two
	expect 0 second
	rm -f one.count
	begin_holder one "$name"
	start three dlock "$name" touch ran
	wait_until waits_at b "$name"
	kill "$three_pid"
	finish three
	assert_equal "$status" 143
	assert_equal "$(node b ZCARD "lock:{lock:$name}:queue")" 0
	kill -KILL "$one_keeper"
	finish one
	assert_equal "$status" 70
	refute has b "$name"
	refute_file ran
}

@test "a slot moves in mid-hold and in mid-wait, with a while in between (ASK): by TLS" {
	has_tls || return 0
	local name slot key one
	name=$(name_on a)
	slot=$(node a CLUSTER KEYSLOT "lock:$name")
	begin_holder one "$name" -t $((4 * TEST_PATIENCE)) --report report
	node b CLUSTER SETSLOT "$slot" IMPORTING "$(node a CLUSTER MYID)" >/dev/null
	node a CLUSTER SETSLOT "$slot" MIGRATING "$(node b CLUSTER MYID)" >/dev/null
	node a CLUSTER GETKEYSINSLOT "$slot" 100 | while IFS= read -r key; do
		node a MIGRATE 127.0.0.1 "$(tls_of b)" "$key" 0 5000 >/dev/null
	done
	# Longer than the TTL; b has it for clients that a sent there.
	stays $((5000 * TEST_PATIENCE)) eval '[[ $(node b CLUSTER GETKEYSINSLOT '"$slot"' 100) == *"lock:'"$name"'"* ]]'
	start two dlock -v "$name" echo second
	for one in b a; do
		node $one CLUSTER SETSLOT "$slot" NODE "$(node b CLUSTER MYID)" >/dev/null
	done
	wait_until waits_at b "$name"
	assert is_alive "$one_command"
	let_go one
	assert_equal "$status" 0
	file_has report '"reclaimed":0'
	finish two
	assert_equal "$status $out" '0 second'
	assert_match "$err" "granted by rediss://127.0.0.1:$(tls_of b)"
}

@test "a node whose certificate is not for the one the redirect names: 77, nothing asked there" {
	has_tls || return 0
	local a b case
	a=$(name_on a) b=$(name_on b)
	for case in elsewhere named; do
		present b $case
		node b CONFIG RESETSTAT >/dev/null
		try dlock "$b" touch ran
		expect_failure 77 "the certificate of rediss://127\.0\.0\.1:$(tls_of b) is for another address"
		try dlock status
		expect_failure 77 "the certificate of rediss://127\.0\.0\.1:$(tls_of b) is for another address"
		refute_match "$(node b INFO commandstats)" 'eval|cmdstat_auth'
		try dlock "$a" echo ran
		expect 0 ran
	done
	try dlock -S "$DLOCK_SERVER&insecure=1" "$b" echo ran
	expect 0 ran
	try dlock -S "$DLOCK_SERVER&sni=localhost" "$b" echo ran
	expect 0 ran
	present b good
	refute_file ran
}

@test "nodes that name each other by host prove to be that host" {
	has_tls || return 0
	local b one
	b=$(name_on b)
	for one in a b; do
		present $one named
		node $one CONFIG SET cluster-announce-hostname localhost cluster-preferred-endpoint-type hostname >/dev/null
	done
	wait_until eval '[[ $(node a GET "lock:'"$b"'" 2>&1) == *localhost* ]]'
	try dlock -v "$b" echo ran
	assert_equal "$status $out" '0 ran'
	assert_match "$err" "granted by rediss://localhost:$(tls_of b)"
	for one in a b; do
		node $one CONFIG SET cluster-preferred-endpoint-type ip >/dev/null
		present $one good
	done
}
