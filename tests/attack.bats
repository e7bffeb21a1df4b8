# The failure table, row by row, as far as processes.bats does not have it: the network swallows, the
# server forgets or is told to, clocks jump, terminals stop the job, and COMMAND's tree is as hard to
# end as a tree can be. Where a second holder is possible, oracle judges by flock(2) (aux/oracle.c).

load helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

# hole NAME: a proxy to the file's server at ./NAME.socket; ./NAME.rules says what it swallows.
hole() {
	service "$BATS_TEST_DIRNAME/aux/hole.py" "$PWD/$1.socket" "$SERVER/socket" "$PWD/$1.rules" \
		"$PWD/$1.counts"
	wait_until test -S "$1.socket"
}

# rule NAME TEXT
rule() {
	echo "$2" >"$1.rules.new"
	mv "$1.rules.new" "$1.rules"
}

# A COMMAND that says its pid and lives on whatever is asked of it.
write_deaf() {
	cat >deaf <<-'END'
		#!/bin/bash
		trap '' TERM INT HUP QUIT
		echo $$ >deaf.new && mv deaf.new command
		while :; do sleep 0.02; done
	END
	chmod +x deaf
}

# start_deaf NAME [OPTION]...: it, under the lock x; NAME_command.
start_deaf() {
	local name=$1
	shift
	[[ -e deaf ]] || write_deaf
	rm -f command
	start "$name" dlock "$@" x ./deaf
	wait_until is_file command
	declare -g "${name}_command=$(<command)"
}

expiry() { cli PEXPIRETIME lock:x; }

# ---- The network ---------------------------------------------------------------------------------

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

# swallowed WAY BYTES: a holder behind a hole, and one who waits with a good connection, both with
# oracle as COMMAND.
swallowed() {
	local name=$1$2
	hole "$name"
	rule "$name" "$1=$2"
	start "first$name" env DLOCK_SERVER="unix://$PWD/$name.socket" \
		dlock -qq -t 2 -w 8 "$name" oracle "$PWD/$name" 60000
	start "second$name" dlock -qq -t 2 -w 14 "$name" oracle "$PWD/$name" 1
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

# ---- Clocks --------------------------------------------------------------------------------------

# The program that libfaketime gives another wall clock; what counts from boot stays as it is.
with_clock() { # RULES_FILE COMMAND...
	local file=$1
	shift
	env LD_PRELOAD="$(faketime 0 printenv LD_PRELOAD)" FAKETIME_TIMESTAMP_FILE="$PWD/$file" \
		FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_DONT_RESET=1 "$@"
}

# One hour either way: for the host, nothing happens.
clock_jumps() {
	local by=$1 token
	echo '+0' >clock
	with_clock clock launch default setsid dlock -t 2 x \
		sh -c 'date +%s >seen; echo $$ >command; until [ -e end ]; do date +%s >seen; sleep 0.05; done; exit 5' \
		>one.out 2>one.err </dev/null 3>&- 4>&- &
	one_pid=$!
	wait_until is_file command
	token=$(cli GET lock:x)
	echo "$by" >clock
	# It has really jumped, for dlock's own kind of program.
	local here
	here=$(date +%s)
	wait_until far_from "$here"
	stays 3000 owner_is x "$token"
	touch end
	finish one
	assert_equal "$status" 5 status
	assert_equal "$err" '' 'messages'
	assert is_free x
}

far_from() {
	local seen
	seen=$(<seen)
	[[ -n $seen ]] && ((seen > $1 + 3000 || seen < $1 - 3000))
}

@test "wall clock jumps forward by an hour: nothing happens" { clock_jumps +3600; }

@test "wall clock jumps back by an hour: nothing happens" { clock_jumps -3600; }
