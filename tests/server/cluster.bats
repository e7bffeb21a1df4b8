# A Redis Cluster of three masters: found through any of its nodes, followed when a slot moves to another
# in mid-hold, in mid-wait, and while it moves.

load ../lib/helper

setup_file() {
	file_begin
	local one
	for one in a b c; do
		node_begin $one
	done
	node a CLUSTER ADDSLOTS $(seq 0 5460) >/dev/null
	node b CLUSTER ADDSLOTS $(seq 5461 10922) >/dev/null
	node c CLUSTER ADDSLOTS $(seq 10923 16383) >/dev/null
	node b CLUSTER SET-CONFIG-EPOCH 2 >/dev/null
	node c CLUSTER SET-CONFIG-EPOCH 3 >/dev/null
	meet a b
	meet a c
	wait_until all_are_well a b c
}

teardown_file() {
	local one
	for one in a b c; do
		server_end "$BATS_FILE_TMPDIR/$one"
	done
	file_end
}

setup() {
	test_begin
	local one
	for one in a b c; do
		node $one FLUSHALL >/dev/null
	done
	export DLOCK_SERVER=redis://127.0.0.1:$(port a)
}

teardown() {
	local one left
	for one in a b c; do
		left=$(node $one --scan | grep -v '}:meta' || true)
		[[ -z ${BATS_TEST_COMPLETED:-} || -z $left ]] || fail "left on $one: $left"
	done
	test_end
}

node_begin() {
	server_begin "$BATS_FILE_TMPDIR/$1" --cluster-enabled yes --cluster-config-file nodes.conf \
		--cluster-node-timeout 2000 --repl-diskless-sync-delay 0 "${@:2}"
}
meet() { node "$1" CLUSTER MEET 127.0.0.1 "$(port "$2")" >/dev/null; }
port() { echo "$(<"$BATS_FILE_TMPDIR/$1/port")"; }
node() { redis-cli -p "$(port "$1")" "${@:2}"; }
id() { node "$1" CLUSTER MYID; }
slot() { node a CLUSTER KEYSLOT "lock:$1"; }
all_are_well() {
	local one
	for one; do
		[[ $(node "$one" CLUSTER INFO | tr -d '\r' | grep -cE "^cluster_(state:ok|slots_ok:16384|known_nodes:$#)$") == 3 ]] || return 1
	done
}

# The node that has the NAME's slot.
home_of() {
	local one
	for one in a b c; do
		# Only there the answer is no redirect.
		if [[ $(node $one EXISTS "lock:$1") == [01] ]]; then
			echo $one
			return
		fi
	done
}
# A lock NAME whose slot is on that node.
name_on() {
	local i
	for i in {1..50}; do
		if [[ $(home_of "n$i") == "$1" ]]; then
			echo "n$i"
			return
		fi
	done
}

# Steps of moving a NAME's slot: begin_move, move_keys, end_move NAME FROM TO
begin_move() {
	node "$3" CLUSTER SETSLOT "$(slot "$1")" IMPORTING "$(id "$2")" >/dev/null
	node "$2" CLUSTER SETSLOT "$(slot "$1")" MIGRATING "$(id "$3")" >/dev/null
}
move_keys() {
	local key
	node "$2" CLUSTER GETKEYSINSLOT "$(slot "$1")" 100 | while IFS= read -r key; do
		node "$2" MIGRATE 127.0.0.1 "$(port "$3")" "$key" 0 5000 >/dev/null
	done
}
end_move() {
	local one
	for one in "$3" "$2" a b c; do
		node "$one" CLUSTER SETSLOT "$(slot "$1")" NODE "$(id "$3")" >/dev/null
	done
}
move() {
	begin_move "$@"
	move_keys "$@"
	end_move "$@"
}

has() { [[ $(node "$1" EXISTS "lock:$2") == 1 ]]; }
has_waiters() { [[ $(node "$1" ZCARD "lock:{lock:$2}:queue") == "$3" ]]; }

@test "any of its nodes will do; the report names the one that has the lock" {
	local one name holder
	for one in a b c; do
		name=$(name_on $one)
		rm -f holder.count
		begin_holder holder "$name" -S "redis://127.0.0.1:$(port b)"
		assert has $one "$name"
		for other in a b c; do
			try dlock -n -S "redis://127.0.0.1:$(port $other)" "$name" true
			expect_failure 1 "held by $(hostname):$holder_pid"
		done
		let_go holder
		expect 0
		try dlock --report report -S "unix://$BATS_FILE_TMPDIR/a/socket" "$name" true
		expect 0
		[[ $one == a ]] || file_has report "\"server\":\"redis://127.0.0.1:$(port $one)\""
	done
}

@test "waiting at another node than the URL's" {
	local name
	name=$(name_on c)
	begin_holder one "$name"
	start two dlock -v "$name" echo second
	wait_until has_waiters c "$name" 1
	let_go one
	finish two
	assert_equal "$status $out" '0 second'
	assert_match "$err" "granted by redis://127.0.0.1:$(port c)"
	finish_quickly
}
# A waiter that missed its message would have been woken by a look, 20 s later.
finish_quickly() { assert_equal "$(grep -c 'waited 1[0-9]s' two.err || true)" 0; }

@test "a thousand odd names: all keys in the lock's slot, whatever the name" {
	python <<'PROGRAM'
import random

seed = random.randrange(1 << 32)
print("seed", seed)
pick = random.Random(seed)
alphabet = ["{", "}", "{}", "{a}", "a", "é", "漢", ":", " ", "*", "\\", "/", "%", "'", '"', "ab", "}{", "😀"]
names = set()
while len(names) < 1000:
    name = "".join(pick.choice(alphabet) for _ in range(pick.randint(1, 12)))
    names.add(name[:1].replace("-", "_") + name[1:])
companions = "meta holders queue who wake waits once".split()
names = [n for n in sorted(names) if "://" not in n and not any("}:" + c in n for c in companions)]
with open("names", "w", encoding="utf-8") as file:
    file.write("".join(n + "\n" for n in names))
PROGRAM
	# A node refuses a script whose keys are not all in one slot that it has.
	local -a names also
	mapfile -t names <names
	assert_between "${#names[@]}" 900 1000 names
	# A set of locks has five seconds, however slow this dlock is.
	local first name most=$((100 / TEST_PATIENCE))
	for ((first = 0; first < ${#names[@]}; first += most)); do
		also=()
		for name in "${names[@]:first+1:most-1}"; do
			also+=(--also "$name")
		done
		try dlock "${also[@]}" -- "${names[first]}" true
		assert_equal "$status" 0 "$err"
	done
	python "$BATS_FILE_TMPDIR"/{a,b,c}/socket <<'PROGRAM'
import sys

import redis

names = [line.rstrip("\n") for line in open("names", encoding="utf-8")]
found = {}
for path in sys.argv[1:]:
    client = redis.Redis(unix_socket_path=path)
    for key in client.scan_iter(count=1000):
        found[key.decode()] = client.execute_command("CLUSTER", "KEYSLOT", key)
wanted = {client.execute_command("CLUSTER", "KEYSLOT", "lock:" + name) for name in names}
assert len(found) == len(names), (len(found), len(names))
assert set(found.values()) == wanted
PROGRAM
}

@test "one database: another is refused, clearly" {
	try dlock -S "$DLOCK_SERVER/1" x touch ran
	expect_failure 64 'is a cluster, which has one database'
	refute_file ran
}

@test "locks on several nodes: --also" {
	local a b c
	a=$(name_on a) b=$(name_on b) c=$(name_on c)
	begin_holder one "$b" --also "$a" --also "$c"
	assert has a "$a"
	assert has b "$b"
	assert has c "$c"
	try dlock -n "$c" true
	assert_equal "$status" 1
	start two dlock --also "$a" "$c" echo second
	let_go one
	expect 0
	finish two
	expect 0 second
}

@test "ended while it waits, or its keeper killed: released where the lock is" {
	local name
	name=$(name_on c)
	begin_holder one "$name"
	start two dlock "$name" touch ran
	wait_until waits_at c "$name"
	kill "$two_pid"
	finish two
	assert_equal "$status" 143
	assert has_waiters c "$name" 0
	kill -KILL "$one_keeper"
	finish one
	assert_equal "$status" 70
	refute has c "$name"
	refute_file ran
}

@test "a circle of waits over two nodes: the one that came last leaves" {
	local a b
	a=$(name_on a) b=$(name_on b)
	start one dlock "$a" sh -c ": >has1; until [ -e go1 ]; do sleep 0.02; done; dlock $b true; echo \$? >one.code"
	start two dlock "$b" sh -c ": >has2; until [ -e go2 ]; do sleep 0.02; done; dlock $a true; echo \$? >two.code"
	wait_until test -e has1
	wait_until test -e has2
	: >go1
	wait_until has_waiters b "$b" 1
	: >go2
	finish two
	finish one
	assert_file two.code 81
	assert_file one.code 0
}

@test "under a lock on one node, waiting for one on another: a look for circles disturbs nothing" {
	local a b
	a=$(name_on a) b=$(name_on b)
	begin_holder one "$b"
	start two dlock "$a" dlock "$b" echo inner
	wait_until has_waiters b "$b" 1
	# The look comes after a second.
	stays 1500 has_waiters b "$b" 1
	assert_equal "$(node b CLIENT LIST | grep -c 'cmd=blpop')" 1
	let_go one
	finish two
	expect 0 inner
}

@test "status sees all nodes; one that cannot be reached is said, not passed over" {
	local a b c
	a=$(name_on a) b=$(name_on b) c=$(name_on c)
	begin_holder one "$b" --also "$a" --also "$c"
	try dlock status --json
	assert_equal "$(grep -o '"name":"[^"]*"' <<<"$out" | sort | paste -sd' ')" \
		"$(printf '"name":"%s"\n' "$a" "$b" "$c" | sort | paste -sd' ')"
	try dlock status -S "redis://127.0.0.1:$(port c)" "$a"
	assert_equal "$status" 0
	assert_match "$out" "^NAME.*$a "
	let_go one
	cat >liar.py <<'PROGRAM'
import socket
import sys

listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
with open(sys.argv[1], "w") as file:
    file.write(str(port))
peer, _ = listener.accept()
peer.recv(65536)
peer.sendall(b"-CROSSSLOT Keys in request don't hash to the same slot\r\n")
while peer.recv(65536):
    peer.sendall(b"*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:1\r\n$2\r\nid\r\n")
PROGRAM
	service "$PWD/liar.py" "$PWD/liar.port"
	wait_until is_file liar.port
	try dlock status -S "redis://127.0.0.1:$(<liar.port)"
	expect_failure 69 'cannot reach redis://127.0.0.1:1: Connection refused'
}

@test "without the right to ask for the nodes: refused, no part shown; one server asks for none" {
	local one
	for one in a b c; do
		node $one ACL SETUSER app on '>pw' '~lock:*' +@all -cluster >/dev/null
	done
	try dlock -S "redis://app:pw@127.0.0.1:$(port a)" "$(name_on b)" echo ran
	expect 0 ran
	try dlock status -S "redis://app:pw@127.0.0.1:$(port a)"
	expect_failure 77 "does not give this user the rights.*cluster.slots"
	for one in a b c; do
		node $one ACL DELUSER app >/dev/null
	done
	cli ACL SETUSER app on '>pw' '~lock:*' +@all -cluster >/dev/null
	try dlock status -S "redis://app:pw@127.0.0.1:$(<"$SERVER/port")"
	cli ACL DELUSER app >/dev/null
	assert_equal "$status" 0
	assert_equal "$(cli ACL LOG)" ''
}

@test "a prefix with a hash tag: all locks on one node, whichever is asked" {
	begin_holder one x --prefix '{t}:'
	local from
	for from in a b c; do
		try dlock status -S "redis://127.0.0.1:$(port $from)" --prefix '{t}:'
		assert_match "$out" 'x +exclusive'
	done
	let_go one
	expect 0
}

@test "a slot moves in mid-hold: COMMAND goes on, renewed and released at the new node" {
	local name
	name=$(name_on a)
	begin_holder one "$name" -t $((4 * TEST_PATIENCE)) --report report
	move "$name" a b
	# Longer than the TTL.
	stays $((5000 * TEST_PATIENCE)) has b "$name"
	assert is_alive "$one_command"
	try dlock -n "$name" true
	expect_failure 1 "held by $(hostname):$one_pid"
	let_go one
	expect 0
	refute has b "$name"
	file_has report '"reclaimed":0'
	move "$name" b a
}

@test "a slot moves in mid-wait: the waiter follows, and gets its turn by message" {
	local name
	name=$(name_on b)
	begin_holder one "$name"
	start two dlock -v "$name" echo second
	wait_until has_waiters b "$name" 1
	move "$name" b c
	wait_until waits_at c "$name"
	let_go one
	expect 0
	finish two
	assert_equal "$status $out" '0 second'
	assert_match "$err" "granted by redis://127.0.0.1:$(port c)"
	finish_quickly
	move "$name" c b
}
# Blocked in BLPOP there.
waits_at() { has_waiters "$1" "$2" 1 && [[ $(node "$1" CLIENT LIST | grep -c 'cmd=blpop') == 1 ]]; }

@test "a slot on the move, for longer than the TTL: the holder goes on, a newcomer waits" {
	local name key
	name=$(name_on c)
	begin_holder one "$name" -t $((4 * TEST_PATIENCE)) --report report
	# Half of its keys are there already.
	begin_move "$name" c a
	node c MIGRATE 127.0.0.1 "$(port a)" "$(meta_of "$name")" 0 5000 >/dev/null
	try dlock -n -S "redis://127.0.0.1:$(port c)" -w 300ms "$name" touch ran
	expect_failure 69 "is moving the lock's keys"
	refute_file ran
	stays $((4500 * TEST_PATIENCE)) is_alive "$one_command"
	# Now the lock itself.
	node c MIGRATE 127.0.0.1 "$(port a)" "lock:$name" 0 5000 >/dev/null
	stays $((4500 * TEST_PATIENCE)) is_alive "$one_command"
	start two dlock -S "redis://127.0.0.1:$(port b)" "$name" echo second
	move_keys "$name" c a
	stays 300 is_alive "$two_pid"
	end_move "$name" c a
	wait_until has_waiters a "$name" 1
	let_go one
	assert_equal "$status" 0
	file_has report '"outcome":"ran","exit":0,.*"reclaimed":0'
	finish two
	expect 0 second
	move "$name" a c
}

@test "a lock that is not there yet, in a slot on the move: taken when it has moved" {
	local name
	name=$(name_on a)
	begin_move "$name" a b
	start one dlock "$name" echo first
	stays 500 is_alive "$one_pid"
	end_move "$name" a b
	finish one
	expect 0 first
	move "$name" b a
}

@test "a node that names no host means its own" {
	local name one
	name=$(name_on c)
	for one in a b c; do
		node $one CONFIG SET cluster-preferred-endpoint-type unknown-endpoint >/dev/null
	done
	assert_match "$(node a GET "lock:$name" 2>&1)" "^MOVED [0-9]+ :$(port c)"
	try dlock "$name" echo ran
	expect 0 ran
	try dlock -S "unix://$BATS_FILE_TMPDIR/a/socket" "$name" echo ran
	expect 0 ran
	begin_holder one "$name"
	try dlock status
	assert_match "$out" "$name"
	let_go one
	for one in a b c; do
		node $one CONFIG SET cluster-preferred-endpoint-type hostname >/dev/null
	done
	try dlock "$name" touch ran
	expect_failure 76 'names no node of its cluster to turn to'
	for one in a b c; do
		node $one CONFIG SET cluster-preferred-endpoint-type ip >/dev/null
	done
	refute_file ran
}

@test "nodes that send from one to the other: a bounded number of times" {
	cat >circle.py <<'PROGRAM'
import socket
import sys

listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
with open(sys.argv[1], "w") as file:
    file.write(str(port))
with open(sys.argv[2], "w", buffering=1) as log:
    while True:
        peer, _ = listener.accept()
        log.write("connect\n")
        if peer.recv(65536):
            peer.sendall(b"-MOVED 1 127.0.0.1:%d\r\n" % port)
        peer.close()
PROGRAM
	service "$PWD/circle.py" "$PWD/circle.port" "$PWD/circle.log"
	wait_until is_file circle.port
	try dlock -n -w $((600 * TEST_PATIENCE))ms -S "redis://127.0.0.1:$(<circle.port)" x touch ran
	expect_failure 69 'send from one to the other'
	# Six in a row, a pause of 50 ms at least, and again.
	assert_between "$(grep -c connect circle.log)" 6 $((90 * TEST_PATIENCE))
	refute_file ran
}

@test "a cluster that is down: waited for, and said when time is up" {
	node_begin d
	try dlock -S "redis://127.0.0.1:$(port d)" -w $((300 * TEST_PATIENCE))ms x touch ran
	expect_failure 69 'a cluster that is down'
	refute_file ran
	start one dlock -S "redis://127.0.0.1:$(port d)" x echo ran
	stays 300 is_alive "$one_pid"
	node d CLUSTER ADDSLOTS $(seq 0 16383) >/dev/null
	finish one
	server_end "$BATS_FILE_TMPDIR/d"
	expect 0 ran
}

# How many scripts all nodes have run.
scripts_run() {
	local one
	for one in a b c; do
		node $one INFO commandstats | sed -n 's/^cmdstat_eval\(sha\)\?:calls=\([0-9]*\),.*/\2/p'
	done | paste -sd+ | bc
}

# How often all nodes were connected to.
connections() {
	local one
	for one in a b c; do
		node $one INFO stats | sed -n 's/^total_connections_received:\([0-9]*\).*/\1/p'
	done | paste -sd+ | bc
}

@test "locks on one node by one hash tag: --also takes them over one connection" {
	local before
	dlock '{t}a' true
	before=$(connections)
	dlock '{t}a' true
	before=$(($(connections) * 2 - before)) # after one more run like that, but for the one connection of each look
	try dlock --also '{t}a' --also '{t}b' '{t}c' sh -c 'set -- $DLOCK_FENCES; echo $#'
	expect 0 3
	assert_equal "$(connections)" "$before"
}

@test "a node dies in mid-hold and in mid-wait: its replica is found by way of the others" {
	local name
	name=$(name_on c)
	node_begin e
	meet a e
	wait_until all_are_well a b c e
	node e CLUSTER REPLICATE "$(id c)" >/dev/null
	wait_until -t 30 replica_follows c
	begin_holder one "$name" -t 60
	start two dlock -v "$name" echo second
	wait_until has_waiters c "$name" 1
	node c WAIT 1 5000 >/dev/null
	server_end "$BATS_FILE_TMPDIR/c"
	wait_until -t 40 is_master e
	wait_until -t 40 has_waiters e "$name" 1
	let_go one
	assert_equal "$status" 0
	finish two
	assert_equal "$status $out" '0 second'
	assert_match "$err" "granted by redis://127.0.0.1:$(port e)"
	assert_equal "$(node e EXISTS "lock:$name")" 0
	server_end "$BATS_FILE_TMPDIR/e"
	# It is the last test: the cluster is no longer whole.
	rm -f "$BATS_FILE_TMPDIR/c/nodes.conf"
	node_begin c
}
replica_follows() { node "$1" INFO replication | grep -q state=online; }
is_master() { node "$1" INFO replication | grep -q role:master && all_are_ok a b "$1"; }
all_are_ok() {
	local one
	for one; do
		node "$one" CLUSTER INFO | grep -q cluster_state:ok || return 1
	done
}
