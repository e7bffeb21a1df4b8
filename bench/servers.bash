# Private servers, on loopback and unix sockets only, stopped and removed at the end.
# shellcheck shell=bash disable=SC2034

started=() # pids of the servers and of whatever else must not outlive the run

servers_open() {
	work=$(mktemp -d "${TMPDIR:-/tmp}/dlock-bench.XXXXXX") || exit
	: >"$work/figures"
	trap servers_close EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	find_redis_server "$work/bin"
}

servers_close() {
	exec 2>/dev/null # bash would tell of every server that it was killed
	((${#started[@]} == 0)) || kill -KILL "${started[@]}"
	wait
	rm -rf "$work"
}

# until_true SECONDS COMMAND...: whether COMMAND succeeds within that time.
until_true() {
	local tries=$(($1 * 50))
	shift
	until "$@" >/dev/null 2>&1; do
		((tries-- > 0)) || return 1
		sleep 0.02
	done
}

random_port() {
	echo $((20000 + RANDOM % 12000))
}

# redis_start FOLDER: a redis-server on FOLDER/redis.sock and on the port in FOLDER/port.
redis_start() {
	local folder=$1 port try
	mkdir -p "$folder"
	for try in 1 2 3 4 5; do
		port=$(random_port)
		redis-server --bind 127.0.0.1 --port "$port" --unixsocket "$folder/redis.sock" \
			--save '' --appendonly no --set-proc-title no --dir "$folder" >"$folder/redis.log" 2>&1 &
		redis_pid=$!
		started+=("$redis_pid")
		echo "$port" >"$folder/port"
		until_true 5 redis_answers "$folder" && until_true 10 redis_has_settled "$folder" && return
	done
	progress "redis-server does not start: $(tail -n 1 "$folder/redis.log")"
	exit 1
}

# By the port too: another process may have had it.
redis_answers() {
	redis-cli -s "$1/redis.sock" ping && redis-cli -p "$(<"$1/port")" config get dir | grep -qxF "$1"
}

# Else the first dlock would wait (--settle 3s).
redis_has_settled() { (($(redis_info "$1" server uptime_in_seconds) > 3)); }

# redis_info FOLDER SECTION FIELD
redis_info() {
	redis-cli -s "$1/redis.sock" info "$2" | tr -d '\r' | sed -n "s/^$3://p"
}

# etcd_start FOLDER: an etcd on the port in FOLDER/etcd-port.
etcd_start() {
	local folder=$1 port try
	mkdir -p "$folder"
	for try in 1 2 3 4 5; do
		port=$(random_port)
		rm -rf "$folder/etcd"
		etcd --data-dir "$folder/etcd" --log-level error \
			--listen-client-urls "http://127.0.0.1:$port" \
			--advertise-client-urls "http://127.0.0.1:$port" \
			--listen-peer-urls "http://127.0.0.1:$((port + 1))" \
			--initial-advertise-peer-urls "http://127.0.0.1:$((port + 1))" \
			--initial-cluster "default=http://127.0.0.1:$((port + 1))" >"$folder/etcd.log" 2>&1 &
		etcd_pid=$!
		started+=("$etcd_pid")
		echo "$port" >"$folder/etcd-port"
		ETCDCTL_API=3 until_true 10 etcdctl --endpoints "127.0.0.1:$port" endpoint health &&
			kill -0 "$etcd_pid" && return
	done
	progress "etcd does not start: $(tail -n 1 "$folder/etcd.log")"
	return 1
}

# Where PostgreSQL's own programs are; fails if nowhere.
postgres_programs() {
	find /usr/lib/postgresql/*/bin -maxdepth 0 2>/dev/null | sort -V | tail -n 1 | grep .
}

# postgres_start FOLDER: a PostgreSQL on a socket in FOLDER/postgres; the server wants no root.
postgres_start() {
	local folder=$1/postgres programs as=()
	programs=$(postgres_programs)
	mkdir -p "$folder"
	if ((EUID == 0)); then
		chown nobody "$folder"
		chmod o+x "$work" "$1"
		as=(setpriv --reuid nobody --regid nogroup --clear-groups)
	fi
	(cd "$folder" && "${as[@]}" "$programs/initdb" -D data -U bench -A trust -E UTF8 -N) >"$1/initdb.log" 2>&1
	(cd "$folder" && exec "${as[@]}" "$programs/postgres" -D "$folder/data" -c listen_addresses= \
		-c unix_socket_directories="$folder" >log 2>&1) &
	started+=("$!")
	until_true 10 psql -h "$folder" -U bench -d postgres -qAtc 'SELECT 1' && return
	progress "PostgreSQL does not start: $(tail -n 1 "$folder/log")"
	return 1
}

zookeeper_is_there() { command -v java && [[ -e /usr/share/java/zookeeper.jar ]]; }

# zookeeper_start FOLDER: a ZooKeeper on the port in FOLDER/zookeeper-port.
zookeeper_start() {
	local folder=$1/zookeeper port try
	mkdir -p "$folder/data"
	for try in 1 2 3 4 5; do
		port=$(random_port)
		printf '%s\n' "tickTime=${zookeeper_tick_ms:-2000}" maxClientCnxns=0 admin.enableServer=false "dataDir=$folder/data" \
			clientPortAddress=127.0.0.1 "clientPort=$port" >"$folder/zoo.cfg"
		java -Xmx96m -XX:-UsePerfData -Dzookeeper.4lw.commands.whitelist=srvr \
			-cp "$folder:/usr/share/java/zookeeper.jar:/usr/share/java/zookeeper-jute.jar" \
			org.apache.zookeeper.server.ZooKeeperServerMain "$folder/zoo.cfg" >"$folder/log" 2>&1 &
		zookeeper_pid=$!
		started+=("$zookeeper_pid")
		echo "$port" >"$1/zookeeper-port"
		until_true 20 zookeeper_answers "$port" && kill -0 "$zookeeper_pid" && return
	done
	progress "ZooKeeper does not start: $(tail -n 1 "$folder/log")"
	return 1
}

zookeeper_answers() { # PORT
	local fd
	exec {fd}<>"/dev/tcp/127.0.0.1/$1" || return
	printf srvr >&"$fd"
	timeout 2 grep -q Mode <&"$fd" # one that only begins may never answer
}
