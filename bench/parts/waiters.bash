# What idle waiters ask of the server, and what a handoff costs it with few and with many of them.
# shellcheck shell=bash disable=SC2154

source "$here/crowd.bash"

waiters_count=50
waiters_window=30 # seconds; longer than dlock's waiters listen at a time, the others poll

# Commands that the server has processed; this look at it is one of them.
commands_so_far() {
	redis_info "$1" stats total_commands_processed
}

# waiters_idle NAME: commands per waiter and second, noted.
waiters_idle() {
	local folder=$work/waiters/$1 window=10 before after ttl=120
	[[ $1 != dlock ]] || window=$waiters_window
	contestant_server "$1" "$folder"
	crowd_gather "$1" "$folder" "$waiters_count" || return
	sleep 5
	before=$(commands_so_far "$folder")
	sleep "$window"
	after=$(commands_so_far "$folder")
	crowd_disperse "$folder"
	figure waiters "$1" rate "$(awk -v n=$((after - before - 1)) -v w="$waiters_count" -v s="$window" \
		'BEGIN { printf "%.2f", n / w / s }')"
}

queue_is_full() {
	(($(redis_info "$work/waiters/cost" clients blocked_clients) >= $1))
}

# waiters_handoff FOLDER: "CPU_US COMMANDS SCRIPT_US" that one handoff takes the server.
waiters_handoff() {
	local before after
	redis-cli -s "$1/redis.sock" config resetstat >/dev/null
	before=$(waiters_cpu "$1")
	crowd_step "$1" || return
	sleep 0.05 # until those who handed on have seen that it was taken
	after=$(waiters_cpu "$1")
	# Three commands are ours.
	echo "$((after - before)) $(($(commands_so_far "$1") - 3)) $(waiters_script_us "$1")"
}

# waiters_cost WAITERS HANDOFFS TIMES: medians of what HANDOFFS take in each of TIMES queues of
# WAITERS. The first of them stop at the gate, one after the other.
waiters_cost() {
	local folder=$work/waiters/cost i j
	rm -f "$folder/costs"
	for ((i = 0; i < $3; i++)); do
		crowd_gather dlock "$folder" 0 && crowd_grow "$2" "${gated[@]}" || return
		until_true 60 queue_is_full "$2" && crowd_grow $(($1 - $2)) "$work/stamp" "$folder/log"
		until_true 60 queue_is_full "$1" || { progress "no queue of $1"; return 1; }
		for ((j = 0; j < $2; j++)); do
			waiters_handoff "$folder" >>"$folder/costs" || { progress "no handoff among $1"; return 1; }
		done
		crowd_drain "$folder" || { progress "a waiter of $1 failed"; return 1; }
	done
	echo "$(waiters_median 1) $(waiters_median 2) $(waiters_median 3)"
}

# waiters_median COLUMN
waiters_median() {
	awk "{ print \$$1 }" "$work/waiters/cost/costs" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

waiters_cpu() {
	redis-cli -s "$1/redis.sock" info cpu | tr -d '\r' |
		awk -F: '/^used_cpu_(sys|user):/ { sum += $2 } END { printf "%.0f\n", sum * 1e6 }'
}

waiters_script_us() {
	redis_info "$1" commandstats cmdstat_evalsha | sed 's/.*usec=\([0-9]*\).*/\1/' | grep . || echo 0
}

waiters_release() {
	local few many
	contestant_server dlock "$work/waiters/cost"
	few=$(waiters_cost 2 1 20) && many=$(waiters_cost 1000 20 1) || return
	waiters_note 2 $few
	waiters_note 1000 $many
	figure waiters dlock release_ratio \
		"$(awk -v a="${few##* }" -v b="${many##* }" 'BEGIN { printf "%.2f", b / a }')"
}

# waiters_note WAITERS CPU_US COMMANDS SCRIPT_US
waiters_note() {
	figure waiters dlock "cpu_$1" "$2"
	figure waiters dlock "commands_$1" "$3"
	figure waiters dlock "script_$1" "$4"
}

measure_waiters() {
	local name
	rm -rf "$work/waiters"
	for name in "${contestants[@]}"; do
		case $name in
		flock | dlock-tcp | shared | shared-tcp | dlock-file | dlock-etcd | etcdctl | dlock-postgres | psql | libpq | dlock-zookeeper | kazoo) ;; # no server; as dlock; counts otherwise
		*) waiters_idle "$name" ;;
		esac
	done
	contestant_is_there dlock && waiters_release
}
