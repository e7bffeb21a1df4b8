# 20 contenders, each taking the lock ten times; every round of a contestant follows one of flock(1).
# shellcheck shell=bash disable=SC2154

handoff_rounds=7
handoff_contenders=20
handoff_times=10

# handoff_round NAME: "TOTAL_MS MEDIAN_GAP_MS P99_GAP_MS" of one round of NAME.
handoff_round() {
	local log=$work/handoff/log total
	contestant_words "$1" "$work/handoff"
	rm -f "$log"
	total=$(env "${settings[@]}" "$work/contend" -c "$handoff_contenders" -r "$handoff_times" \
		"${lock[@]}" "$work/stamp" "$log") || { progress "handoff: $1 failed"; return 1; }
	sort -n "$log" | awk -f "$here/gaps.awk" -v total="$total" \
		-v runs=$((handoff_contenders * handoff_times))
}

# handoff_pairs NAME ROUNDS
handoff_pairs() {
	local ours theirs round
	rm -f "$work/handoff/rounds"
	for ((round = 0; round < $2; round++)); do
		theirs=$(handoff_round flock) && ours=$(handoff_round "$1") || return
		echo "$theirs $ours" >>"$work/handoff/rounds"
	done
	handoff_note flock 1 2 3
	handoff_note "$1" 4 5 6
	figure handoff "$1" total_ratio "$(handoff_median '$4 / $1' 2)"
	figure handoff "$1" gap_ratio "$(handoff_median '$5 / $2' 2)"
}

# handoff_note NAME COLUMN COLUMN COLUMN
handoff_note() {
	figure handoff "$1" total_ms "$(handoff_median "\$$2" 0)"
	figure handoff "$1" gap_ms "$(handoff_median "\$$3" 2)"
	figure handoff "$1" gap_p99_ms "$(handoff_median "\$$4" 2)"
}

# handoff_median EXPRESSION DECIMALS: of the rounds.
handoff_median() {
	awk "{ print $1 }" "$work/handoff/rounds" | sort -n |
		awk '{ v[NR] = $1 } END { printf "%.'"$2"'f\n", v[int((NR + 1) / 2)] }'
}

measure_handoff() {
	local name
	if [[ ! -d $work/handoff ]]; then
		redis_start "$work/handoff"
		[[ " ${contestants[*]} " != *@(" etcdctl "|" dlock-etcd ")* ]] || etcd_start "$work/handoff"
		[[ " ${contestants[*]} " != *@(" dlock-postgres "|" psql "|" libpq ")* ]] || postgres_start "$work/handoff"
		[[ " ${contestants[*]} " != *@(" dlock-zookeeper "|" kazoo ")* ]] || zookeeper_start "$work/handoff"
	fi
	for name in "${contestants[@]}"; do
		case $name in
		flock) ;;
		dlock | dlock-tcp | shared | shared-tcp | dlock-file) handoff_pairs "$name" "$handoff_rounds" ;;
		*) handoff_pairs "$name" 1 ;; # some take ten seconds
		esac
	done
}
