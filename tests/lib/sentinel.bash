# A master and its replicas behind three Sentinels, s1 to s3, all in the file's folder: `load ../lib/helper`,
# then `load ../lib/sentinel`. The file says in SERVERS what the servers are called, and in PORT_FILE where each
# and each Sentinel keeps the port that clients are to use.

port() { echo "$(<"$BATS_FILE_TMPDIR/$1/$PORT_FILE")"; }
node() { cli_of "$BATS_FILE_TMPDIR/$1" "${@:2}"; }
node_has() { node "$1" INFO replication 2>/dev/null | grep -q "$2"; }

# What a Sentinel's configuration says of where it listens: a file may have ways of its own.
sentinel_listens() { echo "port $1"; } # PORT

# sentinel_begin NAME SERVICE PORT QUORUM [LINE]...
sentinel_begin() {
	local name=$1 service=$2 master=$3 quorum=$4 dir=$BATS_FILE_TMPDIR/$1
	shift 4
	mkdir -p "$dir"
	for _ in {1..30}; do
		echo $((15000 + (RANDOM * 32768 + RANDOM) % 17000)) >"$dir/$PORT_FILE"
		{
			sentinel_listens "$(port "$name")"
			printf '%s\n' "bind $LOCALHOSTS" "unixsocket $dir/socket" "dir $dir" \
				"sentinel monitor $service 127.0.0.1 $master $quorum" \
				"sentinel down-after-milliseconds $service $((1000 * TEST_PATIENCE))" \
				"sentinel failover-timeout $service 3000" "$@"
		} >"$dir/conf"
		env -u TEST_MARK redis-server "$dir/conf" --sentinel >"$dir/log" 2>&1 </dev/null 3>&- 4>&- &
		remember $! "$dir/pid"
		if wait_until -t 3 sentinel_answers "$name"; then
			return 0
		fi
		server_end "$dir"
	done
	return 1
}
sentinel_answers() { node "$1" PING 2>&1 | grep -qE 'PONG|NOAUTH'; }

# Which of the servers "main" is.
master() { named_by s1 | name_of; }
named_by() { node "$1" SENTINEL get-master-addr-by-name main | sed -n 2p; }
name_of() {
	local one wanted
	read -r wanted
	for one in $SERVERS; do
		[[ $(port "$one") != "$wanted" ]] || echo "$one"
	done
}
replicas_of() { for one in $SERVERS; do [[ $one == "$1" ]] || echo "$one"; done; }
is_chosen_anew() { [[ -n $(master) && $(master) != "$master" ]]; }

# All three agree on a master, which has all others for its replicas.
settled() {
	local one chosen replicas
	chosen=$(master)
	[[ -n $chosen ]] || return 1
	replicas=$(replicas_of "$chosen" | wc -l)
	for one in s1 s2 s3; do
		[[ $(named_by $one) == "$(port "$chosen")" ]] &&
			node $one SENTINEL master main | paste -sd' ' |
				grep -q " flags master .* num-slaves $replicas num-other-sentinels 2 " ||
			return 1
	done
	[[ $(node "$chosen" INFO replication | grep -c state=online) == "$replicas" ]]
}
