# The lock service ZooKeeper for service/conformance.bats; service_redis.bash says what each function is for.
# Sessions end by themselves; so does what killed processes leave. It is one server, or with SERVICE_MEMBERS=3
# an ensemble. By a signal or a kill all servers are meant.

load ../lib/zookeeper

service_word=ZooKeeper

members=(one two three)
members=("${members[@]:0:${SERVICE_MEMBERS:-1}}")

service_begin() { zookeeper_begin "${members[@]}"; }
service_end() { zookeeper_end "${members[@]}"; }

service_reset() {
	zookeeper_is_up one || service_again
	zk one 'zk.delete("/locks", recursive=True) if zk.exists("/locks") else None'
}

# The nodes of contenders. That of a lock stays until the server notices that it is empty.
service_left() {
	zk one '
for name in zk.get_children("/locks") if zk.exists("/locks") else []:
	for child in zk.get_children("/locks/" + name): print(name, child)
' || true
}

# As long as the longest TTL that a test gives to what it kills.
service_reap() { wait_until -t $((40 * TEST_PATIENCE)) eval '[[ -z $(service_left) ]]'; }

service_url() { zookeeper_url "${members[@]}"; }
service_shown() { echo "$DLOCK_SERVER"; }
service_named() { by_name; }
service_nowhere() { echo zookeeper://127.0.0.1:1; }
service_wrong() {
	printf '%s\n' zookeeper://h:0 zookeeper://h:65536 zookeeper://h//x zookeeper://h/a/../b zookeeper://h?x=1 \
		zookeeper:// zookeeper://a,a zookeeper://h?style=x
}

service_kill() {
	local member
	for member in "${members[@]}"; do
		zookeeper_kill "$member"
	done
}
service_again() { zookeeper_again "${members[@]}"; }
service_restart() { echo 40; } # no session lasts longer (maxSessionTimeout)
# Of several servers each may undo a shorter TTL for half a tick after a session's beginning: the manual says 1.2 s.
service_crowd() { echo 63; }
service_settles() { ((${#members[@]} == 1)) || stays 1500 true; }
# The shortest session, 4 s, begins with COMMAND's end, or when it has settled, and lasts up to a tick longer, 0.5 s.
service_freeze() { halt $(service_pids); }
service_thaw() { ! zookeeper_is_up one || service_pids | xargs kill -CONT; }
service_pids() {
	local member
	for member in "${members[@]}"; do
		zookeeper_pid "$member"
	done
}

service_harms() { :; }

# The holder's node is removed, and another client's takes its place, with its number.
service_steal() {
	zk one "
path = '/locks/$1'
first = sorted(zk.get_children(path), key=lambda name: name[-10:])[0]
zk.create(path + '/' + 'f' * 32 + '__lock__' + first[-10:], b'thief')
zk.delete(path + '/' + first)
"
}

# As kazoo's WriteLock has it, but for a node that outlives the client. (Its Lock looks at no readers.)
service_foreign_take() {
	zk one "
lock = zk.WriteLock('/locks/$1', 'foreign')
sys.exit(0 if lock.acquire(blocking=False, ephemeral=False) else 1)
"
}

service_foreign_drop() {
	zk one "
path = '/locks/$1'
for child in zk.get_children(path):
	if not zk.get(path + '/' + child)[0].startswith(b'dlock'): zk.delete(path + '/' + child)
"
}

service_keeps() {
	zk one "
for path in ['/locks/$1/' + name for name in (zk.get_children('/locks/$1') if zk.exists('/locks/$1') else [])]:
    zk.delete(path)
if $2 != 1:
    zk.ensure_path('/locks/$1/~dlock$2-0000000001')
"
}
service_dump() { zk one "print(zk.get_children('/locks/$1'))"; }
