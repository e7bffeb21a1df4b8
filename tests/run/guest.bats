# A dlock that takes the lock of a dlock around it is a guest of that one's keeper: the lock is no other's
# while it runs, whatever becomes of the one around it. And one that has given the lock back has no
# guests, however long --at-least keeps the lock.
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
	wait_until queued x 1
}

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
	wait_until queued x 1
	# It is still the script's.
	assert_equal "$(dlock status --json x | jq -c '.[0].holders | map(.label)')" '["dash"]'
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
dlock: x: busy: held by [^ ]+ \(tester, dash\)'
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

@test "the keeper renews for its guest, though its COMMAND ended long ago" {
	begin_holder one x -t $((2 * TEST_PATIENCE))
	outside job
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
	try dlock -n y true
	assert_equal "$status" 1
	all_end inner
	wait_until is_free y
	assert is_free x
}

@test "a dlock inside that waits for another lock is found in a circle when the outer has ended" {
	begin_holder one x
	start second dlock y sh -c 'until [ -e go ]; do sleep 0.02; done; dlock x true'
	wait_until is_held y
	DLOCK_NAME=x DLOCK_TOKEN=$(cli GET lock:x) start first dlock x dlock y true
	wait_until queued y 1
	let_go one
	: >go
	finish second
	assert_equal "$status" 81 "$err"
	finish first
	assert_equal "$status" 0 "$err"
}

# ---- Deaths ----------------------------------------------------------------------------------------

# An outer one with work of its own, a guest that is no descendant, and another that waits.
two_deep() { # [OPTION]...
	rm -f spans ./*.go ./*.pid
	start outer dlock -t $((3 * TEST_PATIENCE)) "$@" x ./work outer
	wait_until has_begun outer
	outside job
	next_waits other -t $((3 * TEST_PATIENCE))
}

@test "kill -9 of the front around: its COMMAND stops, the guest goes on; then comes the next" {
	two_deep
	kill -KILL "$outer_pid"
	finish outer
	wait_until is_gone "$(<outer.pid)"
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
}

@test "kill -9 of the keeper around, or of both: the guest stops its work at once" {
	local which
	for which in keeper both; do
		two_deep
		if [[ $which == keeper ]]; then
			kill -KILL "$(keeper_of "$outer_pid")"
		else
			kill -KILL "$(keeper_of "$outer_pid")" "$outer_pid"
		fi
		finish job
		assert_equal "$status" 80 "$which"
		assert_match "$err" '^dlock: x: the dlock around this one has lost the lock, or was killed; stopping COMMAND$'
		wait_until -t 4 has_begun other
		after job other
		after outer other
		finish outer
		[[ $which == both ]] || assert_equal "$status" 70
		all_end other
	done
}

@test "the keeper around is killed while a guest cannot stop: its front gives nothing away" {
	two_deep --grace 0.1
	# The guest's front and keeper stand still; so nothing ends its work before the TTL does.
	local guest
	guest=$(keeper_of "$job_pid")
	kill -STOP "$job_pid" "$guest"
	kill -KILL "$(keeper_of "$outer_pid")"
	stays $((1000 * TEST_PATIENCE)) is_held x
	refute has_begun other
	kill -CONT "$job_pid" "$guest"
	finish job
	assert_equal "$status" 80
	wait_until -t 4 has_begun other
	after job other
	finish outer
	assert_equal "$status" 70
	all_end other
}

@test "the keeper around stands still, or all of it: the guest stops its work in time" {
	local which
	for which in keeper both; do
		two_deep --grace 0.5
		local keeper
		keeper=$(keeper_of "$outer_pid")
		if [[ $which == keeper ]]; then
			kill -STOP "$keeper"
		else
			kill -STOP "$keeper" "$outer_pid"
		fi
		wait_until -t 4 has_begun other
		after job other
		[[ $which == keeper ]] || kill -CONT "$outer_pid" "$keeper"
		finish job
		assert_equal "$status" 80 "$which"
		finish outer
		assert_equal "$status" 80 "$which"
		# With all of its dlock stopped nothing can stop its COMMAND.
		[[ $which == both ]] || after outer other
		all_end other
	done
}

@test "the front around stands still: nothing happens to the guest" {
	two_deep
	kill -STOP "$outer_pid"
	stays $((3500 * TEST_PATIENCE)) is_alive "$(<job.pid)"
	kill -CONT "$outer_pid"
	all_end job outer other
	after job other
	after outer other
	finish job
	assert_equal "$status" 0
}

@test "kill -9 of the guest's front, keeper, or both: its work stops, the outer goes on" {
	local which
	for which in front keeper both; do
		two_deep
		case $which in
			front) kill -KILL "$job_pid" ;;
			keeper) kill -KILL "$(keeper_of "$job_pid")" ;;
			both) kill -KILL "$(keeper_of "$job_pid")" "$job_pid" ;;
		esac
		finish job
		wait_until is_gone "$(<job.pid)"
		refute has_begun other
		: >outer.go
		wait_until has_begun other
		after outer other 1000
		after job other
		all_end other
		finish outer
		expect 0
	done
}

@test "a guest whose keeper is killed is there until its front has stopped its work" {
	# What is left of the work heeds no signal before the grace is over.
	start outer dlock x ./work outer
	wait_until has_begun outer
	cat >stubborn <<-'END'
		#!/bin/bash
		(trap '' TERM; exec ./work job) &
		wait
	END
	chmod +x stubborn
	DLOCK_TOKEN=$(cli GET lock:x) start job dlock --grace $((2 * TEST_PATIENCE)) x ./stubborn
	wait_until has_begun job
	next_waits other
	kill -KILL "$(keeper_of "$job_pid")"
	: >outer.go
	wait_until has_begun other
	after job other 1000
	after outer other
	finish job
	assert_equal "$status" 70
	all_end other
}

@test "the lock is released by force, or taken by another: the guest is stopped as well" {
	begin_holder one x -t $((3 * TEST_PATIENCE))
	outside job
	let_go one
	dlock release --force x 2>broken
	assert_match "$(<broken)" 'released by force: held by [^ ]+ \(tester, witness\)'
	finish job
	assert_equal "$status" 80
	rm -f spans
	begin_holder one x -t $((3 * TEST_PATIENCE))
	outside job
	cli SET lock:x thief PX 100000 >/dev/null
	finish job
	assert_equal "$status" 80
	finish one
	assert_equal "$status" 80
	assert_equal "$(taken lock:x)" thief
}

@test "the server loses its memory: the keeper sets the lock again for its guest" {
	begin_holder one x
	outside job
	let_go one
	cli FLUSHALL >/dev/null
	cli CLIENT KILL TYPE normal SKIPME yes >/dev/null
	wait_until is_held x
	next_waits other
	all_end job other
	after job other 1000
	finish job
	assert_equal "$status" 0
}

# ---- Another lock ------------------------------------------------------------------------------------

@test "the same NAME with another prefix, or at another server, is another lock" {
	start outer dlock x dlock --prefix p: x ./work w
	wait_until has_begun w
	assert_equal "$(cli EXISTS p:x)" 1
	all_end w
	finish outer
	expect 0
	try dlock x dlock -S "file:$PWD/locks" x sh -c 'ls locks | grep -c "^x$"'
	expect 0 1
}

# ---- Where the socket is not, or not ours ------------------------------------------------------------

@test "in another network namespace: 81 with the reason, and not a wait for oneself" {
	needs network
	try dlock x unshare "${AS_ROOT[@]}" --net "$BIN/dlock" -w 60 x true
	expect_failure 81 "^dlock: x: waiting would deadlock: a dlock around this one holds it, and its keeper does not answer here"
	try dlock x unshare "${AS_ROOT[@]}" --net env -i XDG_CONFIG_HOME="$XDG_CONFIG_HOME" \
		DLOCK_SERVER="$DLOCK_SERVER" "$BIN/dlock" -n x true
	expect_failure 81 'does not answer here'
	assert is_free x
}

@test "a sandbox with pids of its own, and one host name: inside by the token, not without it" {
	needs pids
	try dlock x in_mounts unshare --pid --fork --kill-child --mount-proc "$BIN/dlock" -n x echo in
	expect 0 in
	try dlock x in_mounts unshare --pid --fork --kill-child --mount-proc env -u DLOCK_TOKEN -u DLOCK_NAME "$BIN/dlock" -n x true
	assert_equal "$status" 1 "$err"
}

@test "a keeper that does not answer: 81 as well" {
	begin_holder one x
	local token keeper
	token=$(cli GET lock:x)
	keeper=$(keeper_of "$one_pid")
	kill -STOP "$keeper"
	DLOCK_TOKEN=$token try dlock -w 60 x true
	expect_failure 81 'does not answer here'
	kill -CONT "$keeper"
	let_go one
}

@test "another user's program at the address gets no token, and no dlock takes it for a keeper" {
	token=$(dlock x printenv DLOCK_TOKEN)
	begin_holder one x
	DLOCK_TOKEN=$token try dlock -n x true
	assert_equal "$status" 1
	# What connects and says nothing, or nonsense, is no guest.
	"$PYTHON" - "$(address_of "$(keeper_of "$one_pid")")" <<-'END'
		import socket, sys
		quiet, noisy = (socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2))
		for s in quiet, noisy:
		    s.connect("\0" + sys.argv[1])
		noisy.send(b"x" * 3000)
		assert noisy.recv(100) == b""
	END
	let_go one
	expect 0
	assert is_free x
}

# The abstract name on which a keeper listens for guests: other tests have keepers, too.
address_of() { # KEEPER
	local inodes
	inodes=$(find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n')
	awk 'NR == FNR { own[$1] = 1; next } $7 in own && $8 ~ /^@dlock\/lease\// { print substr($8, 2) }' \
		<(echo "$inodes") /proc/net/unix
}

# ---- Many, and deep ------------------------------------------------------------------------------------

@test "three deep, each in a session of its own: the lock is free when the last has ended" {
	cat >deep <<-'END'
		#!/bin/bash
		# deep N: N more inside, which outlive what is around them.
		(($1 == 0)) && exec dlock x ./work innermost
		dlock x setsid ./deep $(($1 - 1)) &
		until [[ -e innermost.pid ]]; do sleep 0.02; done
	END
	chmod +x deep
	start one dlock -o x ./deep 3
	wait_until has_begun innermost
	finish one
	next_waits other
	stays $((300 * TEST_PATIENCE)) is_held x
	all_end innermost other
	after innermost other 1000
}

@test "50 guests at once, and one that waits: it comes after the last" {
	cat >many <<-'END'
		#!/bin/bash
		for i in {1..50}; do
			dlock x sh -c 'echo >>begun; until [ -e many.go ]; do sleep 0.1; done; echo >>over' &
		done
		until [[ -e many.go ]]; do sleep 0.05; done
	END
	chmod +x many
	start one dlock -o x ./many
	wait_until -t 10 lines_of begun 50
	start other dlock x sh -c 'wc -l <over'
	wait_until queued x 1
	: >many.go
	finish other
	expect 0 50
	finish one
	assert_equal "$status" 0
}
lines_of() { [[ -e $1 ]] && (($(wc -l <"$1") == $2)); } # FILE COUNT

@test "hold inside hold: the same process needs one only, another holds for itself" {
	cat >script.sh <<-'END'
		dlock hold x && dlock hold x || exit
		sh -c 'dlock hold x && dlock hold x || exit; ./work child; dlock release x; echo $?; : >released
			until [ -e script.go ]; do sleep 0.02; done; dlock -n x true; echo $?' &
		until [ -e spans ]; do sleep 0.02; done
		dlock release x
		echo >first
		until [ -e released ]; do sleep 0.02; done
		wait
	END
	start script dash script.sh
	wait_until is_file first
	next_waits other
	: >child.go
	wait_until has_begun other
	after child other 1000
	: >script.go
	finish script
	assert_equal "$out" "0
1"
	all_end other
}

# ---- What counts of the one inside -----------------------------------------------------------------

@test "--once and --cooldown inside: 0 if the success is on record, else 64" {
	try dlock --once id x true
	expect 0
	try dlock x sh -c 'dlock --once id x echo run; echo $?; dlock --cooldown 1h x echo run; echo $?'
	expect 0 "0
0"
	try dlock x dlock --once other x echo run
	expect_failure 64 '^dlock: x: --once cannot be had inside its holder: the success could not be put on record$'
	cli FLUSHALL >/dev/null
	try dlock x dlock --cooldown 1h x echo run
	expect_failure 64 '^dlock: x: --cooldown cannot be had inside its holder: the success could not be put on record$'
	cli FLUSHALL >/dev/null
}

@test "the options about COMMAND are its own: --max-run, --report, --at-least does not count" {
	try dlock x dlock --max-run 0.3 --report report x sleep 60
	assert_equal "$status" "$(dlock --max-run 0.1 y sleep 60 2>/dev/null; echo $?)"
	assert_equal "$(jq -r .outcome report)" max-run
	try dlock x sh -c 'dlock --at-least 1h -t 600 x true; echo $DLOCK_FENCE; dlock --report report x true'
	assert_equal "$(jq .fence report)" "$out"
	assert is_free x
}

is_traced() { [[ $(proc_status "$1" TracerPid) != 0 ]]; } # PID

# Between poll(2), which told of the guest's coming, and the signals the keeper stands still. TEST_PATIENCE does not
# stretch that: two reads come before the guest's answer, and a guest gives up after 3 s.
@test "a guest comes and goes, and COMMAND ends, all before the keeper looks: it says nothing" {
	needs trace
	start outer dlock x sh -c ': >started; until [ -e go ]; do sleep 0.02; done; exec dlock x true'
	wait_until test -e started
	local keeper
	keeper=$(keeper_of "$outer_pid")
	strace -qq -e signal=none -e trace=read -e inject=read:delay_enter=500000 -o trace -p "$keeper" &
	wait_until is_traced "$keeper"
	: >go
	finish outer
	expect 0
}
