# A quorum of five while a command runs, and each two of the five fail it: killed, stopped, restarted
# empty, cut off from the network. And three of them.

load ../lib/helper
load ../lib/quorum

pairs() { # "I J" for each two of five
	local i j
	for i in 1 2 3 4 5; do
		for ((j = i + 1; j <= 5; j++)); do
			echo "$i $j"
		done
	done
}

# The token of the holder a is on all five.
is_whole() { [[ $(count_owned "$token") == 5 ]]; }

# each_pair SPOIL HEAL: in mid-hold. No other gets in beside the holder, which has it everywhere again
# afterwards, and in the end COMMAND's own code.
each_pair() {
	local i j
	begin_holder a x -t $((4 * TEST_PATIENCE))
	token=$(variable DLOCK_TOKEN)
	wait_until is_whole
	while read -r i j; do
		$1 "$i" "$j"
		try dlock -n x touch second
		assert_equal "$status" 1 "-n, without $i and $j, after $took ms: $err"
		stays $((2000 * TEST_PATIENCE)) is_alive "$a_command" # a renewal and a half
		$2 "$i" "$j"
		wait_until is_whole
	done < <(pairs)
	refute_file second
	let_go a
	assert_equal "$status" 0
	try dlock -n x echo next
	assert_equal "$status $out" '0 next'
}

@test "each two of five killed and restarted empty in mid-hold" { each_pair slay revive; }

@test "each two of five stopped in mid-hold" { each_pair freeze thaw; }

# ---- Cut off from the network --------------------------------------------------------------------
# Each server in a network namespace of its own, on a bridge in another, where dlock runs as well. All end
# with their processes, and so do the interfaces; no mount is needed. An ordinary user is root there.

readonly NET=10.64.0
own_net() { [[ $(readlink "/proc/$1/ns/net") != $(readlink "/proc/$2/ns/net") ]]; }

# in_net PID: sets inside, the words before a command that is to run in PID's network.
in_net() {
	inside=(nsenter --target "$1" --net)
	((EUID == 0)) || inside+=(--user --preserve-credentials)
}

net_begin() {
	needs network
	local i pid
	start world unshare "${AS_ROOT[@]}" --net sleep 600
	wait_until own_net $world_pid $$
	in_net $world_pid
	world=("${inside[@]}")
	# As an ordinary user it is root there a moment later.
	wait_until eval '"${world[@]}" true 2>/dev/null'
	"${world[@]}" ip link add bridge type bridge
	"${world[@]}" ip addr add $NET.254/24 dev bridge
	"${world[@]}" ip link set bridge up
	for i in 1 2 3 4 5; do
		mkdir "net$i"
		start "server$i" "${world[@]}" unshare --net sh -c '
			until ip addr show dev eth0 2>/dev/null | grep -q "inet "; do sleep 0.02; done
			exec redis-server "$@"' sh --bind $NET.$i --port 6379 \
			--protected-mode no --save '' --appendonly no --dir "$PWD/net$i"
		wait_until own_net $pid $world_pid
		wait_until own_net $pid $$
		"${world[@]}" ip link add "net.$i" type veth peer name eth0 netns $pid
		"${world[@]}" ip link set "net.$i" master bridge up
		in_net $pid
		"${inside[@]}" ip link set lo up
		"${inside[@]}" ip link set eth0 up
		"${inside[@]}" ip addr add $NET.$i/24 dev eth0
	done
	for i in 1 2 3 4 5; do
		wait_until answers "$i"
	done
	DLOCK_SERVER=redis+quorum://$NET.1,$NET.2,$NET.3,$NET.4,$NET.5
	mkdir inside
	printf '#!/bin/sh\nexec %s "$BIN/dlock" "$@"\n' "${world[*]}" >inside/dlock
	chmod +x inside/dlock
	PATH=$PWD/inside:$PATH
}

answers() { [[ $(timeout 1 "${world[@]}" redis-cli -h $NET.$1 PING) == PONG ]]; }

net_end() {
	local name pid
	for name in server{1..5} world; do
		pid=${name}_pid
		[[ -n ${!pid:-} ]] || continue
		kill "${!pid}" 2>/dev/null || true
		finish $name
	done
	world=()
}

sever() { "${world[@]}" ip link set "net.$1" down && "${world[@]}" ip link set "net.$2" down; }
mend() { "${world[@]}" ip link set "net.$1" up && "${world[@]}" ip link set "net.$2" up; }

# A server of this file's network as well as one of quorum.bash.
on() {
	local pid=server$1_pid inside
	if [[ -n ${world:-} ]]; then
		in_net "${!pid}"
		timeout 10 "${inside[@]}" redis-cli -h $NET.$1 "${@:2}"
	else
		redis-cli -s "$(dir_of "$1")/socket" "${@:2}"
	fi
}

eval "quorum_$(declare -f teardown)"
teardown() {
	[[ -z ${world_pid:-} ]] || net_end
	quorum_teardown
}

# What was cut off is reached again when TCP tries again, seconds later perhaps: until then the next
# pair would leave the holder a minority. A renewal that was sent into the cut may still arrive where
# its connection has been given up; the one after it comes over a connection that works.
rejoin() {
	local expiries
	mend "$@"
	for _ in 1 2; do
		expiries=($(expiries_of "$@"))
		wait_until are_renewed "$@"
	done
}
expiries_of() {
	local i
	for i; do
		on "$i" PEXPIRETIME lock:x
	done
}
are_renewed() {
	local now
	now=($(expiries_of "$@"))
	((now[0] > expiries[0] && now[1] > expiries[1]))
}

@test "each two of five cut off from the network in mid-hold, and back" {
	net_begin
	each_pair sever rejoin
}

@test "three of five cut off in mid-hold: COMMAND is stopped in time, and nobody gets the lock of a minority" {
	net_begin
	begin_holder a x -t 3
	token=$(variable DLOCK_TOKEN)
	wait_until is_whole
	sever 1 2
	sever 2 3
	try dlock -w 1s x touch second
	refute_file second
	finish a
	assert_equal "$status" 80 status
	mend 1 2
	mend 2 3
	try dlock -w 20 x echo next
	assert_equal "$status $out" '0 next'
}
