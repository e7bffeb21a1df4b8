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

# each_pair SPOIL HEAL: in mid-hold. Nobody gets in beside the holder, who has it everywhere again
# afterwards, and in the end COMMAND's own code.
each_pair() {
	local i j
	begin_holder a x -t $((2 * TEST_PATIENCE))
	token=$(variable DLOCK_TOKEN)
	wait_until is_whole
	while read -r i j; do
		$1 "$i" "$j"
		try dlock -n x touch second
		assert_equal "$status" 1 "-n, without $i and $j"
		stays $((1000 * TEST_PATIENCE)) is_alive "$a_command" # a renewal and a half
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
# Each server in a network namespace of its own, on a bridge of the test's.

name_net() { net=dl$(($$ % 10000)) subnet=10.$((64 + $$ % 128)).$((RANDOM % 256)); }

net_begin() {
	local i
	name_net
	ip link add "$net" type bridge
	ip addr add "$subnet.254/24" dev "$net"
	ip link set "$net" up
	for i in 1 2 3 4 5; do
		ip netns add "$net-$i"
		ip link add "$net.$i" type veth peer name eth0 netns "$net-$i"
		ip link set "$net.$i" master "$net" up
		ip -n "$net-$i" addr add "$subnet.$i/24" dev eth0
		ip -n "$net-$i" link set eth0 up
		ip -n "$net-$i" link set lo up
		mkdir "net$i"
		start "server$i" ip netns exec "$net-$i" redis-server --bind "$subnet.$i" --port 6379 \
			--protected-mode no --save '' --appendonly no --dir "$PWD/net$i"
	done
	for i in 1 2 3 4 5; do
		wait_until answers "$i"
	done
	DLOCK_SERVER=redis+quorum://$subnet.1,$subnet.2,$subnet.3,$subnet.4,$subnet.5
}

answers() { [[ $(timeout 1 redis-cli -h "$subnet.$1" PING) == PONG ]]; }

net_end() {
	local i
	for i in 1 2 3 4 5; do
		local pid=server${i}_pid
		[[ -z ${!pid:-} ]] || kill "${!pid}" 2>/dev/null || true
		ip netns pids "$net-$i" 2>/dev/null | xargs -r kill 2>/dev/null || true
		ip link del "$net.$i" 2>/dev/null || true
		ip netns del "$net-$i" 2>/dev/null || true
	done
	ip link del "$net" 2>/dev/null || true
	subnet=
	for i in 1 2 3 4 5; do
		local pid=server${i}_pid
		[[ -z ${!pid:-} ]] || finish "server$i"
	done
}

sever() { ip link set "$net.$1" down && ip link set "$net.$2" down; }
mend() { ip link set "$net.$1" up && ip link set "$net.$2" up; }

# A server of this file's network as well as one of quorum.bash.
on() {
	if [[ -n ${subnet:-} ]]; then
		timeout 10 ip netns exec "$net-$1" redis-cli -h "$subnet.$1" "${@:2}"
	else
		redis-cli -s "$(dir_of "$1")/socket" "${@:2}"
	fi
}

eval "quorum_$(declare -f teardown)"
teardown() {
	[[ -z ${subnet:-} ]] || net_end
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
