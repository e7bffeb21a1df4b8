# Two releases on one service: the oldest that is still supported (oldest), and this tree's. Each test has both play each
# part. The commands themselves judge, by flock(2) (programs/oracle.c), or by when they ran (lib/work.bash).

load ../lib/helper
load ../lib/work
load ../lib/contenders
load ../lib/postgres
load ../lib/oldest

setup_file() {
	file_begin
	oldest_begin || return
	database_begin
}

setup() {
	test_begin
	BATS_TEST_TIMEOUT=$((300 * TEST_PATIENCE))
}

teardown() { test_end; }
teardown_file() {
	database_end
	file_end
}

# on SERVICE CASE: with one and two as the older dlock and this one, then the other way round; the service is empty.
on() {
	local one=old two=new
	begin_way "$1"
	"$2"
	one=new two=old
	begin_way "$1"
	"$2"
}

begin_way() { # SERVICE
	mkdir "$BATS_TEST_TMPDIR/$one-first"
	cd "$BATS_TEST_TMPDIR/$one-first"
	write_work
	case $1 in
	redis) cli FLUSHALL >/dev/null ;;
	file) export DLOCK_SERVER=file://$PWD/locks ;;
	postgres)
		export DLOCK_SERVER="postgres://tester@/postgres?host=$database"
		psql -qAtc 'DROP SCHEMA IF EXISTS dlock CASCADE' -o /dev/null 2>/dev/null
		;;
	esac
	# What the service keeps for all locks is made by the first that comes.
	as $one dlock first true
}

# ---- 300 grants ------------------------------------------------------------------------------------

# ./contender FIRST COUNT: so many grants, of each kind by turns, by each dlock by turns.
write_contender() {
	cat >contender <<-'END'
		#!/bin/bash
		for ((i = $1; i < $1 + $2; i++)); do
			one=$SIDES/old/dlock two=$SIDES/new/dlock
			((i / 7 % 2 == 0)) || one=$SIDES/new/dlock two=$SIDES/old/dlock
			case $((i % 7)) in
			0) "$one" x oracle x "$PWD/x" 8 ;;
			1) "$one" -s s oracle s "$PWD/s" 8 ;;
			2) "$one" s oracle x "$PWD/s" 8 ;;
			3) "$one" --permits 2 p oracle p2 "$PWD/p" 8 ;;
			4) "$one" --also y x ./several ;;
			5) "$one" x "$two" x oracle x "$PWD/x" 8 ;;
			6)
				read -r token fence < <("$one" acquire x) && "$two" renew x "$token" &&
					DLOCK_FENCE=$fence oracle x "$PWD/x" 8 && "$one" renew x "$token" && "$two" release x "$token"
				;;
			esac || exit
			echo "$((i % 7))" >>granted
		done
	END
	cat >several <<-'END'
		#!/bin/bash
		[[ $DLOCK_FENCES =~ ^x=([0-9]+)\ y=([0-9]+)$ ]] || exit
		DLOCK_FENCE=${BASH_REMATCH[2]} oracle x "$PWD/y" 8 &
		DLOCK_FENCE=${BASH_REMATCH[1]} oracle x "$PWD/x" 8 || exit
		wait $!
	END
	chmod +x contender several
}

contend() {
	local number
	write_contender
	for number in {0..11}; do
		start c$number ./contender $((number * 25)) 25
	done
	for number in {0..11}; do
		wait_until -t 120 is_gone "$(pid_of c$number)"
	done
	assert_equal "$(cat ./*.violations 2>/dev/null || true)" '' 'overlaps, and fences that did not grow'
	for number in {0..11}; do
		finish c$number
		expect 0
	done
	assert_equal "$(wc -l <granted)" 300 grants
	assert_equal "$(cat x.log y.log s.log p.log | wc -l)" $((300 + $(grep -cx 4 granted))) 'commands that ended'
}

pid_of() {
	local variable=${1}_pid
	echo "${!variable}"
}

# ---- One thing at a time ---------------------------------------------------------------------------

# The places of both are in one queue, both see it, and each wakes the other's waiter.
in_order() {
	local name
	as $one holder a x
	as $two waiter b x
	as $one waiter c x
	as $two waiter d x
	for name in $one $two; do
		assert_equal "$(as $name waiting x)" 3 "what $name sees"
		assert_match "$(as $name dlock status x)" ":$a_pid "
		try as $name dlock -n x touch ran
		expect_failure 1 "busy: held by [^ ]*:$a_pid \(tester, work\)"
	done
	for name in a b c d; do
		wait_until has_begun $name
		ends $name
		expect 0
	done
	after a b
	after b c
	after c d
}

shared() {
	as $one holder a x -s
	as $two holder b x -s
	as $one waiter c x
	as $two waiter d x -s
	ends a
	expect 0
	refute has_begun c
	ends b
	expect 0
	wait_until has_begun c
	refute has_begun d
	as $one waiter e x -s
	ends c
	expect 0
	wait_until has_begun d
	wait_until has_begun e
	all_end d e
	after a c
	after b c
	after c d
	after c e
}

slot_of() { tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^DLOCK_SLOT=//p'; }

permits() {
	as $one holder a x --permits 2
	as $two holder b x --permits 2
	assert_equal "$(slot_of "$a_command") $(slot_of "$b_command")" '0 1' 'slots'
	as $one waiter c x --permits 2
	as $two waiter d x --permits 2
	ends a
	expect 0
	wait_until has_begun c
	assert_equal "$(slot_of "$(<c.pid)")" 0 'slot'
	refute has_begun d
	ends b
	expect 0
	wait_until has_begun d
	all_end c d
	after a c
	after b d
}

several() {
	as $one holder a x --also y
	assert as $two is_taken x
	assert as $two is_taken y
	as $two start b dlock --also z y ./work b
	wait_until waits y 1
	as $one waiter c y
	ends a
	expect 0
	wait_until has_begun b
	assert as $one is_taken z
	ends b
	expect 0
	ends c
	expect 0
	after a b
	after b c
}

on_record() {
	local number
	try as $one dlock --once monday x echo ran
	expect 0 ran
	try as $two dlock --once monday x echo ran
	expect 0 '' "$err"
	try as $two dlock --once tuesday x echo ran
	expect 0 ran
	try as $one dlock --once tuesday x echo ran
	expect 0 '' "$err"
	try as $one dlock --cooldown 1h y echo ran
	expect 0 ran
	try as $two dlock --cooldown 1h y echo ran
	expect 0 '' "$err"
	assert as $two dlock -q status --succeeded-within 1h y
	# Those that wait learn of it.
	as $one holder a z --once now
	as $two waiter b z --once now
	as $one waiter c z --once now
	ends a
	expect 0
	finish b
	expect 0 '' "$err"
	finish c
	expect 0 '' "$err"
	refute has_begun b
	refute has_begun c
	cli FLUSHALL >/dev/null # what is on record stays for a week
}

by_token() {
	local token fence
	read -r token fence <<<"$(as $one dlock acquire x)"
	try as $two dlock renew x "$token"
	expect 0 "$out"
	assert_equal "$(as $two dlock status --json x | jq -c '[.[0].fence, .[0].holders[0].detached]')" "[$fence,true]"
	try as $two dlock -n x true
	expect_failure 1 'busy: held by'
	try as $two dlock release x wrong
	assert_equal "$status" 1
	try as $two dlock release x "$token $fence"
	expect 0
	try as $one dlock renew x "$token"
	assert_equal "$status" 1
	assert_between "$(as $two dlock -n x sh -c 'echo $DLOCK_FENCE')" $((fence + 1)) $((fence * 2)) 'the next fence'
}

# Inside it the other is a guest: by its ancestors, by its environment, and when the one around it has ended.
inside() {
	try as $one dlock x sh -c 'echo $DLOCK_TOKEN $DLOCK_FENCE; "$0" -n x sh -c "echo \$DLOCK_TOKEN \$DLOCK_FENCE"' \
		"$SIDES/$two/dlock"
	assert_equal "$status$err" 0
	assert_equal "$(sed 2d "$BATS_TEST_TMPDIR/try.out")" "$(sed 1d "$BATS_TEST_TMPDIR/try.out")"
	try as $one dlock x env -i XDG_CONFIG_HOME="$XDG_CONFIG_HOME" DLOCK_SERVER="$DLOCK_SERVER" PATH="$PATH" \
		"$SIDES/$two/dlock" -n x echo in
	expect 0 in
	cat >left <<-'END'
		#!/bin/bash
		"$1" x ./work inner &
		until [[ -s inner.pid ]]; do sleep 0.02; done
	END
	as $one start outer dlock x bash left "$SIDES/$two/dlock"
	wait_until has_begun inner
	as $one waiter other x
	stays 1000 is_one_at_most
	all_end inner
	ends other
	expect 0
	after inner other
}

# partner NAME FIRST SECOND: a dlock takes SECOND inside FIRST, when ./go.NAME is there.
partner() {
	start "$1" dlock "$2" sh -c ': >"$0.has"; until [ -e "go.$0" ]; do sleep 0.02; done; code=0
		"$2" "$1" true || code=$?
		echo $code >"$0.code"' "$1" "$3" "$4"
	wait_until test -e "$1.has"
}

# One waits by the dlock that it has around it, or by the other.
circle() {
	local inner
	for inner in $one $two; do
		rm -f go.* ./*.code ./*.has
		as $one partner a x y "$SIDES/$inner/dlock"
		as $two partner b y x "$SIDES/$two/dlock"
		: >go.a
		wait_until waits y 1
		: >go.b
		finish a
		finish b
		assert_equal "$(sort -n a.code b.code | tr '\n' ' ')" '0 81 ' "$(cat "$BATS_TEST_TMPDIR"/[ab].err)"
	done
}

# All of a dlock is killed: the other's waiter comes when COMMAND is gone. By force: it is stopped.
broken() {
	as $one holder a x -t $((3 * TEST_PATIENCE))
	as $two waiter b x -t $((3 * TEST_PATIENCE))
	signal_waiters KILL "$a_pid"
	wait_until -t 20 has_begun b
	after a b
	try as $one dlock release --force x
	assert_equal "$status" 0
	finish b
	assert_equal "$status" 80
	assert as $one is_to_be_had x
	finish a
}

kept() {
	try as $one dlock --at-least $((1000 * TEST_PATIENCE))ms x touch ran
	expect 0
	assert as $two is_taken x
	assert test -e ran
	try as $two dlock -w $((20 * TEST_PATIENCE)) x true
	expect 0
}

@test "Redis: every mode, --also, inside, by token: 300 grants, no overlap, and fences grow" { on redis contend; }
@test "Redis: one queue, which each sees and wakes" { on redis in_order; }
@test "Redis: shared beside each other, and behind a writer" { on redis shared; }
@test "Redis: permits count together, and have slots of their own" { on redis permits; }
@test "Redis: --also excludes the other's, and waits for it" { on redis several; }
@test "Redis: what one has put on record the other finds, by --once and --cooldown" { on redis on_record; }
@test "Redis: acquired by one, renewed and released by the other" { on redis by_token; }
@test "Redis: one is a guest inside the other" { on redis inside; }
@test "Redis: a circle of both is found" { on redis circle; }
@test "Redis: one that was killed, or is broken by force, makes way for the other" { on redis broken; }
@test "Redis: --at-least keeps the lock from the other" { on redis kept; }

@test "file: every mode, --also, inside, by token: 300 grants, no overlap, and fences grow" { on file contend; }
@test "file: one queue, which each sees and wakes" { on file in_order; }
@test "file: shared beside each other, and behind a writer" { on file shared; }
@test "file: permits count together, and have slots of their own" { on file permits; }
@test "file: --also excludes the other's, and waits for it" { on file several; }
@test "file: what one has put on record the other finds, by --once and --cooldown" { on file on_record; }
@test "file: acquired by one, renewed and released by the other" { on file by_token; }
@test "file: one is a guest inside the other" { on file inside; }
@test "file: a circle of both is found" { on file circle; }
@test "file: one that was killed, or is broken by force, makes way for the other" { on file broken; }
@test "file: --at-least keeps the lock from the other" { on file kept; }

@test "PostgreSQL: every mode, --also, inside, by token: 300 grants, no overlap, and fences grow" { on postgres contend; }
@test "PostgreSQL: one queue, which each sees and wakes" { on postgres in_order; }
@test "PostgreSQL: shared beside each other, and behind a writer" { on postgres shared; }
@test "PostgreSQL: permits count together, and have slots of their own" { on postgres permits; }
@test "PostgreSQL: --also excludes the other's, and waits for it" { on postgres several; }
@test "PostgreSQL: what one has put on record the other finds, by --once and --cooldown" { on postgres on_record; }
@test "PostgreSQL: acquired by one, renewed and released by the other" { on postgres by_token; }
@test "PostgreSQL: one is a guest inside the other" { on postgres inside; }
@test "PostgreSQL: a circle of both is found" { on postgres circle; }
@test "PostgreSQL: one that was killed, or is broken by force, makes way for the other" { on postgres broken; }
@test "PostgreSQL: --at-least keeps the lock from the other" { on postgres kept; }
