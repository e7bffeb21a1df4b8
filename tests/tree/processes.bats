# Each part of dlock killed or stopped, the lock lost or unprovable: COMMAND's tree never outlives
# the proof of its lock, and no lock outlives its holder.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

# A COMMAND with a tree: a child, a child in a session of its own, and two more like these whose
# parent has ended. `tree yes`: all ignore TERM.
write_tree() {
	cat >tree <<-'END'
		#!/bin/bash
		[[ $1 == yes ]] && trap '' TERM
		sleep 300 &
		setsid sleep 300 &
		(sleep 300 & setsid sleep 300 &)
		echo $$ >command
		while :; do sleep 0.05; done
	END
	chmod +x tree
}

# marked_named PATTERN: this test's processes whose command line matches.
marked_named() {
	local one
	for one in $(marked_pids); do
		if tr '\0' ' ' 2>/dev/null <"/proc/$one/cmdline" | grep -qE -- "$1"; then
			echo "$one"
		fi
	done
}

sleepers_are() { [[ $(marked_named '^sleep 300' | wc -l) == "$1" ]]; }

# start_tree NAME STUBBORN [OPTION]...: under the lock x; sets NAME_pid, _keeper, _command and
# sleepers.
start_tree() {
	local name=$1 stubborn=$2
	shift 2
	[[ -e tree ]] || write_tree
	rm -f command
	start "$name" dlock "$@" x ./tree "$stubborn"
	wait_until is_file command
	wait_until sleepers_are 4
	declare -g "${name}_command=$(<command)"
	declare -g "${name}_keeper=$(parent_of "$(<command)")"
	sleepers=$(marked_named '^sleep 300')
}

# Waits until x is free; at that very moment nothing of the tree may be left.
freed_after_the_tree() {
	wait_until "$@" is_free x
	local one
	for one in $sleepers $one_command; do
		is_gone "$one" || fail "the lock is free while $one lives: $(tr '\0' ' ' <"/proc/$one/cmdline")"
	done
}

# ---- Killed --------------------------------------------------------------------------------------

@test "front SIGKILLed: the tree is stopped, then the lock released" {
	start_tree one no --grace 2
	kill -KILL $one_pid
	freed_after_the_tree -t 2
	wait_until is_gone $one_keeper
	finish one
	assert_equal "$status" 137
}

@test "front SIGKILLed, the tree ignores the stop signal: SIGKILL after the grace, then released" {
	start_tree one yes --grace 1
	local began
	began=$(now_ms)
	kill -KILL $one_pid
	freed_after_the_tree -t 4
	assert_between "$(($(now_ms) - began))" 900 $((3000 * TEST_PATIENCE)) 'ms until released'
	finish one
}

@test "keeper SIGKILLed: COMMAND dies at once, its tree is stopped, the lock released, exit 70" {
	start_tree one no --grace 2
	kill -KILL $one_keeper
	wait_until -t 1 is_gone $one_command
	freed_after_the_tree -t 3
	finish one
	expect_failure 70 'keeper'
}

@test "keeper SIGKILLed, the tree ignores the stop signal: COMMAND at once, the rest by the grace" {
	start_tree one yes --grace 1
	kill -KILL $one_keeper
	wait_until -t 1 is_gone $one_command
	freed_after_the_tree -t 4
	finish one
	expect_failure 70 'keeper'
}

@test "keeper SIGKILLed: the lock is released though the tree took its time to end" {
	start_tree one yes -t 30 --grace 4
	kill -KILL $one_keeper
	stays 3000 is_held x
	freed_after_the_tree -t 5
	finish one
	expect_failure 70 'keeper'
}

@test "front and keeper SIGKILLed: COMMAND dies, the lock is free at its TTL and not before" {
	start one dlock -t 3 x sh -c 'echo $$ >command; exec sleep 300'
	wait_until is_file command
	local keeper
	keeper=$(parent_of "$(<command)")
	local expires
	# Neither is to see the other's end: that would be a case for its survivor. The keeper's
	# comes first, because a stopped group whose parent dies is continued (setpgid(2)).
	kill -STOP $one_pid "$keeper"
	wait_until is_stopped $one_pid
	wait_until is_stopped "$keeper"
	kill -KILL "$keeper" $one_pid
	expires=$(expiry_of lock:x)
	wait_until -t 1 is_gone "$(<command)"
	assert is_held x
	try dlock -n x echo too early
	assert_equal "$status$out" 1
	try dlock -w 10 x date +%s%3N
	assert_equal "$status" 0 status
	assert_between "$out" "$expires" $((expires + 1500 * TEST_PATIENCE)) 'the next start'
	finish one
}

@test "COMMAND SIGKILLed: 137, and the lock is released" {
	begin_holder one x
	kill -KILL $one_command
	finish one
	expect 137
	assert is_free x
}

# A dlock whose request the server does not answer yet: asking_keeper is its keeper.
start_asking() {
	dlock x true # so that the server knows the scripts, and grants by the first request
	server_stop
	start one dlock "$@" x touch ran
	wait_until has_child $one_pid
	asking_keeper=$(children_of $one_pid)
}

children_of() { cat "/proc/$1/task/$1/children"; }
has_child() { [[ $(children_of "$1" 2>/dev/null) ]]; }

@test "keeper SIGKILLed while the request is on its way: exit 70, and what it granted is released" {
	start_asking
	kill -KILL $asking_keeper
	server_continue
	finish one
	expect_failure 70 'keeper'
	wait_until -t 2 is_free x
	refute_file ran
}

@test "front SIGKILLed while the request is on its way: COMMAND not run, the grant released" {
	start_asking
	kill -KILL $one_pid
	wait_until is_gone $one_pid # an answer that comes sooner meets a front that is not dead yet
	server_continue
	wait_until is_gone $asking_keeper
	assert is_free x
	refute_file ran
	finish one
}

@test "keeper SIGSTOPped while the request is on its way: -w is kept, the grant released" {
	start_asking -w 2
	local began
	began=$(now_ms)
	kill -STOP $asking_keeper
	server_continue
	finish one
	assert_between "$(($(now_ms) - began))" 1000 $((4000 * TEST_PATIENCE)) ms
	refute [ "$status" = 0 ]
	refute_file ran
	wait_until -t 2 is_free x
}

@test "a grant that comes when it is valid no longer is not used: another is asked for" {
	dlock x true # so that the server knows the scripts, and the first request is the one
	server_stop
	start one dlock -t 2 -w 4.5 x sh -c 'sleep 1.5; echo ran'
	stays 3000 is_alive $one_pid
	server_continue
	finish one
	expect 0 ran
	assert is_free x
}

# A debugger that has PID, to its end and after it, until ./detach is there.
debug() {
	cat >debugger.py <<-'END'
		import ctypes, os, sys, time
		libc = ctypes.CDLL(None, use_errno=True)
		if libc.ptrace(0x4206, int(sys.argv[1]), None, None) != 0:  # PTRACE_SEIZE
		    sys.exit(os.strerror(ctypes.get_errno()))
		open("attached", "w").write("x")
		while not os.path.exists("detach"):
		    try:
		        stop = os.waitid(os.P_PID, int(sys.argv[1]), os.WSTOPPED | os.WNOHANG)
		        if stop:
		            libc.ptrace(7, int(sys.argv[1]), None, stop.si_status)  # PTRACE_CONT
		    except ChildProcessError:
		        pass
		    time.sleep(0.01)
	END
	start debugger "$PYTHON" debugger.py "$1"
	wait_until is_file attached
}

# So far the debugger alone may reap it.
is_kept_zombie() { [[ $(proc_state "$1") == Z ]]; }

@test "COMMAND has ended, its debugger has not reaped it: its code is returned, the lock is free" {
	needs trace
	start one dlock --once id x bash -c 'echo $$ >command; until [[ -e end ]]; do sleep 0.02; done; exit "$(<end)"'
	wait_until is_file command
	debug "$(<command)"
	echo 7 >end.new && mv end.new end
	finish one
	expect 7
	assert is_free x
	assert is_kept_zombie "$(<command)"
	touch detach
	finish debugger
	assert_equal "$status" 0 "$err"
}

@test "what COMMAND left has ended, but its debugger has not reaped it: it keeps no lock" {
	needs trace
	start one dlock x bash -c '(echo $BASHPID >left; until [[ -e end ]]; do sleep 0.02; done) >/dev/null 2>&1 &
		until [[ -e attached ]]; do sleep 0.02; done; touch end
		until [[ $(sed "s/.*) //" /proc/$(<left)/stat) == Z* ]]; do sleep 0.02; done; exit 3'
	wait_until is_file left
	debug "$(<left)"
	finish one
	expect 3
	assert is_free x
	assert is_kept_zombie "$(<left)"
	touch detach
	finish debugger
}

@test "COMMAND that a debugger has is stopped when the lock is lost, with nothing left" {
	needs trace
	start one dlock -t 3 --grace 0.2 --report report x bash -c 'trap "" TERM; echo $$ >command; while :; do sleep 0.02; done'
	wait_until is_file command
	debug "$(<command)"
	cli SET lock:x thief PX 60000 >/dev/null
	finish one
	assert_equal "$status" 80 "$err"
	refute_match "$err" 'could not stop'
	assert_equal "$(jq -c .survivors report)" '[]'
	assert_equal "$(taken lock:x)" thief
	touch detach
	finish debugger
}

# ---- Stopped -------------------------------------------------------------------------------------

@test "keeper SIGSTOPped past the validity: COMMAND stopped in time, exit 80" {
	start_tree one yes -t $((3 * TEST_PATIENCE))
	kill -STOP $one_keeper
	# What is there now may be extended by no one any more.
	local expires
	expires=$(expiry_of lock:x)
	wait_until all_gone $one_command $sleepers
	assert_between "$(($(now_ms) - expires))" $((-3000 * TEST_PATIENCE)) -1 "the tree's end, in ms from the end of the lock"
	finish one
	expect_failure 80 'lost|stop'
}

@test "front SIGSTOPped past the TTL: COMMAND goes on under its lock, and ends as it ends" {
	begin_holder one x -t $((2 * TEST_PATIENCE))
	kill -STOP $one_pid
	local token
	token=$(cli GET lock:x)
	stays $((4500 * TEST_PATIENCE)) owner_is x "$token"
	assert is_alive $one_command
	kill -RTMIN $one_command
	wait_until is_free x
	kill -CONT $one_pid
	finish one
	expect 0
}

@test "COMMAND SIGSTOPped past the TTL: the lock stays held" {
	begin_holder one x -t $((2 * TEST_PATIENCE))
	kill -STOP $one_command
	local token
	token=$(cli GET lock:x)
	stays $((4500 * TEST_PATIENCE)) owner_is x "$token"
	kill -CONT $one_command
	let_go one
	assert_equal "$status" 0
}

@test "COMMAND SIGSTOPped when the lock is lost: it is killed while stopped" {
	start one dlock -t 3 x sh -c 'echo $$ >command; exec sleep 300'
	wait_until is_file command
	kill -STOP "$(<command)"
	wait_until is_stopped "$(<command)"
	cli SET lock:x thief PX 60000 >/dev/null
	wait_until -t 5 is_gone "$(<command)"
	# dlock may have stopped along with it
	kill -CONT $one_pid 2>/dev/null || true
	finish one
	assert_equal "$status" 80
	assert_equal "$(taken lock:x)" thief
}

# ---- What COMMAND leaves behind ------------------------------------------------------------------

@test "descendants keep the lock without -o: dlock returns with COMMAND's code and names them" {
	try dlock -t $((2 * TEST_PATIENCE)) x sh -c 'sleep 300 >/dev/null 2>&1 & echo $! >child; exit 7'
	assert_equal "$status$out" 7
	assert_between "$took" 0 $((3000 * TEST_PATIENCE)) 'ms until it returned'
	assert_match "$err" "^dlock: x: [^"$'\n'"]*\b$(<child)\b[^"$'\n'"]*\$"
	local token
	token=$(cli GET lock:x)
	assert test -n "$token"
	# Renewed, not just not yet expired.
	stays $((4500 * TEST_PATIENCE)) owner_is x "$token"
	try dlock -n x echo no
	assert_equal "$status$out" 1
	kill "$(<child)"
	wait_until -t 2 is_free x
}

@test "a pipe around dlock ends with COMMAND and its descendants' own copies, not with the keeper" {
	local out
	out=$(timeout 10 sh -c 'dlock -t 2 x sh -c "sleep 300 >/dev/null 2>&1 & echo \$! >child; echo text"' 2>err)
	assert_equal "$out" text
	assert is_held x
	kill "$(<child)"
	wait_until is_free x
}

@test "a deep descendant, in a session of its own, with its parents gone, keeps the lock too" {
	try dlock x sh -c '(setsid sh -c "echo \$\$ >child; exec sleep 300" >/dev/null 2>&1 &) & wait
		until [ -s child ]; do sleep 0.02; done'
	assert_equal "$status$out" 0
	assert_match "$err" "$(<child)"
	assert is_held x
	assert is_alive "$(<child)"
	kill "$(<child)"
	wait_until -t 2 is_free x
}

@test "the lock stays to the last of several descendants" {
	try dlock x sh -c 'sleep 300 >/dev/null 2>&1 & echo $! >a; sleep 300 >/dev/null 2>&1 & echo $! >b'
	assert_equal "$status" 0
	assert_match "$err" "$(<a)"
	assert_match "$err" "$(<b)"
	assert_equal "$(wc -l <try.err)" 1 'lines on stderr'
	kill "$(<a)"
	wait_until is_gone "$(<a)"
	try dlock -w 0.5 x echo no
	assert_equal "$status$out" 1
	kill "$(<b)"
	wait_until -t 2 is_free x
}

@test "-o gives the lock back when COMMAND ends, and leaves its descendants alone" {
	try dlock -o x sh -c 'sleep 300 >/dev/null 2>&1 & echo $! >child; exit 7'
	assert_equal "$status$out$err" 7
	assert is_free x
	try dlock -n x echo next
	expect 0 next
	assert is_alive "$(<child)"
	kill "$(<child)"
}

@test "the lock that descendants hold is lost: they are stopped" {
	try dlock -t 3 x sh -c 'sleep 300 >/dev/null 2>&1 & echo $! >child; exit 0'
	assert_equal "$status" 0
	cli SET lock:x thief PX 60000 >/dev/null
	wait_until -t 5 is_gone "$(<child)"
	assert_equal "$(taken lock:x)" thief
}

@test "zombies that COMMAND leaves are not descendants that live" {
	try dlock x sh -c 'sh -c "true & exec sleep 0.2" & exit 0'
	assert_equal "$status" 0
	wait_until -t 3 is_free x
}

# ---- Lost, or not to be proved -------------------------------------------------------------------

# Waits for a renewal of x, and prints when the server will let the lock go (ms since 1970).
just_renewed() {
	local before now
	before=$(expiry_of lock:x)
	now=$before
	local limit=$(($(now_ms) + 20000))
	while [[ $now == "$before" ]]; do
		(($(now_ms) < limit)) || fail 'no renewal came' || return 1
		now=$(expiry_of lock:x)
	done
	echo "$now"
}

# A COMMAND that writes when it got TERM (ms since 1970), and goes on. It starts nothing for that: a
# process that is new in a tree that is being stopped gets TERM as well.
write_stubborn() {
	cat >stubborn <<-'END'
		#!/bin/bash
		exec 2>/dev/null
		trap 'now=${EPOCHREALTIME/./}; echo ${now::-3} >termed' TERM
		trap 'now=${EPOCHREALTIME/./}; echo ${now::-3} >inted' INT
		echo $$ >command
		while :; do sleep 0.02; done
	END
	chmod +x stubborn
}

@test "renewal comes in time: every third of the TTL, never by the last third" {
	begin_holder one x -t 3
	local limit least=9999 now
	limit=$(($(now_ms) + 4000))
	while (($(now_ms) < limit)); do
		now=$(cli PTTL lock:x)
		((now < least)) && least=$now
	done
	assert_between "$least" $((1300 - 100 * (TEST_PATIENCE - 1))) 2400 'the least PTTL seen, with a renewal each 1000 ms or somewhat sooner'
	let_go one
}

@test "server SIGSTOPped during the hold: stop signal and SIGKILL in time, before the lock ends" {
	write_stubborn
	start one dlock -t 4 --grace 1 x ./stubborn
	wait_until is_file command
	local expires
	expires=$(just_renewed)
	server_stop
	wait_until is_gone "$(<command)"
	local ended
	ended=$(now_ms)
	# valid for 90 % of 4000 ms; SIGKILL 250 ms before the end of that, TERM 1000 before SIGKILL
	assert_between "$(($(<termed) - expires))" -1760 $((-1350 + 300 * (TEST_PATIENCE - 1))) 'TERM, in ms from the end of the lock'
	assert_between "$((ended - expires))" -760 $((-300 + 90 * (TEST_PATIENCE - 1))) "COMMAND's end, in ms from the end of the lock"
	finish one
	assert_equal "$status$out" 80
	assert_equal "$(grep -vc '^dlock: x: ' one.err || true)" 0 'lines that are not dlock'"'"'s'
	assert_match "$(last_line one.err)" 'cannot be proved|lost'
	assert_between "$(($(now_ms) - ended))" 0 $((4000 * TEST_PATIENCE)) 'ms for the release'
	server_continue
	wait_until is_free x
}

@test "server SIGSTOPped for less than that: COMMAND goes on, nothing is lost" {
	begin_holder one x -t 5
	local token
	token=$(cli GET lock:x)
	server_stop
	sleep 2
	server_continue
	assert_equal "$(cli GET lock:x)" "$token"
	wait_until is_quiet $one_command
	just_renewed >/dev/null
	assert_equal "$(cli GET lock:x)" "$token"
	let_go one
	assert_equal "$status" 0
}

@test "server killed during the hold: the whole tree stopped before the lock would end, exit 80" {
	start_tree one yes -t $((6 * TEST_PATIENCE))
	local expires
	expires=$(just_renewed)
	server_end "$SERVER"
	wait_until all_gone $one_command $sleepers
	# A tenth of the TTL before, and 250 ms. The keeper counts from when it sent the renewal, the server from when that
	# came: on a busy machine 40 ms lay between.
	assert_between "$(($(now_ms) - expires))" $((-600 * TEST_PATIENCE - 260 - 50 * TEST_PATIENCE)) -1 \
		"the tree's end, in ms from the end of the lock"
	finish one
	assert_equal "$status$out" 80
	assert_match "$err" '^dlock: x: '
}

@test "the stop signal ends COMMAND in peace where it can, with exit 80 nevertheless" {
	start one dlock -t 3 x sh -c 'trap "echo cleaned >cleaned; exit 0" TERM
		echo $$ >command; while :; do sleep 0.05; done'
	wait_until is_file command
	server_end "$SERVER"
	finish one
	assert_equal "$status" 80
	assert_file cleaned cleaned
}

@test "--stop-signal: that one comes, and TERM does not" {
	write_stubborn
	start one dlock -t 3 --stop-signal INT x ./stubborn
	wait_until is_file command
	cli SET lock:x thief PX 60000 >/dev/null
	finish one
	assert_equal "$status" 80
	assert is_file inted
	refute_file termed
	cli DEL lock:x
}

@test "server restarted empty: the lock is set again within a second, and COMMAND goes on" {
	begin_holder one x -t 30
	local token fence
	token=$(cli GET lock:x)
	fence=$(cli HGET "$(meta_of x)" fence)
	server_end "$SERVER"
	server_again "$SERVER"
	wait_until -t 2 is_held x
	assert_equal "$(cli GET lock:x)" "$token" 'the owner'
	assert_equal "$(cli HGET "$(meta_of x)" fence)" "$fence" 'the fence'
	assert is_alive $one_command
	let_go one
	assert_equal "$status$out" 0
	assert_match "$(last_line one.err)" '^dlock: x: .*set again'
	assert is_free x
	try dlock x sh -c 'echo $DLOCK_FENCE'
	((out > fence)) || fail "fence $out after $fence"
}

@test "FLUSHALL during the hold: set again at the next renewal" {
	begin_holder one x -t 2
	local token
	token=$(cli GET lock:x)
	cli FLUSHALL >/dev/null
	wait_until -t 2 is_held x
	assert_equal "$(cli GET lock:x)" "$token" 'the owner'
	let_go one
	assert_equal "$status" 0
	assert_match "$err" 'again'
}

@test "a bare DEL of the key: set again, for nobody came between" {
	begin_holder one x -t 2
	local token
	token=$(cli GET lock:x)
	cli DEL lock:x >/dev/null
	wait_until -t 2 is_held x
	assert_equal "$(cli GET lock:x)" "$token" 'the owner'
	let_go one
	assert_equal "$status" 0
}

@test "DEL, then another dlock was in between and has gone: lost, exit 80, not set again" {
	start one dlock -t $((3 * TEST_PATIENCE)) x sh -c 'echo $$ >command; exec sleep 300'
	wait_until is_file command
	cli DEL lock:x >/dev/null
	try dlock -n x true # before the next renewal
	expect 0
	finish one
	assert_equal "$status" 80
	assert is_free x
}

@test "server restarted empty and another client got in first: COMMAND stopped, 80, its lock kept" {
	start_tree one no -t 5
	server_end "$SERVER"
	# The thief is there before any client can be.
	own_server other
	redis-cli -s "$PWD/other/socket" SET lock:x thief PX 60000
	redis-cli -s "$PWD/other/socket" SAVE
	server_end other
	cp other/dump.rdb "$SERVER"
	server_again "$SERVER"
	rm "$SERVER/dump.rdb"
	wait_until all_gone $one_command $sleepers
	finish one
	assert_equal "$status$out" 80
	assert_equal "$(taken lock:x)" thief
}

@test "a thief on the key: stop signal at the next renewal, SIGKILL after the grace, exit 80" {
	write_stubborn
	start one dlock -t 4 --grace 0.5 x ./stubborn
	wait_until is_file command
	cli SET lock:x thief PX 60000 >/dev/null
	wait_until is_file termed
	wait_until is_gone "$(<command)"
	assert_between "$(($(now_ms) - $(<termed)))" 350 $((1500 * TEST_PATIENCE)) 'ms from TERM to the end'
	finish one
	expect_failure 80 'lost'
	assert_equal "$(taken lock:x)" thief
}

@test "lost as seen only at the release: exit 80, the thief's key untouched" {
	try dlock x sh -c 'redis-cli -s "${DLOCK_SERVER#unix://}" SET lock:x thief PX 60000; exit 0'
	assert_equal "$status$out" 80OK
	assert_match "$err" '^dlock: x: [^'$'\n'']*lost[^'$'\n'']*$'
	assert_equal "$(taken lock:x)" thief
}

@test "--on-lost warn: COMMAND goes on to its end, with a warning" {
	start one dlock -t $((2 * TEST_PATIENCE)) --on-lost warn x sh -c 'echo >running; until [ -e end ]; do sleep 0.05; done; echo whole'
	wait_until is_file running
	cli SET lock:x thief PX 60000 >/dev/null
	wait_until file_has one.err 'lost'
	# Past the end of what was valid.
	stays $((2500 * TEST_PATIENCE)) is_alive $one_pid
	touch end
	finish one
	assert_equal "$out" whole
	assert_equal "$(taken lock:x)" thief
}

@test "the release cannot be sent: COMMAND's exit code, a warning, two seconds at most" {
	begin_holder one x
	server_end "$SERVER"
	local began
	began=$(now_ms)
	kill -RTMIN $one_command
	finish one
	assert_between "$(($(now_ms) - began))" 0 $((2800 * TEST_PATIENCE)) 'ms until dlock ended'
	assert_equal "$status$out" 0
	assert_match "$(last_line one.err)" '^dlock: x: could not release the lock'
}

@test "the release is not answered: COMMAND's exit code, a warning, two seconds at most" {
	dlock x true # so that the server knows the scripts
	start one dlock x sh -c 'echo $$ >command; until [ -e end ]; do sleep 0.02; done; exit 9'
	wait_until is_file command
	server_stop
	local began
	began=$(now_ms)
	touch end
	finish one
	assert_between "$(($(now_ms) - began))" 1500 $((2800 * TEST_PATIENCE)) 'ms until dlock ended'
	expect_failure 9 'could not release the lock'
	server_continue
	wait_until is_free x
}

@test "the connection is cut during the hold: reconnected, renewed, released" {
	begin_holder one x -t $((6 * TEST_PATIENCE))
	local token
	token=$(cli GET lock:x)
	cli CLIENT KILL TYPE normal SKIPME yes >/dev/null
	just_renewed >/dev/null
	assert_equal "$(cli GET lock:x)" "$token" 'the owner'
	cli CLIENT KILL TYPE normal SKIPME yes >/dev/null
	let_go one
	assert_equal "$status$out" 0
	assert is_free x
}

@test "scripts flushed during the hold: renewal and release go through" {
	begin_holder one x -t 2
	cli SCRIPT FLUSH >/dev/null
	just_renewed >/dev/null
	cli SCRIPT FLUSH >/dev/null
	let_go one
	expect 0
	assert is_free x
}

has_its_list() { find "/proc/$1/fd" -lname '*/children' | grep -q .; } # PID
is_traced() { [[ $(proc_status "$1" TracerPid) != 0 ]]; }          # PID

@test "what COMMAND left ends, and the keeper, while the front looks: COMMAND's exit code" {
	unleaked start a dlock x sh -c ': >started; until [ -e go ]; do sleep 0.02; done; sleep 0.3 & kill -KILL $$'
	wait_until test -e started
	wait_until has_its_list "$a_pid" # it opens nothing else until then
	strace -qq -e signal=none -e trace=openat -e inject=openat:delay_enter=1500000:when=1 -o trace -p "$a_pid" &
	wait_until is_traced "$a_pid"
	: >go
	finish a
	expect 137 '' "$err"
	assert_match "$err" '^dlock: x: the lock stays with what COMMAND left running: [0-9]+$'
	file_has trace '/stat"' || fail "$(<trace)"
}

@test "the keeper is killed, COMMAND's tree takes the whole grace to end: the lock is released" {
	start one dlock -t 60 --grace 3s x bash -c 'bash -c "trap \"\" TERM; echo \$\$ >stubborn; while :; do sleep 0.1; done" & echo $PPID >keeper; wait'
	wait_until is_file stubborn
	wait_until is_file keeper
	kill -KILL "$(<keeper)"
	wait_until is_gone "$(<stubborn)"
	finish one
	assert_equal "$status" 70
	assert is_free x
}
