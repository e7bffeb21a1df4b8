# Two sandboxes with one host name, whose processes have the same pids and the same start ticks: neither
# is taken for the other.

load ../lib/helper

setup_file() {
	file_begin
	cc -std=c17 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -o "$BIN/sandbox" "$BATS_TEST_DIRNAME/../programs/sandbox.c"
}
teardown_file() { file_end; }
setup() {
	test_begin
	needs pids
	sandbox=(sandbox)
	mountpoint -q / || sandbox=(in_mounts sandbox) # it must make / private
	TIMES=20
}
teardown() { test_end; }

# What runs under the lock in sandbox $1: notes when it began and ended, by a clock that no namespace
# changes, and stays until the one in sandbox $2 has come to the lock: it has it as well, or has to wait, or
# has gone without.
write_section() {
	cat >section <<-'END'
		#!/bin/bash
		echo "${EPOCHREALTIME/[.,]/} $1 begin $DLOCK_FENCE" >>times
		touch "$1.in"
		until [[ -e $2.in || -e $2.gone || $(redis-cli -s "$SERVER/socket" ZCARD 'lock:{lock:x}:queue') == 1 ]]; do
			sleep 0.01
		done
		echo "${EPOCHREALTIME/[.,]/} $1 end" >>times
	END
	chmod +x section
}

# both FIRST SECOND: each in a sandbox, started together; sets codes.
both() {
	rm -f times twin ./*.in ./*.gone
	start one "${sandbox[@]}" twin bash -c "$1"
	start two "${sandbox[@]}" twin bash -c "$2"
	finish one
	codes=$status
	finish two
	codes+=" $status"
}

# Judged by the moments alone: the one that began later began after the other's end.
assert_disjoint() {
	assert_equal "$(sort -n times | cut -d' ' -f3 | paste -sd' ')" 'begin end begin end' "$(<times)"
}

assert_fences_differ() {
	assert_equal "$(sed -n 's/.* begin //p' times | sort -u | wc -l)" 2 "fencing tokens: $(<times)"
}

# repeatedly FUNCTION: which must not rely on being ended by what fails in it.
repeatedly() {
	local i
	for ((i = 1; i <= TIMES; i++)); do
		"$1" || fail "in try $i of $TIMES: $codes" "$(cat one.err two.err)"
		wait_until is_free x
	done
}

not_both() {
	both 'dlock hold -n x && ./section 1 2 || { touch 1.gone; exit 1; }' \
		'dlock hold -n x && ./section 2 1 || { touch 2.gone; exit 1; }'
	assert_equal "$(wc -l <times)" 2 "who had it: $(<times)" &&
		assert_match "$codes" '^(0 1|1 0)$'
}

@test "hold -n: one has it, the other is told that it is busy" {
	write_section
	repeatedly not_both
}

in_turn() {
	assert_equal "$codes" '0 0' && assert_disjoint && assert_fences_differ
}

both_hold() {
	both 'eval "$(dlock hold --print x)"; ./section 1 2' 'eval "$(dlock hold --print x)"; ./section 2 1'
	in_turn
}

@test "hold: one after the other, with fencing tokens of their own" {
	write_section
	repeatedly both_hold
}

# The first dlock has the pid that the second's shell has.
both_run() {
	both 'exec dlock x ./section 1 2' \
		'until [[ -e 1.in ]]; do sleep 0.01; done; dlock x ./section 2 1; exit $?'
	in_turn
}

@test "the run form: one after the other, with fencing tokens of their own" {
	write_section
	repeatedly both_run
}

release_of_the_other() {
	both 'dlock hold x; touch 1.in; until [[ -e 2.gone ]]; do sleep 0.01; done; dlock status -q x' \
		'until [[ -e 1.in ]]; do sleep 0.01; done; dlock release x; echo $? >code; touch 2.gone'
	assert_equal "$(<code) $codes" '1 0 0' "release, and whether the lock was held after it"
}

@test "release: that of one does not end the lock of the other" {
	repeatedly release_of_the_other
}

@test "inside one sandbox a lock is had at once, and can be released, as anywhere" {
	cat >script <<-'END'
		dlock hold x || exit
		env -i DLOCK_SERVER="$DLOCK_SERVER" TEST_MARK="$TEST_MARK" "$BIN/dlock" -n x echo within
		bash -c 'dlock release x; true'
		dlock status -q x || echo free
	END
	try "${sandbox[@]}" twin bash script
	expect 0 'within
free'
}

@test "a sandbox below a holder: by its DLOCK_TOKEN the lock is had at once" {
	try dlock x "${sandbox[@]}" twin dlock -n x echo within
	expect 0 within
	try dlock x env -u DLOCK_TOKEN "${sandbox[@]}" twin dlock -n x true
	assert_equal "$status" 1
}

@test "a record without PID namespace, as an older dlock's: its holder is not known by its pid" {
	cat >script <<-'END'
		dlock hold x || exit
		key=$(redis-cli -s "$SERVER/socket" KEYS '*who*')
		who=$(redis-cli -s "$SERVER/socket" GET "$key")
		redis-cli -s "$SERVER/socket" SET "$key" "${who/pidns=/older=}" KEEPTTL
		dlock -n x true
		echo $?
	END
	try bash script
	assert_equal "$out" $'OK\n1'
}
