# Commands that say when they ran, so that only their own word proves that a lock excludes:
# `load ../lib/helper`, then `load ../lib/work`, and write_work in setup.

# ./work NAME: a command that runs until ./NAME.go is there, and says in ./spans when it began and ended;
# one that is killed was last seen alive when ./NAME.alive was touched. Its pid is in ./NAME.pid.
write_work() {
	mkfifo -m 666 nothing # it rests without a process, as `nap` does
	cat >work <<-'END'
		#!/bin/bash
		echo $$ >"$1.pid"
		echo "$EPOCHREALTIME begin $1" >>spans
		while [[ ! -e $1.go ]]; do
			: >"$1.alive"
			read -rt 0.01 <>nothing || (($? > 128)) || sleep 0.01
		done
		echo "$EPOCHREALTIME end $1" >>spans
		exit "${2:-0}"
	END
	chmod +x work
}

has_begun() { file_has spans " begin $1\$"; }
has_ended() { file_has spans " end $1\$"; }
moment() { sed -n "s/\([0-9]*\).\([0-9]*\) $2 $1\$/\1\2/p" spans; } # NAME begin|end: in us

# When NAME ended, or was last seen alive, in us.
end_of() {
	local seen
	seen=$(moment "$1" end)
	echo "${seen:-$(($(date -r "$1.alive" +%s%N) / 1000))}"
}

# after FIRST SECOND [MS]: SECOND began when FIRST was over, and that soon.
after() {
	local gap=$(($(moment "$2" begin) - $(end_of "$1")))
	((gap >= 0)) || fail "$2 began $((-gap)) us before $1 had ended"
	[[ -z ${3:-} ]] || ((gap <= $3 * 1000 * TEST_PATIENCE)) || fail "$2 began only $gap us after $1"
}

# all_end NAME...: all are told to end, and have.
all_end() {
	local one
	for one; do
		: >"$one.go"
	done
	for one; do
		wait_until has_ended "$one"
	done
}

# Of the commands that have begun, all but one have ended.
is_one_at_most() { [[ $(grep -c begin spans) -le $(($(grep -c ' end ' spans) + 1)) ]]; }

# one_by_one A B: whichever came first.
one_by_one() {
	if (($(moment "$1" begin) < $(moment "$2" begin))); then
		after "$1" "$2"
	else
		after "$2" "$1"
	fi
}
