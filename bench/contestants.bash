# Who takes part, and the words that each puts before COMMAND.
# shellcheck shell=bash disable=SC2034

npm_folder=${XDG_CACHE_HOME:-$HOME/.cache}/dlock-bench
ttl=10 # seconds, for everybody who has one
contestants=()
dlock_options=()

# contestants_open [NAME]...: those that are there, of these or of all.
contestants_open() {
	local name names=("$@")
	((${#names[@]} > 0)) || names=(flock dlock dlock-tcp shared shared-tcp dlock-file redis-cli dlock-etcd etcdctl \
		dlock-postgres psql libpq dlock-zookeeper kazoo redis-py node-redlock)
	dlock=$(find_dlock)
	[[ -z $dlock ]] || progress "dlock is $dlock"
	python=$(find_python)
	for name in "${names[@]}"; do
		if contestant_is_there "$name"; then
			contestants+=("$name")
		else
			progress "$name is not there and left out"
		fi
	done
}

# Those of ours that are there, whether they take part or not.
contestants_there() {
	local name
	for name in dlock dlock-tcp shared shared-tcp dlock-file dlock-etcd dlock-postgres dlock-zookeeper; do
		! contestant_is_there "$name" || echo "$name"
	done
}

# DLOCK, else src/dlock of the folder we are in, else the newest of those that make, ./demo and ./check
# have built. Sanitizers make a program several times slower, so such a build is passed over.
find_dlock() {
	local file newest=
	if [[ ${DLOCK:-} ]]; then
		is_program "$DLOCK" && realpath "$DLOCK"
		return 0
	fi
	is_program src/dlock && realpath src/dlock && return
	for file in "$here"/../src/dlock "$here"/../build*/src/dlock; do
		[[ ${file#"$here/../"} == build*san*/* ]] && continue
		is_program "$file" && [[ -z $newest || $file -nt $newest ]] && newest=$file
	done
	[[ -z $newest ]] || realpath "$newest"
}

is_program() {
	[[ -f $1 && -x $1 ]]
}

find_python() {
	local python
	for python in python3 /usr/bin/python3; do
		"$python" -c 'import redis' 2>/dev/null && echo "$python" && return
	done
	return 0
}

contestant_is_there() {
	case $1 in
	flock) command -v flock ;;
	dlock | dlock-tcp | dlock-file | dlock-quorum) [[ -n $dlock ]] ;;
	shared | shared-tcp) is_program "${DLOCK_SHARED:-}" ;;
	redis-cli) command -v redis-cli ;;
	dlock-etcd) [[ -n $dlock && -x ${dlock%/*}/dlock-etcd ]] && command -v etcd && command -v etcdctl ;;
	etcdctl) command -v etcd && command -v etcdctl ;;
	dlock-postgres) [[ -n $dlock && -x ${dlock%/*}/dlock-postgres ]] && postgres_programs ;;
	psql) command -v psql && postgres_programs ;;
	libpq) [[ -x $work/libpq ]] && postgres_programs ;;
	dlock-zookeeper) [[ -n $dlock && -x ${dlock%/*}/dlock-zookeeper ]] && zookeeper_is_there ;;
	kazoo) /usr/bin/python3 -c 'import kazoo' 2>&1 && zookeeper_is_there ;;
	redis-py) [[ -n $python ]] ;;
	node-redlock) command -v node && [[ -d $npm_folder/node_modules/redlock ]] ;;
	esac >/dev/null
}

# contestant_words NAME FOLDER: sets `lock`, the words before COMMAND, and `settings`, the
# environment they need, for the server that was started in FOLDER.
contestant_words() {
	local folder=$2
	settings=("BENCH_SOCKET=$folder/redis.sock" "BENCH_TTL_MS=${ttl}000")
	case $1 in
	flock)
		lock=(flock "$folder/file")
		;;
	dlock)
		settings+=("DLOCK_SERVER=unix://$folder/redis.sock")
		lock=("$dlock" "${dlock_options[@]}" bench)
		;;
	shared | shared-tcp)
		contestant_words "${1/shared/dlock}" "$folder"
		lock[0]=$DLOCK_SHARED
		;;
	dlock-tcp)
		settings+=("DLOCK_SERVER=redis://127.0.0.1:$(<"$folder/port")")
		lock=("$dlock" "${dlock_options[@]}" bench)
		;;
	dlock-quorum)
		settings+=("DLOCK_SERVER=redis+quorum://$(quorum_hosts_in "$folder")")
		lock=("$dlock" "${dlock_options[@]}" bench)
		;;
	dlock-file)
		settings+=("DLOCK_SERVER=file://$folder/locks")
		lock=("$dlock" "${dlock_options[@]}" bench)
		;;
	redis-cli)
		lock=("$here/peers/redis-cli" bench)
		;;
	redis-py)
		lock=("$python" "$here/peers/redis-py" bench)
		;;
	node-redlock)
		settings+=("NODE_PATH=$npm_folder/node_modules")
		lock=(node "$here/peers/node-redlock" bench)
		;;
	dlock-etcd)
		settings+=("DLOCK_SERVER=etcd://127.0.0.1:$(<"$folder/etcd-port")")
		lock=("$dlock" "${dlock_options[@]}" bench)
		;;
	dlock-postgres)
		settings+=("DLOCK_SERVER=postgres://bench@/postgres?host=$folder/postgres")
		lock=("$dlock" "${dlock_options[@]}" bench)
		;;
	psql | libpq)
		settings+=("PGHOST=$folder/postgres" PGUSER=bench PGDATABASE=postgres PSQLRC=/dev/null)
		lock=("$here/peers/psql" bench)
		[[ $1 == psql ]] || lock=("$work/libpq" bench)
		;;
	dlock-zookeeper)
		settings+=("DLOCK_SERVER=zookeeper://127.0.0.1:$(<"$folder/zookeeper-port")")
		lock=("$dlock" "${dlock_options[@]}" bench)
		;;
	kazoo)
		settings+=("BENCH_ZOOKEEPER=127.0.0.1:$(<"$folder/zookeeper-port")")
		lock=("$here/peers/kazoo" bench)
		;;
	etcdctl)
		settings+=(ETCDCTL_API=3 "ETCDCTL_ENDPOINTS=http://127.0.0.1:$(<"$folder/etcd-port")")
		lock=(etcdctl lock "--ttl=$ttl" bench --)
		;;
	esac
}

# contestant_server NAME FOLDER: a fresh server for NAME, and contestant_words for it.
contestant_server() {
	mkdir -p "$2"
	case $1 in
	flock | dlock-file) ;;
	etcdctl | dlock-etcd) etcd_start "$2" || return ;;
	dlock-postgres | psql | libpq) postgres_start "$2" || return ;;
	dlock-zookeeper | kazoo) zookeeper_start "$2" || return ;;
	*) redis_start "$2" ;;
	esac
	contestant_words "$1" "$2"
}
