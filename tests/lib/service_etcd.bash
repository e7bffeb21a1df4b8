# The lock service etcd for service/conformance.bats; service_redis.bash says what each function is for.
# Leases end by themselves; so does what killed processes leave. It is one member; with SERVICE_MEMBERS=3
# a cluster of three, and with SERVICE_TLS=1 by TLS. By a signal or a kill all members are meant.

load ../lib/etcd
load ../lib/authority

service_word=etcd
members=(one two three)
members=("${members[@]:0:${SERVICE_MEMBERS:-1}}")

service_begin() {
	[[ -z ${SERVICE_TLS:-} ]] || { make_authority; make_usual_certificates; }
	etcd_tls=${SERVICE_TLS:+ } etcd_begin "${members[@]}"
}
service_end() { etcd_end "${members[@]}"; }

service_reset() {
	etcd_is_up one || service_again
	etcd_ctl one del --from-key '' >/dev/null
}

service_left() { etcd_ctl one get --from-key '' --keys-only | grep . || true; }

# As long as the longest TTL that a test gives to what it kills.
service_reap() { wait_until -t $((40 * TEST_PATIENCE)) eval '[[ -z $(service_left) ]]'; }

service_url() { etcd_url "${members[@]}"; }
service_shown() { echo "${DLOCK_SERVER%%\?*}"; }
service_named() { by_name; }
service_nowhere() { echo etcd://127.0.0.1:1; }
service_wrong() { printf '%s\n' etcd://h:0 etcd://h:65536 etcd://h/x etcd://h?x=1 etcd:// etcd://a,a etcd://h?cacert=x; }

service_kill() {
	local member
	for member in "${members[@]}"; do
		etcd_kill "$member"
	done
}
service_again() { etcd_again_all "${members[@]}"; }
service_restart() { echo 12; }
service_crowd() { echo 63; }
service_settles() { :; }
service_freeze() { halt $(service_pids); }
service_thaw() { ! etcd_is_up one || service_pids | xargs kill -CONT; }
service_pids() {
	local member
	for member in "${members[@]}"; do
		etcd_pid "$member"
	done
}

service_harms() { :; }

# The holder's key is overwritten, and stays without a lease.
service_steal() {
	local key
	key=$(etcd_ctl one get --prefix "lock:$1/" --sort-by=CREATE --order=ASCEND --keys-only --limit=1 | grep .)
	etcd_ctl one put "$key" thief >/dev/null
}

# As etcdctl lock has it: a key of its own below the lock's name, if it is the first there.
service_foreign_take() {
	etcd_ctl one txn <<-END | grep -q '^SUCCESS' || return 1
		create("lock:$1/foreign") = "0"

		put "lock:$1/foreign" ""


	END
	[[ $(etcd_ctl one get --prefix "lock:$1/" --sort-by=CREATE --order=ASCEND --keys-only --limit=1 | grep .) == "lock:$1/foreign" ]] ||
		{ service_foreign_drop "$1"; return 1; }
}

service_foreign_drop() {
	local key
	for key in $(etcd_ctl one get --prefix "lock:$1/" --keys-only); do
		[[ $(etcd_ctl one get --print-value-only "$key") == *dlock* ]] || etcd_ctl one del "$key" >/dev/null
	done
}

service_keeps() {
	if [[ $2 == 1 ]]; then
		etcd_ctl one del "lock:$1/newer" >/dev/null
	else
		etcd_ctl one put "lock:$1/newer" "{\"dlock\":$2}" >/dev/null
	fi
}
service_dump() { etcd_ctl one get --prefix "lock:$1/" -w json | jq -c .kvs; }
