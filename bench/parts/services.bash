# dlock in etcd, PostgreSQL and ZooKeeper, each beside its peer on the same server: an uncontended run of
# true, in pairs, and the gap from one's end to the next one's start while 20 wait. In PostgreSQL five wait:
# each notification wakes every session that listens, so more of them measure that.
# shellcheck shell=bash disable=SC2154

source "$here/crowd.bash"

services_pairs=40
services_rounds=5

# services_line NAME FOLDER: sets `line`, NAME's words in that folder, with true.
services_line() {
	contestant_words "$1" "$2"
	line=(env "${settings[@]}" "${lock[@]}" true)
}

# services_run NAME PEER
services_run() {
	local folder=$work/services/$1 ours theirs ms peer_ms ratio low high
	services_line "$2" "$folder"
	theirs=("${line[@]}")
	services_line "$1" "$folder"
	ours=("${line[@]}")
	read -r peer_ms ms ratio low high _ < <("$work/pairs" -n "$services_pairs" "${theirs[@]}" ::: "${ours[@]}") ||
		{ progress "services: a run of $1 failed"; return; }
	figure services "$2" run_ms "$peer_ms"
	figure services "$1" run_ms "$ms"
	figure services "$1" run_ratio "$ratio"
	figure services "$1" run_quartiles "$low to $high"
}

# The processor time that the waiters have used, in clock ticks.
services_ticks() {
	# shellcheck disable=SC2046
	cat $(printf '/proc/%d/stat ' $(tree_of "${waiters[@]}")) 2>/dev/null |
		sed 's/.*) //' | awk '{ sum += $12 + $13 } END { print sum }'
}

# Until all wait: they use the processor no more.
services_settle() {
	local before=-1 now tries=0
	until now=$(services_ticks) && [[ $now == "$before" ]]; do
		((tries++ < 60)) || return 1
		before=$now
		sleep 0.5
	done
}

# services_gap NAME FOLDER WAITERS: the median gap of one round, ms.
services_gap() {
	contestant_words "$1" "$2"
	crowd_gather "$1" "$2" "$3" && services_settle && crowd_drain "$2" || return
	sort -n "$2/log" | awk -f "$here/gaps.awk" -v total=0 -v runs="$3" | cut -d ' ' -f 2
}

# services_median COLUMN DECIMALS
services_median() {
	awk "{ print $1 }" "$work/services/gaps" | sort -n |
		awk '{ v[NR] = $1 } END { printf "%.'"$2"'f\n", v[int((NR + 1) / 2)] }'
}

# services_handoff NAME WAITERS PEER PEER_FOLDER: in turn, as the machine's speed drifts.
services_handoff() {
	local round ours theirs
	rm -f "$work/services/gaps"
	for ((round = 0; round < services_rounds; round++)); do
		theirs=$(services_gap "$3" "$4" "$2") && ours=$(services_gap "$1" "$work/services/$1" "$2") ||
			{ progress "services: the handoffs of $1 failed"; return; }
		echo "$theirs $ours" >>"$work/services/gaps"
	done
	figure services "$3" gap_ms "$(services_median '$1' 2)"
	figure services "$1" gap_ms "$(services_median '$2' 2)"
	figure services "$1" gap_ratio "$(services_median '$2 / $1' 2)"
}

# services_measure NAME PEER WAITERS [PEER_OF_HANDOFF PEER_FOLDER]
services_measure() {
	contestant_is_there "$1" && contestant_is_there "$2" || { progress "services: no $1 or no $2"; return; }
	[[ -d $work/services/$1 ]] || contestant_server "$1" "$work/services/$1" || return
	services_run "$1" "$2"
	services_handoff "$1" "$3" "${4:-$2}" "${5:-$work/services/$1}"
}

measure_services() {
	local ttl=60
	[[ -d $work/services/dlock ]] || redis_start "$work/services/dlock"
	services_measure dlock-etcd etcdctl 20
	services_measure dlock-postgres libpq 5 dlock "$work/services/dlock"
	services_measure dlock-zookeeper kazoo 20
}
