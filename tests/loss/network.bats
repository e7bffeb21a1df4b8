# The network swallows, or is slow. Where a second holder is possible, oracle judges by flock(2)
# (programs/oracle.c).

load ../lib/helper
load ../lib/deaf

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

@test "an answer that took long: the lease counts from the question" {
	hole far
	rule far late=400
	DLOCK_SERVER=unix://$PWD/far.socket start_deaf one -t 3
	local expires
	expires=$(expiry)
	rule far 'up=0'
	wait_until is_gone $one_command
	assert_between "$(($(now_ms) - expires))" -2000 -150 "COMMAND's end, in ms from the end of the lock"
	finish one
	assert_equal "$status" 80
}

# swallowed WAY BYTES: a holder behind a hole, and a waiter with a good connection, both with
# oracle as COMMAND.
swallowed() {
	local name=$1$2
	hole "$name"
	rule "$name" "$1=$2"
	start "first$name" env DLOCK_SERVER="unix://$PWD/$name.socket" \
		dlock -qq -t 2 -w 8 "$name" oracle x "$PWD/$name" 1000000000
	start "second$name" dlock -qq -t 2 -w 14 "$name" oracle x "$PWD/$name" 1
}

# How much a short run, and one that is renewed twice, say and hear: UP DOWN.
measure() {
	hole measured
	DLOCK_SERVER=unix://$PWD/measured.socket dlock -t 2 measured "$@" >/dev/null
	cat measured.counts
	rm measured.*
}

@test "the network swallows after N bytes, either way, at fourteen points: never two commands" {
	local short long way at all=() one
	short=($(measure true))
	long=($(measure sleep 1.6))
	for way in 0 1; do
		for at in 0 $((short[way] / 3)) $((short[way] - 1)) $((short[way] + 1)) \
			$((long[way] - 90)) $((long[way] - 1)) $((long[way] + 40)); do
			all+=("$( ((way)) && echo down || echo up) $at")
		done
	done
	for one in "${all[@]}"; do
		swallowed $one
	done
	for one in "${all[@]}"; do
		finish "second${one/ /}"
		assert_equal "$status" 0 "who had a good connection, after $one"
		finish "first${one/ /}"
		# Started and stopped in time, or never started.
		assert_match "$status" '^(1|69|80)$' "who spoke into the hole, after $one"
	done
	local found
	for found in *.violations; do
		[[ ! -e $found ]] || fail "$found: $(<"$found")" || return 1
	done
	assert_equal "$(cat *.log | wc -l)" ${#all[@]} 'second holders that ran'
}
