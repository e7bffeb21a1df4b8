# A quorum of five while a command runs, and each two of the five fail it: killed, stopped, restarted
# empty, cut off from the network. And three of them.

load ../lib/helper
load ../lib/quorum
load ../lib/network

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

net_begin() {
	local i
	world_begin
	for i in 1 2 3 4 5; do
		mkdir "net$i"
		world_start $i redis-server --bind $NET.$i --port 6379 \
			--protected-mode no --save '' --appendonly no --dir "$PWD/net$i"
	done
	for i in 1 2 3 4 5; do
		wait_until answers "$i"
	done
	DLOCK_SERVER=redis+quorum://$NET.1,$NET.2,$NET.3,$NET.4,$NET.5
}

answers() { [[ $(timeout 1 "${world[@]}" redis-cli -h $NET.$1 PING) == PONG ]]; }

sever() { "${world[@]}" ip link set "net.$1" down && "${world[@]}" ip link set "net.$2" down; }
mend() { "${world[@]}" ip link set "net.$1" up && "${world[@]}" ip link set "net.$2" up; }

# A server of this file's network as well as one of quorum.bash.
on() {
	local pid=server$1_pid inside
	if [[ -n ${world:-} ]]; then
		in_net "${!pid}"
		timeout 10 "${inside[@]}" redis-cli -h $NET.$1 "${@:2}"
	else
		cli_of "$(dir_of "$1")" "${@:2}"
	fi
}

eval "quorum_$(declare -f teardown)"
teardown() {
	[[ -z ${world_pid:-} ]] || world_end 1 2 3 4 5
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
		expiry_of lock:x on "$i"
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

@test "three of five cut off in mid-hold: COMMAND stops in time, and no minority grants the lock" {
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
