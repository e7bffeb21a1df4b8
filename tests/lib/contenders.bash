# Holders and waiters of locks, and when each had a lock; after helper and work.

# ---- Holders and waiters -------------------------------------------------------------------------

# holder NAME LOCK [OPTION]...: runs ./work NAME under LOCK, until ./NAME.go is there; NAME_pid is the
# front, NAME_keeper, NAME_command.
holder() {
	local name=$1 lock=$2
	start "$name" dlock "${@:3}" "$lock" ./work "$name"
	wait_until has_begun "$name"
	declare -g "${name}_command=$(<"$name.pid")"
	declare -g "${name}_keeper=$(parent_of "$(<"$name.pid")")"
}

# ends NAME: it is told to end; sets status, out, err.
ends() {
	: >"$1.go"
	finish "$1"
}

# waiter NAME LOCK [OPTION]...: runs ./work NAME under LOCK; returns once it is one more that waits.
waiter() {
	local name=$1 lock=$2 before
	before=$(waiting "$lock")
	start "$name" dlock "${@:3}" "$lock" ./work "$name"
	wait_until waits "$lock" $((before + 1))
}

# waiting LOCK: how many wait for it.
waiting() {
	local said
	said=$(dlock status --json "$1" 2>/dev/null)
	[[ $said =~ \"waiting\":\ ?([0-9]+) ]] && echo "${BASH_REMATCH[1]}" || echo 0
}
waits() { [[ $(waiting "$1") == "$2" ]]; } # LOCK COUNT

# How often these processes left a sleep, with all their threads.
times_woken() { # PID...
	local pid
	for pid; do
		sed -n 's/^voluntary_ctxt_switches:[[:space:]]*//p' "/proc/$pid"/task/*/status
	done | awk '{ sum += $1 } END { print sum }'
}

# Whether another could not have LOCK: the exit code says so, and its COMMAND is not run.
is_taken() { # LOCK [OPTION]...
	local code=0
	dlock -qn -E 75 "${@:2}" "$1" touch was-free || code=$?
	[[ $code == 75 && ! -e was-free ]]
}

is_to_be_had() { dlock -qn "$@" true; } # LOCK or OPTIONS LOCK

# Of three permits, then one, then three again: each waits for those before it, and the last is let in beside the
# second, as it asks for more.
permits_in_order() {
	holder a x --permits 3
	waiter b x --permits 1
	waiter c x --permits 3
	assert is_taken x --permits 9
	ends a
	expect 0
	wait_until has_begun b
	wait_until has_begun c
	after a b
	after a c
	ends b
	expect 0
	ends c
	expect 0
}

# ---- When each had the lock ------------------------------------------------------------------------

# ./stint NAME: a moment in a lock; when it began, with its fencing token, and ended is in ./spans.
write_stint() {
	cat >stint <<-'END'
		#!/bin/bash
		echo "$EPOCHREALTIME begin $1 $DLOCK_FENCE" >>spans
		sleep 0.03
		echo "$EPOCHREALTIME end $1" >>spans
	END
	chmod +x stint
}

# at_a_time MOST: how many there were at a time, at most; so many, at the most.
at_a_time() {
	sort -s -n -k 1,1 spans | awk -v most="$1" '
		$2 == "begin" { if (++now > seen) seen = now }
		$2 == "end" { now-- }
		END { if (seen > most || now) { print seen " at a time, " now " without an end"; exit 1 } }' ||
		fail "$(sort -n spans)"
}

# Each stint's fencing token is above those of all that began before.
fences_grow() {
	sort -s -n -k 1,1 spans | awk '$2 == "begin" { print $4 }' >fences
	assert_growing fences
}

assert_growing() { # FILE
	local one last=0
	while read -r one; do
		assert_match "$one" '^[0-9]+$' 'fencing token'
		((one > last)) || fail "fencing token $one after $last:" "$(<"$1")"
		last=$one
	done <"$1"
}
