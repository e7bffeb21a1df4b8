# What one of 60 idle waiters occupies, here and in the server, and what a holder does.
# shellcheck shell=bash disable=SC2154

source "$here/crowd.bash"

memory_few=10 # so that what the first of them costs alone does not count
memory_waiters=50

# memory_of NAME
memory_of() {
	local folder=$work/memory/$1 before after waiter ttl=120
	contestant_server "$1" "$folder" || return
	crowd_gather "$1" "$folder" "$memory_few" || return
	sleep 8 # a server takes some time to give up the buffers of idle clients
	memory_holder "$1" "$folder"
	before=$(memory_server "$1" "$folder")
	crowd_grow "$memory_waiters" "$work/stamp" "$folder/log"
	sleep 8
	after=$(memory_server "$1" "$folder")
	# shellcheck disable=SC2046
	waiter=$(($(pss_of $(tree_of "${waiters[@]}")) / (memory_few + memory_waiters)))
	crowd_disperse "$folder"

	figure memory "$1" waiter_kib "$waiter"
	[[ $1 != flock ]] || memory_flock=$waiter
	figure memory "$1" waiter_ratio "$(awk -v a="$waiter" -v b="$memory_flock" 'BEGIN { printf "%.2f", a / b }')"
	[[ $1 == flock ]] || figure memory "$1" server_kib \
		"$(awk -v d=$((after - before)) -v n="$memory_waiters" 'BEGIN { printf "%.1f", d / n / 1024 }')"
}

# All processes of the holder without COMMAND, a lone shell.
memory_holder() {
	local all command
	# shellcheck disable=SC2046
	all=$(pss_of $(tree_of "$holder"))
	command=$(pss_of "$(<"$2/held")")
	figure memory "$1" holder_kib $((all - command))
}

# Bytes that the server says it uses; for etcd, which does not say, what it occupies.
memory_server() {
	case $1 in
	flock | dlock-file) echo 0 ;;
	etcdctl | dlock-etcd) echo $(($(pss_of "$etcd_pid") * 1024)) ;;
	*) redis_info "$2" memory used_memory ;;
	esac
}

measure_memory() {
	local name
	rm -rf "$work/memory"
	for name in "${contestants[@]}"; do
		# Nothing here asks their servers.
		[[ $name != @(dlock-postgres|psql|libpq|dlock-zookeeper|kazoo) ]] || continue
		[[ $name == @(dlock-tcp|shared-tcp) ]] || memory_of "$name"
	done
}
