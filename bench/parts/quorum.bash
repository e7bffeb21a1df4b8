# One uncontended run of true on five servers, in pairs: beside one server, and with two of the five
# dead or silent beside all five alive.
# shellcheck shell=bash disable=SC2154

quorum_pairs=150

# quorum_pair NAME URL_BESIDE URL. Locks of their own: servers know of how many each is.
quorum_pair() {
	local ms ratio low high kib line
	line=$("$work/pairs" -n "$quorum_pairs" "$dlock" -S "$2" "beside-$1" true ::: "$dlock" -S "$3" x true) ||
		{ progress "quorum: $1 failed"; return; }
	read -r _ ms ratio low high _ kib <<<"$line"
	figure quorum "$1" ms "$ms"
	figure quorum "$1" ratio "$ratio"
	figure quorum "$1" quartiles "$low to $high"
	figure quorum "$1" peak_kib "$kib"
}

# Seven servers: all of 1 to 5 live, and 6 and 7 are spoilt, so that all is measured in one run.
quorum_servers() {
	local i
	for i in {1..7}; do
		redis_start "$work/quorum/$i"
		quorum_pids[i]=$redis_pid
		quorum_hosts[i]=127.0.0.1:$(<"$work/quorum/$i/port")
	done
}

quorum_url() {
	local i hosts=()
	for i; do
		hosts+=("${quorum_hosts[i]}")
	done
	(IFS=, && echo "redis+quorum://${hosts[*]}")
}

measure_quorum() {
	contestant_is_there dlock || return 0
	if [[ ! -d $work/quorum ]]; then
		quorum_pids=() quorum_hosts=()
		quorum_servers
		kill -STOP "${quorum_pids[6]}" "${quorum_pids[7]}"
	fi
	quorum_pair five "redis://${quorum_hosts[1]}" "$(quorum_url 1 2 3 4 5)"
	if [[ ! -e $work/quorum/dead ]]; then
		quorum_pair silent "$(quorum_url 1 2 3 4 5)" "$(quorum_url 6 7 1 2 3)"
		kill -KILL "${quorum_pids[6]}" "${quorum_pids[7]}"
		: >"$work/quorum/dead"
	fi
	quorum_pair dead "$(quorum_url 1 2 3 4 5)" "$(quorum_url 6 7 1 2 3)"
}
