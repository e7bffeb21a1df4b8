# Every wrapper under the same faults, in the same order: faults.py does them, judge.c sees what they led to.
# Those that renew have a TTL of 3 s, the others one of 5 s; the job that is hurt takes 4 s.
# Run by itself (bench/run faults): it takes nine minutes, and hurts what it runs.
# shellcheck shell=bash disable=SC2034,SC2154

faults_seconds=${FAULTS_SECONDS:-520} # all of them
faults_lanes=${FAULTS_LANES:-7}       # contestants at a time: they mostly wait
faults_seed=${FAULTS_SEED:-1}

# quorum_hosts_in FOLDER: the three servers of a quorum, or what stands before them.
quorum_hosts_in() {
	local i hosts=()
	for i in 1 2 3; do
		hosts+=("127.0.0.1:$(<"$1/$i/port")")
	done
	(IFS=, && echo "${hosts[*]}")
}

faults_renews() { [[ $1 != @(redis-cli|redis-py|node-redlock) ]]; }

# faults_port FOLDER FILE: something between us and the port in FOLDER/FILE; its own is in FOLDER/near/FILE.
faults_port() {
	local port
	mkdir -p "$(dirname "$1/near/$2")"
	port=$(random_port)
	echo "$port" >"$1/near/$2"
	proxies+=(--proxy "$port=$(<"$1/$2")")
}

# faults_server NAME FOLDER: starts it; sets `pids`, and `proxies`: what stands between it and the contenders.
faults_server() {
	local i folder=$2
	pids=() proxies=()
	mkdir -p "$folder/near"
	if [[ $1 == dlock-quorum ]]; then
		for i in 1 2 3; do
			redis_start "$folder/$i"
			pids+=("$redis_pid")
			faults_port "$folder" "$i/port"
		done
		return
	fi
	contestant_server "$1" "$folder" || return
	[[ $1 != @(flock|dlock-file) ]] || return 0
	pids=("${started[-1]}")
	case $1 in
	dlock-etcd | etcdctl) faults_port "$folder" etcd-port ;;
	dlock-zookeeper | kazoo) faults_port "$folder" zookeeper-port ;;
	dlock-postgres | psql)
		mkdir -p "$folder/near/postgres"
		proxies=(--proxy "$folder/near/postgres/.s.PGSQL.5432=$folder/postgres/.s.PGSQL.5432")
		;;
	*) proxies=(--proxy "$folder/near/redis.sock=$folder/redis.sock") ;;
	esac
}

# faults_of NAME SECONDS: the figures go to a file.
faults_of() {
	local folder=$work/faults/$1 ttl=3 zookeeper_tick_ms=500 dlock_options=(-q -t 3s) pids proxies keeper=()
	started=()
	trap '((${#started[@]} == 0)) || kill -KILL "${started[@]}" 2>/dev/null' EXIT
	faults_renews "$1" || ttl=5
	[[ $1 != dlock* ]] || keeper=(--keeper)
	faults_server "$1" "$folder" || return
	contestant_words "$1" "$folder/near"
	env "${settings[@]}" /usr/bin/python3 "$here/faults.py" --folder "$folder" --judge "$work/judge" --seconds "$2" \
		--seed "$faults_seed" --ttl "$ttl" "${pids[@]/#/--server=}" "${proxies[@]}" "${keeper[@]}" -- "${lock[@]}" \
		>"$folder/figures" 2>"$folder/told"
}

measure_faults() {
	local name lane names=() seconds metric value
	rm -rf "$work/faults"
	mkdir -p "$work/faults"
	"${CC:-cc}" -std=c17 -D_GNU_SOURCE -O2 -o "$work/judge" "$here/judge.c" || return
	for name in "${contestants[@]}"; do
		[[ $name == @(dlock-tcp|shared|shared-tcp|libpq|dlock-quorum) ]] || names+=("$name")
		[[ $name != dlock ]] || names+=(dlock-quorum)
	done
	seconds=$((faults_seconds / ((${#names[@]} + faults_lanes - 1) / faults_lanes) - 10))
	for ((lane = 0; lane < ${#names[@]}; lane += faults_lanes)); do
		for name in "${names[@]:lane:faults_lanes}"; do
			progress "faults: $name, $seconds s"
			faults_of "$name" "$seconds" 2>"$work/faults/$name.log" &
			started+=("$!")
		done
		wait # servers_close knows of those that are interrupted
	done
	for name in "${names[@]}"; do
		[[ -s $work/faults/$name/figures ]] || { progress "faults: $name failed: $(cat "$work/faults/$name.log" "$work/faults/$name/told" | tail -n 1)"; continue; }
		while IFS=$'\t' read -r metric value; do
			figure faults "$name" "$metric" "$value"
		done <"$work/faults/$name/figures"
		[[ -z ${FAULTS_KEEP:-} ]] || { mkdir -p "$FAULTS_KEEP" && cp "$work/faults/$name/told" "$FAULTS_KEEP/$name"; }
	done
}

faults_report() {
	cat <<-END
	All in the same run, on the same machine, each with a server of its own, under the same faults in the same order
	(seed $faults_seed). Three contenders take the lock over and over for a COMMAND of 20 ms; now and then one of them
	gets a job of 4 s, and is hurt. Wrappers that renew have a TTL of 3 s; redis-cli, redis-py and node-redlock, which do
	not, one of 5 s, longer than the job. What a cell says is how many of the tries had commands that
	overlapped: each COMMAND takes an flock(2) of its own, and the next one finds it taken. A wrapper is the process that
	was started; of dlock it is front or keeper, by chance. The server that is killed and started again is Redis
	without persistence, or etcd, PostgreSQL or ZooKeeper with what it has on disk; of a quorum, one of three.

	Two figures are per 1,000 grants: overlaps count each grant that began beside another's COMMAND, and a fence is
	stale if it is not above the last one (etcdctl's is the revision it hands on; none: COMMAND gets no fence). An exit code lied
	if it was 0 though another had the lock meanwhile, or not 0 though COMMAND ran to its end alone.

	dlock(7) promises nothing if all of dlock and COMMAND are stopped together: COMMAND cannot act while it stands
	still, and is ended as soon as it goes on; the fence is for what it has sent. flock(1), a folder and a session of
	psql keep their lock in that case.

	![Which wrapper broke under which fault](faults.svg)
	END
}
