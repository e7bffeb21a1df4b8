# A dlock that takes the lock of a dlock around it is a holder too: no other one is while it runs, whatever
# becomes of the one around it. And one that has given the lock back is no holder, however long
# --at-least keeps the lock.
#
# The commands themselves judge overlaps, on one clock: see work.bash.

load ../lib/helper
load ../lib/work

setup_file() { file_begin; }
teardown_file() { file_end; }
teardown() { test_end; }

setup() {
	test_begin
	write_work
}

# next_waits NAME: another waiter for x, which stands in its queue.
next_waits() {
	start "$1" dlock "${@:2}" x ./work "$1"
	wait_until is_waiting
}
is_waiting() { [[ $(cli ZCARD 'lock:{lock:x}:queue') != 0 ]]; }

# ---- An ended token ------------------------------------------------------------------------------

@test "hold --at-least, release, and the script takes it again: by its turn, and nobody beside it" {
	cat >script.sh <<-END
		dlock hold --at-least $((1000 * TEST_PATIENCE))ms x || exit
		dlock release x || exit
		dlock x ./work again
	END
	start script dash script.sh
	wait_until is_free_of_keepers
	start other dlock x ./work other
	wait_until any_begun
	stays $((2000 * TEST_PATIENCE)) is_one_at_most
	all_end again other
	one_by_one again other
}

is_free_of_keepers() { [[ $(cli HGET "$(meta_of x)" ended) != '' ]]; }
any_begun() { [[ -s spans ]]; }

@test "-o --at-least: what COMMAND left behind takes it again, by its turn, and nobody beside it" {
	start one dlock -o --at-least $((3000 * TEST_PATIENCE))ms x \
		sh -c '(until [ -e ended ]; do sleep 0.02; done; dlock x ./work again) &'
	finish one
	expect 0
	: >ended
	start other dlock x ./work other
	# Long enough to look for a circle, which this is none of.
	wait_until any_begun
	stays $((4000 * TEST_PATIENCE)) is_one_at_most
	all_end again other
	one_by_one again other
	cli FLUSHALL >/dev/null # what was published under the ended token lives for a minute
}

@test "an ended token is busy with -n, and the holder that was is still named" {
	start one dlock -o --at-least $((2 * TEST_PATIENCE)) x \
		sh -c '(until [ -e ended ]; do sleep 0.02; done; dlock -n x true; echo $? >code) &'
	finish one
	expect 0
	assert_match "$(cli GET lock:x)" '^[^ ]+ ended$'
	: >ended
	wait_until is_file code
	assert_file code 1
	assert_match "$(<one.err)" 'dlock: x: busy: held by [^ ]+ \(tester, sh\)'
	wait_until is_free x
}

# ---- The one inside outlives the one around it -----------------------------------------------------

@test "a job in the background of a script that holds: the lock stays with it, then is handed on" {
	cat >script.sh <<-'END'
		dlock hold x || exit
		dlock x ./work job &
		until [ -e spans ]; do sleep 0.02; done
	END
	start script dash script.sh
	wait_until has_begun job
	finish script
	expect 0
	start other dlock x ./work other
	stays $((500 * TEST_PATIENCE)) is_one_at_most
	wait_until is_waiting
	# The job holds it now.
	assert_equal "$(dlock status --json x | jq -c '.[0].holders | map(.label)')" '["work"]'
	: >job.go
	wait_until has_begun other
	after job other 1000
	all_end other
}

@test "dlock release while a job runs inside: exit 0, and a line that says so" {
	cat >script.sh <<-'END'
		dlock hold x || exit
		dlock x ./work job &
		until [ -e spans ]; do sleep 0.02; done
		dlock release x
		echo $?
		dlock -n x true
		echo $?
		until [ -e job.go ]; do sleep 0.02; done
	END
	start script dash script.sh
	wait_until has_begun job
	wait_until file_has script.out '^1'
	next_waits other
	all_end job other
	finish script
	assert_equal "$out" "0
1"
	assert_match "$err" '^dlock: x: the lock stays with the dlocks that hold it inside this one: [0-9]+
dlock: x: busy: held by [^ ]+ \(tester, work\)'
	after job other
}

@test "-o, and a dlock in what COMMAND left running" {
	start one dlock -o x sh -c 'dlock x ./work job & until [ -e spans ]; do sleep 0.02; done'
	finish one
	assert_equal "$status" 0
	assert_match "$err" '^dlock: x: the lock stays with the dlocks that hold it inside this one: [0-9]+$'
	next_waits other
	stays $((500 * TEST_PATIENCE)) is_one_at_most
	: >job.go
	wait_until has_begun other
	after job other 1000
	all_end other
}

# The token goes to a process that is no descendant, as by at(1).
outside() { # NAME [OPTION]...
	DLOCK_TOKEN=$(cli GET lock:x | sed 's/ ended$//') start "$1" dlock "${@:2}" x ./work "$1"
	wait_until has_begun "$1"
}

@test "a token that was handed on: several inside, each for itself; the last end is the lock's" {
	begin_holder one x
	outside job1
	outside job2
	let_go one
	expect 0 '' "$err"
	assert_match "$err" 'inside this one: [0-9]+ [0-9]+$'
	# The token still does as long as one of them lives.
	outside job3
	next_waits other
	all_end job1 job2
	stays $((300 * TEST_PATIENCE)) is_held x
	refute has_begun other
	all_end job3 other
	after job3 other 1000
}

@test "the one inside renews for itself, though the one around it ended long ago" {
	begin_holder one x -t $((2 * TEST_PATIENCE))
	outside job -t $((2 * TEST_PATIENCE))
	let_go one
	next_waits other
	stays $((4000 * TEST_PATIENCE)) is_held x
	refute has_begun other
	all_end job other
	after job other
	finish job
	assert_equal "$status" 0
}

@test "--at-least of one that ended counts once the last one inside has ended" {
	begin_holder one x --at-least $((3000 * TEST_PATIENCE))ms
	local began
	began=$(now_ms)
	outside job
	let_go one
	next_waits other
	all_end job other
	after job other
	(($(moment other begin) / 1000 - began >= 2700 * TEST_PATIENCE)) || fail 'other came too soon'
}

@test "a TTL that is shorter around, or inside, shortens nothing of the other's" {
	begin_holder one x -t $((3 * TEST_PATIENCE))
	local before
	outside job -t 600
	before=$(cli PTTL lock:x)
	assert_between "$before" 500000 600000
	stays $((2500 * TEST_PATIENCE)) lasts 500000
	all_end job
	finish job
	# No holder is inside any more.
	wait_until is_short
	let_go one
	begin_holder one x -t 600
	outside brief -t $((3 * TEST_PATIENCE))
	stays $((2500 * TEST_PATIENCE)) lasts 500000
	let_go one
	assert_between "$(cli PTTL lock:x)" 1 $((3000 * TEST_PATIENCE))
	all_end brief
	wait_until is_free x
}

lasts() { (($(cli PTTL lock:x) > $1)); }
is_short() { ! lasts $((3000 * TEST_PATIENCE)); }

@test "shares: a writer waits for what runs inside a share that ended, other readers do not" {
	start one dlock -s x sh -c 'echo $DLOCK_TOKEN >token.new && mv token.new token; until [ -e one.go ]; do sleep 0.02; done'
	wait_until is_file token
	DLOCK_TOKEN=$(<token) start job dlock -s x ./work job
	wait_until has_begun job
	: >one.go
	finish one
	assert_equal "$status" 0
	try dlock -n -s x echo read
	expect 0 read
	next_waits writer
	stays $((500 * TEST_PATIENCE)) is_one_at_most
	all_end job writer
	after job writer 1000
}

@test "permits: what runs inside one that ended keeps it taken" {
	start one dlock --permits 1 x sh -c 'echo $DLOCK_TOKEN >token.new && mv token.new token; until [ -e one.go ]; do sleep 0.02; done'
	wait_until is_file token
	DLOCK_TOKEN=$(<token) start job dlock --permits 1 x ./work job
	wait_until has_begun job
	: >one.go
	finish one
	next_waits other --permits 1
	stays $((500 * TEST_PATIENCE)) is_one_at_most
	all_end job other
	after job other 1000
}

@test "--also: what is inside is kept, and released, with the rest" {
	begin_holder one x
	DLOCK_TOKEN=$(cli GET lock:x) start job dlock --also a --also y x ./work job
	wait_until has_begun job
	let_go one
	next_waits other
	stays $((500 * TEST_PATIENCE)) is_one_at_most
	assert is_held a
	assert is_held y
	all_end job other
	after job other 1000
	assert is_free a
	assert is_free y
	# And the other way round: what is inside is one of several.
	begin_holder one x --also y
	DLOCK_TOKEN=$(cli GET lock:x) start inner dlock y ./work inner
	wait_until has_begun inner
	let_go one
	try dlock -n x true
	expect 0
	try dlock -n y true
	assert_equal "$status" 1
	all_end inner
	wait_until is_free y
}

@test "a dlock inside that waits for another lock is found in a circle when the outer has ended" {
	begin_holder one x
	start second dlock y sh -c 'until [ -e go ]; do sleep 0.02; done; dlock x true'
	wait_until is_held y
	DLOCK_NAME=x DLOCK_TOKEN=$(cli GET lock:x) start first dlock x dlock y true
	wait_until is_waiting_for_y
	let_go one
	: >go
	finish second
	assert_equal "$status" 81 "$err"
	finish first
	assert_equal "$status" 0 "$err"
}

is_waiting_for_y() { [[ $(cli ZCARD 'lock:{lock:y}:queue') != 0 ]]; }

# ---- Deaths ----------------------------------------------------------------------------------------

# An outer one with work of its own, and one inside that is no descendant.
two_deep() {
	start outer dlock -t $((3 * TEST_PATIENCE)) x ./work outer
	wait_until has_begun outer
	outside job -t $((3 * TEST_PATIENCE))
	next_waits other -t $((3 * TEST_PATIENCE))
}

keeper_of() { tr -d ' ' <"/proc/$1/task/$1/children"; }

@test "kill -9 of the outer front, or keeper: the one inside goes on, and the next comes after it" {
	local which
	for which in front keeper; do
		rm -f spans ./*.go
		two_deep
		if [[ $which == front ]]; then
			kill -KILL "$outer_pid"
		else
			kill -KILL "$(keeper_of "$outer_pid")"
		fi
		finish outer
		wait_until ended_name
		# More than a TTL later.
		stays $((3500 * TEST_PATIENCE)) is_held x
		refute has_begun other
		: >job.go
		wait_until has_begun other
		after outer other
		after job other 1000
		finish job
		assert_equal "$status" 0
		all_end other
	done
}

ended_name() { [[ $(cli GET lock:x) == *' ended' ]]; }

@test "kill -9 of the front, or keeper, inside: its work stops, the outer goes on, then the next" {
	local which
	for which in front keeper; do
		rm -f spans ./*.go
		two_deep
		if [[ $which == front ]]; then
			kill -KILL "$job_pid"
		else
			kill -KILL "$(keeper_of "$job_pid")"
		fi
		finish job
		wait_until is_nobody_inside
		refute has_begun other
		: >outer.go
		wait_until has_begun other
		after outer other 1000
		after job other
		all_end other
	done
}

is_nobody_inside() { [[ -z $(cli --scan --pattern 'lock:{lock:x}:inner:*') ]]; }

@test "kill -9 of both, outside or inside: the next comes after their work, within a TTL" {
	two_deep
	kill -KILL "$(keeper_of "$job_pid")" "$job_pid"
	finish job
	: >outer.go
	wait_until -t 4 has_begun other
	after job other
	after outer other
	all_end other

	rm -f spans ./*.go
	two_deep
	kill -KILL "$(keeper_of "$outer_pid")" "$outer_pid"
	stays $((3500 * TEST_PATIENCE)) is_held x
	refute has_begun other
	: >job.go
	# No process has said that the outer one ended.
	wait_until -t 4 has_begun other
	after job other
	after outer other
	all_end other
}

@test "the lock is released by force, or taken by another: the one inside is stopped as well" {
	begin_holder one x -t $((3 * TEST_PATIENCE))
	outside job -t $((3 * TEST_PATIENCE))
	let_go one
	dlock release --force x 2>broken
	assert_match "$(<broken)" 'released by force: held by [^ ]+ \(tester, work\)'
	finish job
	assert_equal "$status" 80
	assert is_nobody_inside
	begin_holder one x -t $((3 * TEST_PATIENCE))
	outside job -t $((3 * TEST_PATIENCE))
	cli SET lock:x thief PX 100000 >/dev/null
	finish job
	assert_equal "$status" 80
	finish one
	assert_equal "$status" 80
	assert_equal "$(cli GETDEL lock:x)" thief
}

@test "the server loses its memory: the one inside sets the lock again, with the outer or without" {
	begin_holder one x
	outside job
	cli FLUSHALL >/dev/null
	cli CLIENT KILL TYPE normal SKIPME yes >/dev/null
	wait_until is_held x
	let_go one
	assert is_held x
	assert_match "$(cli GET lock:x)" ' ended$'
	# It has to have heard that the one around it has ended.
	cli CLIENT KILL TYPE normal SKIPME yes >/dev/null
	wait_until knows_ended
	cli FLUSHALL >/dev/null
	cli CLIENT KILL TYPE normal SKIPME yes >/dev/null
	wait_until is_held x
	next_waits other
	all_end job other
	after job other 1000
	finish job
	assert_equal "$status" 0
	assert_match "$err" 'set again'
}

# The one inside has renewed since: its list lasts for its whole TTL again.
knows_ended() { (($(cli PTTL lock:x) > 59000)); }

# ---- What counts of the one inside -----------------------------------------------------------------

@test "--once and --cooldown count inside, and a success inside is on record" {
	try dlock x sh -c 'for i in 1 2; do dlock --once id x echo once; dlock --cooldown 1h --once other$i x echo $i; done'
	expect 0 once
	try dlock --once id x echo again
	expect 0
	try dlock --cooldown 1h x echo again
	expect 0
	cli FLUSHALL >/dev/null
	# What failed inside is no success, and then what it was inside of is none either.
	try dlock x sh -c 'dlock --once id x false; dlock --once id x echo run; exit 3'
	expect 3 run
	try dlock --once id x echo again
	expect 0
	cli FLUSHALL >/dev/null
}

@test "--once counts inside --also as well, for NAME alone" {
	try dlock --also y x sh -c 'for i in 1 2; do dlock --once id --also y x echo once; done'
	expect 0 once
	try dlock --once id y echo run
	expect 0 run
	cli FLUSHALL >/dev/null
}
