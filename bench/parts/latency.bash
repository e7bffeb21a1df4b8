# What a link of 25 ms each way costs, in round trips: one run, three locks, 41 locks, a handoff, a look at
# 100 locks. Each is measured in pairs, direct and over the link; what the program itself takes is in both.
# shellcheck shell=bash disable=SC2154

latency_each_way=25
latency_pairs=7
latency_looked_at=100

# latency_link NAME FOLDER: FOLDER/far is then FOLDER, but for the link before its server.
latency_link() {
	local listen target
	mkdir -p "$2/far"
	case $1 in
	*etcd*)
		listen=$(random_port) target=$(<"$2/etcd-port")
		echo "$listen" >"$2/far/etcd-port"
		;;
	*) listen=$2/far/redis.sock target=$2/redis.sock ;;
	esac
	"$work/delay" "$latency_each_way" "$listen" "$target" &
	started+=("$!")
	sleep 0.2
}

# latency_words NAME FOLDER COUNT: sets `line`, a command that runs true under so many locks.
latency_words() {
	local i inner=()
	contestant_words "$1" "$2"
	case $1 in
	dlock*)
		for ((i = 1; i < $3; i++)); do
			inner+=(--also "bench$i")
		done
		line=(env "${settings[@]}" "$dlock" "${inner[@]}" bench true)
		;;
	*) # one within the other
		for ((i = 1; i < $3; i++)); do
			inner+=("${lock[@]/%bench/bench$i}")
		done
		line=(env "${settings[@]}" "${lock[@]}" "${inner[@]}" true)
		;;
	esac
}

# latency_look NAME FOLDER: sets `line`, a command that lists the locks and their holders.
latency_look() {
	contestant_words "$1" "$2"
	case $1 in
	dlock*) line=(env "${settings[@]}" "$dlock" status) ;;
	etcdctl) line=(env "${settings[@]}" etcdctl get --prefix "") ;;
	redis-cli) line=(env "${settings[@]}" "$here/peers/redis-cli-look") ;;
	redis-py) line=(env "${settings[@]}" "$python" "$here/peers/redis-py-look") ;;
	esac
}

# latency_note NAME METRIC MS_DIRECT MS_FAR
latency_note() {
	figure latency "$1" "$2" "$(awk -v a="$3" -v b="$4" -v trip=$((2 * latency_each_way)) \
		'BEGIN { printf "%.1f", (b - a) / trip }')"
}

# latency_pair NAME METRIC WORDS...: WORDS sets `line` for a folder.
latency_pair() {
	local name=$1 metric=$2 near far ms direct_ms
	shift 2
	"$1" "$name" "$work/latency" "${@:2}"
	near=("${line[@]}")
	"$1" "$name" "$work/latency/far" "${@:2}"
	far=("${line[@]}")
	read -r direct_ms ms _ < <("$work/pairs" -n "$latency_pairs" -w 1 "${near[@]}" ::: "${far[@]}") ||
		{ progress "latency: $metric of $name failed"; return; }
	latency_note "$name" "$metric" "$direct_ms" "$ms"
	[[ $metric != run ]] || figure latency "$name" run_ms "$ms"
	[[ $name != dlock ]] || figure latency "$name" "${metric}_told" \
		"$(awk -v ms="$ms" -v trip=$((2 * latency_each_way)) 'BEGIN { printf "%.2f", ms / trip }')"
}

# latency_gap NAME FOLDER: the median gap of 20 handoffs among five, ms.
latency_gap() {
	local log=$work/latency/log total
	contestant_words "$1" "$2"
	rm -f "$log"
	total=$(env "${settings[@]}" "$work/contend" -c 5 -r 4 "${lock[@]}" "$work/stamp" "$log") || return
	sort -n "$log" | awk -f "$here/gaps.awk" -v total="$total" -v runs=20 | cut -d ' ' -f 2
}

latency_handoff() {
	local near far
	near=$(latency_gap "$1" "$work/latency") && far=$(latency_gap "$1" "$work/latency/far") ||
		{ progress "latency: the handoffs of $1 failed"; return; }
	latency_note "$1" handoff "$near" "$far"
}

# So many locks that dlock holds, which etcdctl sees too; other clients of Redis have keys of their own.
latency_hold() {
	local i also=()
	for ((i = 1; i < latency_looked_at; i++)); do
		also+=(--also "held$i")
	done
	[[ -e $work/latency/held-$1 ]] && return
	: >"$work/latency/held-$1"
	contestant_words "$1" "$work/latency"
	[[ $1 != dlock ]] || redis-cli -s "$work/latency/redis.sock" \
		eval 'for i = 1, ARGV[1] do redis.call("SET", "peer:" .. i, i, "PX", 6000000) end' 0 "$latency_looked_at" \
		>/dev/null
	env "${settings[@]}" "$dlock" -t 600 "${also[@]}" held sleep 600 2>"$work/latency/held.log" &
	started+=("$!")
	until_true 60 latency_is_held
}

latency_is_held() {
	(($(env "${settings[@]}" "$dlock" status | wc -l) > latency_looked_at))
}

measure_latency() {
	local name
	if [[ ! -d $work/latency ]]; then
		redis_start "$work/latency"
		latency_link dlock "$work/latency"
		if [[ " ${contestants[*]} " == *@(" etcdctl "|" dlock-etcd ")* ]]; then
			etcd_start "$work/latency"
			latency_link etcdctl "$work/latency"
		fi
	fi
	for name in "${contestants[@]}"; do
		case $name in
		dlock | dlock-etcd | etcdctl | redis-cli | redis-py)
			latency_pair "$name" run latency_words 1
			latency_pair "$name" three latency_words 3
			[[ $name != dlock ]] || latency_pair "$name" many latency_words 41
			latency_handoff "$name"
			;;
		esac
	done
	latency_looks
}

latency_looks() {
	local name
	for name in "${contestants[@]}"; do
		case $name in
		dlock | dlock-etcd)
			latency_hold "$name" || { progress "latency: no locks to look at"; continue; }
			latency_pair "$name" look latency_look
			;;
		etcdctl | redis-cli | redis-py) latency_pair "$name" look latency_look ;;
		esac
	done
}
