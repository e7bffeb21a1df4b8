# One uncontended run of true, whole processes, each contestant in pairs with flock(1).
# shellcheck shell=bash disable=SC2154

wrap_pairs=100

# wrap_pair NAME: the figures of NAME, and those of flock beside it.
wrap_pair() {
	local flock_ms ms ratio low high flock_kib kib line
	contestant_words "$1" "$work/wrap"
	line=$(env "${settings[@]}" "$work/pairs" -n "$wrap_pairs" flock "$work/wrap/file" true ::: \
		"${lock[@]}" true) || { progress "wrap: $1 failed"; return; }
	read -r flock_ms ms ratio low high flock_kib kib <<<"$line"
	figure wrap "$1" ms "$ms"
	figure wrap "$1" ratio "$ratio"
	figure wrap "$1" quartiles "$low to $high"
	figure wrap "$1" peak_kib "$kib"
	figure wrap flock ms "$flock_ms"
	figure wrap flock peak_kib "$flock_kib"
}

wrap_alone() {
	local ms ratio kib line
	line=$("$work/pairs" -n "$wrap_pairs" flock "$work/wrap/file" true ::: true) || return
	read -r _ ms ratio _ _ _ kib <<<"$line"
	figure wrap alone ms "$ms"
	figure wrap alone ratio "$ratio"
	figure wrap alone peak_kib "$kib"
}

# The libraries that a plain run of dlock maps, besides those that it may.
wrap_libraries() {
	local others
	contestant_words dlock "$work/wrap"
	# The keeper is the parent of COMMAND and has what the front mapped.
	others=$(env "${settings[@]}" "${lock[@]}" sh -c 'cat "/proc/$PPID/maps"' |
		awk '$6 ~ /\.so/ { print $6 }' | sort -u |
		grep -cvE '/(ld-|libc\.|libpthread|libhiredis|libbsd|libmd)[^/]*$')
	figure wrap dlock foreign_libraries "$others"
}

measure_wrap() {
	local name
	if [[ ! -d $work/wrap ]]; then
		redis_start "$work/wrap"
		[[ " ${contestants[*]} " != *@(" etcdctl "|" dlock-etcd ")* ]] || etcd_start "$work/wrap"
		[[ " ${contestants[*]} " != *@(" dlock-postgres "|" psql "|" libpq ")* ]] || postgres_start "$work/wrap"
		[[ " ${contestants[*]} " != *@(" dlock-zookeeper "|" kazoo ")* ]] || zookeeper_start "$work/wrap"
	fi
	wrap_alone
	for name in "${contestants[@]}"; do
		[[ $name == flock ]] || wrap_pair "$name"
	done
	contestant_is_there dlock && wrap_libraries
}
