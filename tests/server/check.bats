# dlock check: what each kind of server is told.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() {
	cli CONFIG SET appendonly no >/dev/null || true
	cli CONFIG SET maxmemory 0 >/dev/null || true
	cli CONFIG SET maxmemory-policy noeviction >/dev/null || true
	test_end
}

# finding SUBJECT [SERVER]: its verdict and what was found, from the last try with --json.
finding() {
	jq -r --arg check "$1" --arg server "${2:-}" \
		'.findings[] | select(.check == $check and (.server | contains($server)))
			| .verdict + ": " + .found + (if .advice then " -> " + .advice else "" end)' try.out
}

# check [OPTION]... (No failure without saying what to do.)
check() {
	try dlock check --json "$@"
	jq -e 'all(.findings[]; .verdict != "failure" or .advice != null)' try.out >/dev/null || fail "$out"
}

# rewritten RULE...: the file's server behind a proxy that changes what it says, at ./rewrite.socket.
rewritten() {
	service "$BATS_TEST_DIRNAME/../programs/rewrite.py" "$PWD/rewrite.socket" "$SERVER/socket" "$@"
	wait_until test -S rewrite.socket
}

user() { cli ACL SETUSER "$@" >/dev/null; }

@test "a server that a restart empties: warnings, 1; with --settle fit, 0; nothing is left" {
	try dlock check
	assert_equal "$status$err" 1
	assert_match "$out" $'^CHECK +VERDICT +FOUND\n'
	assert_match "$out" $'\npersistence +warning +nothing is kept on disk: a restart loses every lock -> settle = 1m '
	assert_match "$out" $'\nscripts +ok '
	assert_equal "$(cli DBSIZE)" 0
	# Aligned: each line has its second and third column where the heading has them.
	awk '
		NR == 1 { second = index($0, "VERDICT"); third = index($0, "FOUND"); next }
		substr($0, second - 1, 1) != " " || substr($0, second, 1) == " " ||
		substr($0, third - 1, 1) != " " || substr($0, third, 1) == " " { exit 1 }' try.out

	try dlock check --settle 60s
	assert_equal "$status$err" 0
	refute_match "$out" 'warning|failure'
	printf 'settle = 1h\nttl = 1h\n' >conf
	try dlock check --config conf
	assert_equal "$status$err" 0
}

@test "--json: its schema, frozen" {
	check --settle 60s
	assert_equal "$status$err" 0
	jq -e --arg server "$DLOCK_SERVER" '
		(keys_unsorted == ["server", "verdict", "exit", "findings"]) and .server == $server
		and .verdict == "ok" and .exit == 0
		and ([.findings[].check] == ["version", "role", "persistence", "uptime", "memory",
			"replicas", "latency", "clock", "rights", "scripts"])
		and all(.findings[]; keys_unsorted == ["server", "check", "verdict", "found", "advice"]
			and .server == $server and .verdict == "ok" and .advice == null
			and (.found | type == "string"))' try.out >/dev/null || fail "$(<try.out)"
	assert_equal "$(wc -l <try.out)" 1
	check
	assert_equal "$status $(jq -r '"\(.verdict) \(.exit)"' try.out)" '1 warning 1'
	DLOCK_SERVER=unix:///nowhere check
	assert_equal "$status $(jq -r '"\(.verdict) \(.exit) \(.findings[].check)"' try.out)" '69 failure 69 reach'
	DLOCK_SERVER=$'unix:///no/\xff\u202ex' check
	assert_equal "$status $(jq -r '"\(.server) \(.findings[].server)"' try.out)" '69 unix:///no/??x unix:///no/??x'
}

@test "what a server says of itself reaches no terminal with a control character in it" {
	own_server replica
	redis-cli -s replica/socket REPLICAOF $'h\e[31m\u009b\u202eX\xff' 1 >/dev/null
	local form
	for form in '' --json -q; do
		DLOCK_SERVER=unix://$PWD/replica/socket try dlock check $form
		assert_equal "$status" 69
		assert_match "$out" 'a replica of h\?\[31m\?\?X\?:1'
		assert_match "$err" 'a replica of h\?\[31m\?\?X\?:1'
		LC_ALL=C refute grep -qaP '[\x00-\x09\x0b-\x1f\x7f]|\xc2\x9b|\xe2\x80\xae|\xff' try.out try.err
	done
}

@test "memory: a policy that evicts is a failure once it can strike" {
	cli CONFIG SET maxmemory-policy volatile-ttl >/dev/null
	check
	assert_equal "$status" 1
	assert_match "$(finding memory)" '^warning: maxmemory-policy volatile-ttl would .* -> maxmemory-policy noeviction'
	cli CONFIG SET maxmemory 100mb >/dev/null
	local policy
	for policy in volatile-ttl allkeys-lru volatile-random; do
		cli CONFIG SET maxmemory-policy $policy >/dev/null
		check --settle 60s
		assert_equal "$status" 69
		assert_match "$(finding memory)" "^failure: maxmemory-policy $policy: locks, which have an expiry, are evicted"
		assert_equal "$err" "dlock: $DLOCK_SERVER: $(finding memory | sed 's/^failure: //; s/ -> .*//')"
	done
	cli CONFIG SET maxmemory-policy noeviction >/dev/null
	check
	assert_match "$(finding memory)" '^ok: '
	rewritten answer 'used_memory:[0-9]{6}' used_memory:100000 answer '\r\nmaxmemory:1048' $'\r\nmaxmemory:0000'
	DLOCK_SERVER=unix://$PWD/rewrite.socket check
	assert_match "$(finding memory)" '^warning: [0-9]+% of maxmemory in use'
}

@test "persistence: what a restart loses, by what is synced when" {
	own_server disk --appendonly yes --appendfsync always
	export DLOCK_SERVER=unix://$PWD/disk/socket
	check -t 1
	assert_match "$(finding persistence)" '^ok: appendfsync always: a restart loses nothing'
	redis-cli -s disk/socket CONFIG SET appendfsync everysec >/dev/null
	check
	assert_equal "$status" 1
	assert_match "$(finding persistence)" '^warning: appendfsync everysec: .*2s.* -> settle = 1m '
	check --settle 60s
	assert_match "$(finding persistence)" '^ok: appendfsync everysec: .*; --settle keeps newcomers off'
	redis-cli -s disk/socket CONFIG SET appendfsync no >/dev/null
	check -t 5m
	assert_match "$(finding persistence)" '^warning: appendfsync no: .*30s.* -> settle = 5m '
	redis-cli -s disk/socket CONFIG SET appendonly no >/dev/null
	redis-cli -s disk/socket CONFIG SET save '60 1' >/dev/null
	check
	assert_match "$(finding persistence)" '^warning: snapshots at most'
	if may_acl; then
		redis-cli -s disk/socket ACL SETUSER default -config >/dev/null
		check
		assert_match "$(finding persistence)" '^warning: snapshots at most'
	else
		left_out 'needs acl' 'a user that may not see the settings'
	fi
}

@test "uptime: shorter than the TTL, a server may have forgotten locks that are held" {
	own_server fresh
	export DLOCK_SERVER=unix://$PWD/fresh/socket
	check -t 1h
	assert_match "$(finding uptime)" '^warning: up for .*wait for a TTL'
	check -t 1h --settle 1h
	assert_match "$(finding uptime)" '^ok: up for'
}

@test "a replica is a failure that names its master; replicas without a minimum are a warning" {
	own_server replica --replicaof 127.0.0.1 "$(<"$SERVER/port")"
	connected() { cli INFO replication | grep -q '^connected_slaves:1'; }
	wait_until connected
	check
	assert_match "$(finding replicas)" '^warning: 1: a failover loses .*--wait-replicas 1'
	cli CONFIG SET min-replicas-to-write 1 >/dev/null
	check
	if may_minimum; then
		assert_match "$(finding replicas)" '^ok: 1, min-replicas-to-write 1'
	else
		left_out 'needs minimum' 'a minimum that is one'
	fi
	rewritten answer 'redis_version:[0-9]' redis_version:5
	DLOCK_SERVER=unix://$PWD/rewrite.socket check
	assert_match "$(finding replicas)" '^warning: 1: a failover loses'
	cli CONFIG SET min-replicas-to-write 0 >/dev/null

	local asked
	asked=$(redis-cli -s replica/socket INFO commandstats | grep -c cmdstat_eval || true)
	DLOCK_SERVER=unix://$PWD/replica/socket check
	assert_equal "$status" 69
	assert_match "$(finding role)" "^failure: a replica of 127.0.0.1:$(<"$SERVER/port"), .*-> name its master"
	assert_equal "$(finding rights)$(finding scripts)" ''
	assert_equal "$(redis-cli -s replica/socket INFO commandstats | grep -c cmdstat_eval || true)" "$asked"
}

@test "rights: each command that a script or a waiter calls is missed by its name" {
	needs acl
	cat "$BATS_TEST_DIRNAME"/../../src/redis/script/lua/*.lua | grep -oE "\b[p]?call\('[A-Z]+'" | sed "s/.*'\(.*\)'/\1/" | sort -u >called
	assert_between "$(wc -l <called)" 20 100
	printf '%s\n' EVAL EVALSHA BLPOP >>called
	local command word
	for command in $(grep -vx INFO called); do
		word=${command,,}
		user guest reset on nopass '~lock:*' +@all "-$word"
		DLOCK_SERVER=unix://guest:x@$SERVER/socket check --settle 60s
		assert_equal "$status" 77 "without $word"
		assert_match "$(finding rights)" "^failure: user guest .*-> ACL SETUSER guest .*\+$word( |\$)"
		[[ $word != del ]] || assert_equal "$(cli DBSIZE)" 1
	done
	for word in info scan; do
		user guest reset on nopass '~lock:*' +@all "-$word"
		DLOCK_SERVER=unix://guest:x@$SERVER/socket check
		assert_equal "$status" 1
		assert_match "$(finding rights)" "^warning: .* -> ACL SETUSER guest \+$word\$"
	done
	user guest -info
	DLOCK_SERVER=unix://guest:x@$SERVER/socket check --settle 60s
	assert_equal "$status" 77
	assert_match "$(finding rights)" '^failure: .*\+info'

	# Told to grant what it says, the user may do all.
	user guest reset on nopass '~lock:*' +ping
	DLOCK_SERVER=unix://guest:x@$SERVER/socket check
	user guest +set
	DLOCK_SERVER=unix://guest:x@$SERVER/socket check --settle 60s
	user $(finding rights | sed 's/.*ACL SETUSER //')
	user guest +scan
	DLOCK_SERVER=unix://guest:x@$SERVER/socket check --settle 60s
	assert_match "$(finding rights)" '^ok: '
	assert_match "$(finding scripts)" '^ok: '
	cli FLUSHALL >/dev/null
}

@test "rights: keys that are not the user's, another prefix, a wrong password, none" {
	needs acl
	user guest reset on '>secret' '~other:*' +@all
	export DLOCK_PASSWORD=secret DLOCK_SERVER=unix://guest@$SERVER/socket
	check
	assert_equal "$status" 77
	assert_match "$(finding rights)" "^failure: .*keys that begin with 'lock:' -> ACL SETUSER guest ~lock:\*"
	check --prefix other: --settle 60s
	assert_equal "$status" 0
	DLOCK_PASSWORD=wrong check
	assert_equal "$status" 77
	assert_match "$(finding reach)" '^failure: .*does not accept this user name and password'
	refute_match "$out$err" 'secret|wrong[^p]'
	user default '>pw'
	unset DLOCK_PASSWORD
	DLOCK_SERVER=unix://$SERVER/socket check
	assert_equal "$status" 77
	assert_match "$(finding reach)" '^failure: .*asks for a password'
	REDISCLI_AUTH=pw cli ACL SETUSER default nopass >/dev/null
}

@test "no server, none that answers, one that is no Redis" {
	DLOCK_SERVER=unix:///nowhere try dlock check
	assert_equal "$status" 69
	assert_match "$err" '^dlock: cannot reach unix:///nowhere: No such file or directory$'
	rewritten answer '.*' 'HTTP/1.1 400 Bad Request'
	DLOCK_SERVER=unix://$PWD/rewrite.socket check
	assert_equal "$status" 76
	server_stop
	check
	server_continue
	assert_equal "$status" 69
	assert_match "$(finding reach)" '^failure: '
	assert_between "$took" 4000 20000
}

@test "it says which server it met, of those that speak Redis" {
	local key name verdict text product
	check
	# As the server's program calls itself.
	product=$(redis-server --version | grep -oE '^[A-Z][a-z]+')
	assert_match "$(finding version)" "^ok: $product [0-9]+\.[0-9]+"
	while read -r key name verdict; do
		rm -f rewrite.socket
		text=$key:1.000000000000000000
		rewritten answer valkey_version former_version answer 'redis_git_sha1:[0-9a-f]{8}' "${text:0:23}" # of one length
		DLOCK_SERVER=unix://$PWD/rewrite.socket check
		assert_match "$(finding version)" "^$verdict: ${name/_/ } [0-9.]+"
		assert_match "$(finding scripts)" '^ok: '
	done <<-'END'
		valkey_version Valkey ok
		dragonfly_version Dragonfly warning
		kvrocks_version Kvrocks warning
		redict_version Redict warning
		garnet_version Garnet warning
		mvcc_depth KeyDB warning
		rlec_version Redis_Enterprise warning
	END
}

@test "version, a Sentinel, a server that keeps no scripts" {
	local version
	version=$(cli INFO server | sed -n 's/^redis_version:\([0-9]\.[0-9]\).*/\1/p')
	# A Valkey says which Redis it is like, and its own version.
	rewritten answer "redis_version:$version" redis_version:4.0 answer valkey_version former_version
	DLOCK_SERVER=unix://$PWD/rewrite.socket check
	assert_equal "$status" 69
	assert_match "$(finding version)" '^failure: Redis 4\.0\.[0-9]+ -> Redis 5 or later'
	own_server other
	service "$BATS_TEST_DIRNAME/../programs/rewrite.py" "$PWD/two.socket" "$PWD/other/socket" ask '[0-9a-f]{40}' ffffffffffffffffffffffffffffffffffffffff
	wait_until test -S two.socket
	DLOCK_SERVER=unix://$PWD/two.socket check
	assert_equal "$status" 1
	assert_match "$(finding scripts)" '^warning: they work, but are not kept'
	printf 'port 0\nunixsocket %s/sentinel.socket\ndir %s\n' "$PWD" "$PWD" >sentinel.conf
	redis-server sentinel.conf --sentinel >/dev/null 2>&1 3>&- 4>&- &
	wait_until test -S sentinel.socket
	DLOCK_SERVER=unix://$PWD/sentinel.socket check
	kill $!
	wait_until is_gone $!
	assert_equal "$status" 69
	assert_match "$(finding role)" '^failure: a Sentinel'
}

@test "latency and clock are measured, and judged" {
	check
	assert_match "$(finding latency)" '^ok: 10 round trips: median [0-9.]+ms, slowest [0-9.]+ms$'
	rewritten delay 0.12 clock 90
	DLOCK_SERVER=unix://$PWD/rewrite.socket check -t 1
	assert_match "$(finding latency)" '^warning: 10 round trips: median 1[2-9][0-9]\.'
	assert_match "$(finding clock)" "^warning: 1m(29|30)s ahead of this host's -> .*NTP"
	rm rewrite.socket
	rewritten clock -7200
	DLOCK_SERVER=unix://$PWD/rewrite.socket check
	assert_match "$(finding clock)" "^warning: (2h|1h59m) behind this host's"
}

@test "in a Cluster a node is tried with a name of its own slots, undeclared keys included" {
	local one
	for one in a b; do
		own_server $one --cluster-enabled yes --cluster-node-timeout 2000
	done
	redis-cli -p "$(<a/port)" CLUSTER ADDSLOTS $(seq 0 2000) >/dev/null
	redis-cli -p "$(<b/port)" CLUSTER ADDSLOTS $(seq 2001 16383) >/dev/null
	redis-cli -p "$(<a/port)" CLUSTER MEET 127.0.0.1 "$(<b/port)" >/dev/null
	joined() { redis-cli -p "$(<"$1/port")" CLUSTER INFO | grep -q '^cluster_state:ok'; }
	wait_until -t 30 joined a
	wait_until -t 30 joined b
	for one in a b; do
		DLOCK_SERVER=redis://127.0.0.1:$(<$one/port) check --settle 60s
		assert_equal "$status" 0 "$(<try.out)"
		assert_match "$(finding role)" '^ok: a node of a Cluster'
		assert_match "$(finding scripts)" '^ok: '
		assert_equal "$(redis-cli -p "$(<$one/port)" DBSIZE)" 0
	done
}

@test "in a Cluster a node that has no slots: a bounded number of round trips" {
	local one
	for one in all none; do
		own_server $one --cluster-enabled yes --cluster-node-timeout 2000
	done
	redis-cli -p "$(<all/port)" CLUSTER ADDSLOTS $(seq 0 16383) >/dev/null
	redis-cli -p "$(<all/port)" CLUSTER MEET 127.0.0.1 "$(<none/port)" >/dev/null
	sends_away() { [[ $(redis-cli -p "$(<none/port)" GET x 2>&1) == MOVED* ]]; }
	wait_until -t 30 sends_away
	proxy "$PWD/none/socket"
	DLOCK_SERVER=unix://$PWD/proxy.socket check --settle 60s
	assert_equal "$status" 69
	assert_match "$(finding rights)" '^failure: .*is not the node that has this lock'
	# Six for a name that it might have, and what any other server is asked.
	assert_between "$(grep -c '>' turns)" 10 30 'round trips'
}

# quorum HOST:PORT...
quorum() {
	local IFS=,
	echo "redis+quorum://$*"
}

@test "a quorum: each server, then whether they are independent" {
	local one n=0
	for one in a b c; do
		own_server $one --bind 127.0.0.$((++n))
	done
	local a=127.0.0.1:$(<a/port) b=127.0.0.2:$(<b/port) c=127.0.0.3:$(<c/port)
	DLOCK_SERVER=$(quorum $a $b $c) try dlock check --settle 60s
	assert_equal "$status$err" 0 "$out"
	assert_match "$out" $'^SERVER +CHECK +VERDICT +FOUND\n'
	assert_equal "$(grep -c "^redis://$b " try.out)" 10
	DLOCK_SERVER=$(quorum $a $b $c) check --settle 60s
	assert_match "$(finding majority)" '^ok: all 3 servers are fit, and 1 may fail'
	assert_match "$(finding independence)" '^ok: '

	DLOCK_SERVER=$(quorum $a $b "localhost:$(<a/port)") check --settle 60s
	assert_equal "$status" 69
	assert_match "$(finding independence)" "^failure: redis://$a and redis://localhost:.* -> name each server once"

	own_server d
	DLOCK_SERVER=$(quorum $a $b $c "127.0.0.1:$(<d/port)") check --settle 60s
	assert_equal "$status" 1
	assert_match "$(finding majority)" '^warning: all 4 servers .* -> an odd number'
	assert_match "$(finding independence)" "^warning: redis://$a is on the same host as redis://127.0.0.1:$(<d/port)"

	server_end "$PWD/c"
	DLOCK_SERVER=$(quorum $a $b $c) check --settle 60s
	assert_equal "$status" 1
	assert_match "$(finding reach)" "^failure: cannot reach redis://$c"
	assert_match "$(finding majority)" '^warning: 2 of 3 servers are fit'
	server_end "$PWD/b"
	DLOCK_SERVER=$(quorum $a $b $c) check --settle 60s
	assert_equal "$status" 69
	assert_match "$(finding majority)" '^failure: 1 of 3 servers are fit: too few'
}

@test "a quorum whose servers replicate each other, or go by different clocks" {
	local one n=0
	for one in a b c; do
		own_server $one --bind 127.0.0.$((++n))
	done
	redis-cli -s b/socket REPLICAOF 127.0.0.1 "$(<a/port)" >/dev/null
	up() { redis-cli -s b/socket INFO replication | grep -q '^master_link_status:up'; }
	wait_until up
	local a=127.0.0.1:$(<a/port) b=127.0.0.2:$(<b/port) c=127.0.0.3:$(<c/port) late=127.0.0.4:$(<c/port)
	DLOCK_SERVER=$(quorum $a $b $c) check --settle 60s
	assert_equal "$status" 69
	assert_match "$(finding independence)" "^failure: redis://$a has the data of redis://$b -> .*do not replicate"
	assert_match "$(finding role $b)" "^failure: a replica of $a"
	redis-cli -s b/socket REPLICAOF NO ONE >/dev/null

	service "$BATS_TEST_DIRNAME/../programs/rewrite.py" "$late" "$PWD/c/socket" clock 60
	speaks() { [[ $(redis-cli -h 127.0.0.4 -p "$(<c/port)" PING 2>/dev/null) == PONG ]]; }
	wait_until speaks
	DLOCK_SERVER=$(quorum $a $b $late) check --settle 60s
	assert_equal "$status" 1
	assert_match "$(finding clocks)" "^warning: the clock of redis://$a is (59s|1m) behind that of redis://$late"
	assert_equal "$(finding independence)" ''
}

@test "-q shows failures only, -qq nothing; no operands; a stdout that is full" {
	try dlock check -q
	expect 1
	cli CONFIG SET maxmemory-policy allkeys-lru >/dev/null
	cli CONFIG SET maxmemory 100mb >/dev/null
	try dlock check -q
	assert_equal "$status $(wc -l <try.out)" '69 2'
	assert_match "$out" $'\nmemory +failure '
	try dlock check -qq
	expect 69
	try dlock check x
	expect_failure 64 "takes options only: 'x'"
	try sh -c 'dlock check >/dev/full'
	expect_failure 71 'standard output'
	try dlock check --watch
	assert_equal "$status" 64
}
