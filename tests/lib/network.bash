# Servers in network namespaces of their own, on a bridge in another, where dlock runs as well. All end with
# their processes, and so do the interfaces; no mount is needed. An ordinary user is root there.

readonly NET=10.64.0
own_net() {
	local one other pid
	one=$(readlink "/proc/$1/ns/net") || return
	for pid in "${@:2}"; do
		other=$(readlink "/proc/$pid/ns/net") && [[ $one != "$other" ]] || return
	done
}

# in_net PID: sets inside, the words before a command that is to run in PID's network.
in_net() {
	inside=(nsenter --target "$1" --net)
	((EUID == 0)) || inside+=(--user --preserve-credentials)
}

# world_begin: sets world, the words before a command that is to run where the bridge is; dlock does so.
world_begin() {
	needs network
	start world unshare "${AS_ROOT[@]}" --net sleep 600
	wait_until own_net $world_pid $$
	in_net $world_pid
	world=("${inside[@]}")
	# As an ordinary user it is root there a moment later.
	wait_until eval '"${world[@]}" true 2>/dev/null'
	"${world[@]}" ip link add bridge type bridge
	"${world[@]}" ip addr add $NET.254/24 dev bridge
	"${world[@]}" ip link set bridge up
	mkdir inside
	printf '#!/bin/sh\nexec %s "$BIN/dlock" "$@"\n' "${world[*]}" >inside/dlock
	chmod +x inside/dlock
	PATH=$PWD/inside:$PATH
}

# world_start I COMMAND...: server$I, with the address $NET.$I; the world's end of its cable is net.$I.
world_start() {
	start "server$1" "${world[@]}" unshare --net sh -c '
		until ip addr show dev eth0 2>/dev/null | grep -q "inet "; do sleep 0.02; done
		exec "$@"' sh "${@:2}"
	wait_until own_net $pid $world_pid $$ # it is in each of these on its way
	"${world[@]}" ip link add "net.$1" type veth peer name eth0 netns $pid
	"${world[@]}" ip link set "net.$1" master bridge up
	in_net $pid
	"${inside[@]}" ip link set lo up
	"${inside[@]}" ip link set eth0 up
	"${inside[@]}" ip addr add "$NET.$1/24" dev eth0
}

# world_end I...: these servers end, and the world. One that is cut off might first wait for the others.
world_end() {
	local name pid
	for name in "${@/#/server}" world; do
		pid=${name}_pid
		[[ -n ${!pid:-} ]] || continue
		is_gone "${!pid}" || kill -KILL "${!pid}" 2>/dev/null || true
		finish $name
	done
	world=()
	PATH=${PATH#"$PWD/inside:"}
}
