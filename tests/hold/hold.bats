# dlock hold and dlock release NAME: the lock for the rest of a script, in three shells.

load ../lib/helper
load ../lib/waiters

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

readonly SHELLS='bash dash zsh'

# write FILE <<SCRIPT: with `await FILE`, which waits for it, and the script's pid in ./script.
write() {
	{
		echo 'await() { until [ -e "$1" ]; do sleep 0.02; done; }'
		echo 'echo $$ >script.new && mv script.new script'
		cat
	} >"$1"
}

# The keepers of this test's scripts.
keepers() {
	local one
	for one in $(marked_pids); do
		if [[ $(proc_status "$one" Name) == "dlock hold" ]] && is_alive "$one"; then
			echo "$one"
		fi
	done
}

one_keeper() { [[ $(keepers | wc -l) == 1 ]]; }
no_keepers() { [[ -z $(keepers) ]]; }

# Whether a process that is not one of the script's could have the lock.
is_taken() { ! dlock -qn "$1" true; }

# clean: everything that a test which repeats itself must not find again.
clean() {
	wait_until nothing_runs
	rm -f script go on done ready ./*.txt
}

# in_each_shell FUNCTION: with the shell's name. Not in a condition, where a failure would not end it.
in_each_shell() {
	local shell
	for shell in $SHELLS; do
		echo "in $shell"
		"$1" "$shell"
		clean
	done
}

# ---- How it is called ----------------------------------------------------------------------------

plain() {
	start one "$1" plain
	wait_until is_file ready
	assert_equal "$(<ready)" 0 "its exit code"
	assert is_taken x
	assert_equal "$(dlock status --json x | jq -c '.[0].holders[0] | [.pid, .label, .detached]')" \
		"[$(<script),\"$1\",false]"
	touch go
	finish one
	expect 0 end
	wait_until is_free x
}

@test "held until the script's end, and shown as the script's" {
	write plain <<-'END'
		dlock hold x || exit
		echo $? >ready.new && mv ready.new ready
		await go
		echo end
	END
	in_each_shell plain
}

busy() {
	try "$1" busy
	expect 1 '' "$err"
	assert_match "$err" '^dlock: x: busy: held by [^ ]+ \(tester, witness\) for [^ ]+$'
	try "$1" late
	expect 7 '' "$err"
	assert_match "$err" '^dlock: x: busy after 100ms: held by '
	refute_file ran
}

@test "busy: exit 1 and one line, and || exit ends the script" {
	begin_holder holder x
	write busy <<-'END'
		dlock hold -n x || exit
		touch ran
	END
	write late <<-'END'
		set -e
		dlock hold -w 100ms -E 7 x
		touch ran
	END
	local shell
	for shell in $SHELLS; do
		echo "in $shell"
		busy "$shell"
	done
	let_go holder
}

@test "waits for its turn" {
	begin_holder holder x
	write script.sh <<-'END'
		set -e
		dlock hold x
		touch ready
		await go
	END
	start one dash script.sh
	wait_until status_shows_waiters 1
	refute_file ready
	let_go holder
	wait_until test -e ready
	assert is_taken x
	touch go
	finish one
	expect 0
}

status_shows_waiters() { [[ $(dlock status --json x | jq '.[0].waiting') == "$1" ]]; }

substitution() {
	start one "$1" substitution
	finish one
	expect 0 "a= b=then c=inner"
}

@test "in \$( ), which ends at once, for the shell that reads it" {
	write substitution <<-'END'
		set -e
		a=$(dlock hold a)
		b=$(true; dlock hold b || exit 5; echo then)
		c=$( (true; dlock hold c || exit 5; echo inner) )
		for name in a b c; do
			dlock status -q $name
		done
		echo "a=$a b=$b c=$c"
	END
	in_each_shell substitution
}

subshell() {
	start one "$1" subshell
	finish one
	expect 0 ""
	assert_file seen.txt "within
after"
}

@test "in ( ), for the subshell" {
	write subshell <<-'END'
		( dlock hold x || exit; dlock status -q x && echo within >seen.txt )
		while dlock status -q x; do sleep 0.02; done
		echo after >>seen.txt
	END
	in_each_shell subshell
}

pipeline() {
	start one "$1" pipeline
	finish one
	expect 0 ""
	assert_file seen.txt "a is held
b is held
b is free
c is held
c is free"
}

@test "in a pipeline, which ends when its commands do; each part of it holds for itself" {
	write pipeline <<-'END'
		say() { if dlock status -q $1; then echo $1 is held; else echo $1 is free; fi >>seen.txt; }
		dlock hold a | cat
		say a
		{ dlock hold b || exit; say b; } | cat
		while dlock status -q b; do sleep 0.02; done
		say b
		( dlock hold c || exit; say c ) | while read -r line; do echo "$line"; done
		while dlock status -q c; do sleep 0.02; done
		say c
	END
	in_each_shell pipeline
}

@test "a dlock inside has ended just before the release: the lock does not stay for it" {
	needs trace
	cat >script <<-'END'
		dlock hold -n x || exit
		dlock -n x sh -c 'echo $$ >inside; until [ -e go ]; do sleep 0.02; done'
		dlock release x
	END
	start one dash script
	wait_until is_file inside
	local one keeper=
	for one in $(marked_pids); do # of this test, as others may run beside it
		[[ $(tr '\0' ' ' <"/proc/$one/cmdline") != 'dlock hold -n x ' ]] || keeper=$one
	done
	# It wakes, and before it comes to look further the one inside has ended, and the release is asked for.
	start tracer strace -qq -e signal=none -e trace=read -e inject=read:delay_exit=1000000 -o trace -p "$keeper"
	wait_until is_traced "$keeper"
	kill -CONT "$keeper"
	wait_until is_stopped "$keeper"
	: >go
	finish one
	expect 0
	kill "$tracer_pid" 2>/dev/null || true
	finish tracer
	wait_until is_free x
}

is_traced() { [[ $(proc_status "$1" TracerPid) != 0 ]]; } # PID

# zsh sleeps between the parts of a pipeline that it builds, with both ends of it open.
@test "in a pipeline that is still being built: not for the shell that builds it" {
	cat >shell <<-'END'
		import os, time
		reading, writing = os.pipe()
		waiting, ready = os.pipe()
		if os.fork() == 0:  # a part that prints
		    os.dup2(writing, 1)
		    os.close(reading)
		    os.close(ready)
		    print(os.getpid(), file=open("part.txt", "w"), flush=True)
		    code = os.spawnlp(os.P_WAIT, "dlock", "dlock", "hold", "x")
		    os.system("dlock status --json x >seen.txt")
		    os._exit(code)
		if os.fork() == 0:  # the next, which takes its time once dlock runs
		    while os.system("test -s part.txt && pgrep -x dlock -P $(cat part.txt) >/dev/null || test -e seen.txt") != 0:
		        time.sleep(0.01)
		    time.sleep(0.15)
		    os._exit(0)
		os.close(writing)
		os.close(ready)
		os.read(waiting, 1)
		os.close(reading)
		os.wait()
		os.wait()
	END
	start one "$PYTHON" shell
	finish one
	expect 0
	assert_equal "$(jq '.[0].holders[0].pid' seen.txt)" "$(<part.txt)"
	wait_until is_free x
}

# As cron and CI do: one reader gets all that a script prints.
@test "a script whose output is read by the one that runs it: held for the script alone" {
	write inner <<-'END'
		(true; dlock hold x || exit; dlock status --json x >status.txt)
		dlock hold y || exit 5
		dlock status --json y >status2.txt
		cat /dev/null
		sh -c 'echo said; sleep 300' &
		await go
	END
	cat >runner <<-'END'
		import subprocess
		said = subprocess.run(["dash", "inner"], stdout=subprocess.PIPE)
		print(said.returncode, flush=True)
	END
	start one "$PYTHON" runner
	wait_until is_file status2.txt
	assert_equal "$(jq '.[0].holders[0].pid' status2.txt)" "$(<script)"
	refute [ "$(jq '.[0].holders[0].pid' status.txt)" = "$one_pid" ]
	refute [ "$(jq '.[0].holders[0].pid' status.txt)" = "$(<script)" ]
	cli SET lock:y thief PX 100000 >/dev/null
	for_renewal
	finish one
	expect 0 -15 "$err"
	cli DEL lock:y
}

# Makes every keeper renew at once.
for_renewal() { cli CLIENT KILL TYPE normal SKIPME yes >/dev/null; }

@test "whose parent has ended already, is told to name the process" {
	cat >lone <<-'END'
		import os, subprocess, time
		parent = os.getpid()
		if os.fork() == 0:
		    while os.getppid() == parent:
		        time.sleep(0.01)
		    os.execvp("dlock", ["dlock", "hold", "x"])
	END
	start one "$PYTHON" lone
	finish one
	wait_until file_has one.err .
	assert_match "$(<one.err)" '^dlock: x: cannot tell which process is to hold the lock: name it by --pid$'
	assert is_free x
}

# ---- What stays ----------------------------------------------------------------------------------

@test "the keeper keeps nothing of the caller's: no descriptor, no folder, no session, no group" {
	mkfifo pipe
	write script.sh <<-'END'
		exec 7>file 8<>pipe
		dlock hold x 9>other || exit
		touch ready
		await go
	END
	start one bash script.sh
	wait_until test -e ready
	local keeper
	keeper=$(keepers)
	find "/proc/$keeper/fd" -type l -printf '%l\n' | sort -u |
		grep -vE '^(anon_inode:.*|socket:.*|/dev/null|/proc|/memfd:dlock lease.*)$' >kept || true
	assert_file kept ""
	assert_equal "$(readlink "/proc/$keeper/cwd")" /
	refute [ "$(ps -o sid= -p "$keeper")" = "$(ps -o sid= -p "$one_pid")" ]
	# The server's, the one that the script may ring, and the one for guests.
	assert_equal "$(find "/proc/$keeper/fd" -lname 'socket:*' | wc -l)" 3
	touch go
	finish one
	wait_until is_gone "$keeper"
}

@test "the shell is killed: the lock is released, what it left runs on" {
	local shell
	write script.sh <<-'END'
		sleep 300 &
		echo $! >ready
		dlock hold x || exit
		await go
	END
	for shell in $SHELLS; do
		start one "$shell" script.sh
		wait_until is_held x
		kill -KILL $one_pid
		wait_until -t 2 is_free x
		assert is_alive "$(<ready)"
		kill -KILL "$(<ready)"
		clean
	done
}

@test "--at-least outlives the script" {
	write script.sh <<-END
		dlock hold --at-least $((1500 * TEST_PATIENCE))ms x || exit
	END
	try dash script.sh
	expect 0
	wait_until no_keepers
	assert is_held x
	wait_until is_free x
}

@test "a success of the script is not one of a COMMAND" {
	write script.sh <<-'END'
		dlock hold x || exit
	END
	try dash script.sh
	wait_until is_free x
	try dlock --cooldown 1h x echo ran
	expect 0 ran
}

@test "the keeper is killed: the script goes on, the lock frees itself" {
	write script.sh <<-'END'
		dlock hold -t 1 x || exit
		touch ready
		await go
		echo end
	END
	start one dash script.sh
	wait_until test -e ready
	kill -KILL "$(keepers)"
	wait_until -t 3 is_free x
	assert is_alive $one_pid
	touch go
	finish one
	expect 0 end
}

# trapped SIGNAL: a script that holds x, in which that signal was trapped.
write_trapped() {
	write trapped <<-'END'
		trap "echo $1 >>traps" $1
		dlock hold x || exit
		touch ready
		await go
		dlock status -q x && echo held
	END
}

@test "TERM, INT, HUP, QUIT to the keeper go to the script, once each; the lock stays to its end" {
	write_trapped
	local sig
	for sig in TERM INT HUP QUIT; do
		start one bash trapped $sig
		wait_until test -e ready
		local keeper
		keeper=$(keepers)
		kill -$sig "$keeper"
		wait_until is_file traps
		wait_until is_quiet "$keeper"
		kill -$sig "$keeper"
		wait_until file_has_lines traps 2
		wait_until is_quiet "$keeper"
		stays 300 is_taken x
		touch go
		finish one
		expect 0 held
		assert_file traps "$sig"$'\n'"$sig"
		wait_until is_free x
		rm traps
		clean
	done
}

file_has_lines() { [[ $(wc -l <"$1") == "$2" ]]; }

@test "a signal to the keeper ends a script that does not trap it, and with that the lock" {
	write script.sh <<-'END'
		dlock hold x || exit
		touch ready
		await go
	END
	start one dash script.sh
	wait_until test -e ready
	kill -TERM "$(keepers)"
	finish one
	assert_equal "$status" 143
	wait_until is_free x
}

@test "a signal for the whole job that comes while it waits is not passed on to the script later" {
	begin_holder holder x
	write script.sh <<-'END'
		trap 'echo trapped >>traps' USR1 INT
		dlock hold x; echo $?
	END
	start one bash script.sh
	wait_until status_shows_waiters 1
	kill -INT -- -$one_pid
	finish one
	assert_file traps trapped
	expect 0 130 "$err"
	let_go holder
}

# A subreaper of the script's own session, which lives on when the script has ended.
write_adopter() {
	cat >adopter <<-'END'
		import ctypes, os, subprocess, sys, time
		ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
		subprocess.run(["sh", "-c", sys.argv[1]])
		while not os.path.exists("go"):
		    time.sleep(0.02)
	END
}

@test "its caller has ended before it looks: 64, nothing is held for the one that adopted it" {
	write_adopter
	local i
	for i in {1..20}; do
		start one "$PYTHON" adopter \
			'(while kill -0 $$ 2>/dev/null; do sleep 0.01; done; exec dlock hold -n x 2>said) & exit'
		wait_until is_file said
		assert_match "$(<said)" '^dlock: x: cannot tell which process is to hold the lock: name it by --pid$'
		assert is_free x
		touch go
		finish one
		rm said go
	done
}

@test "below a subreaper it is the script that holds, in \$( ) too; a script that is none itself" {
	write_adopter
	write script.sh <<-'END'
		dlock hold x || exit
		y=$( (true; dlock hold y || exit 5; echo inner) ) || exit
		dlock status --json x y | jq -c '[.[].holders[0].pid]' >seen.txt
		await go
	END
	start one "$PYTHON" adopter 'dash script.sh; exit'
	wait_until is_file seen.txt
	assert_file seen.txt "[$(<script),$(<script)]"
	touch go
	finish one
	expect 0
	wait_until is_free x
}

@test "Ctrl-C, Ctrl-Z and a hangup are the script's business" {
	needs terminal
	write script.sh <<-'END'
		trap 'echo trapped' INT
		trap '' HUP
		dlock hold x || exit
		touch ready # only now is Ctrl-C not the wait's
		until [ -e go ]; do sleep 0.05; done
		dlock status -q x && touch done
	END
	python <<-'END'
		import os, subprocess
		from terminal import *
		shell = Shell()
		def held():
		    return subprocess.run(["dlock", "status", "-q", "x"]).returncode == 0
		shell.send("bash script.sh\n")
		wait_until(lambda: os.path.exists("ready"), "the lock")
		check(held(), "held")
		shell.send("\x03")
		shell.expect("trapped")
		check(held(), "held after Ctrl-C")
		shell.send("\x1a")
		shell.expect("Stopped")
		check(held(), "held after Ctrl-Z")
		shell.run("true")
		shell.send("fg\n")
		shell.expect("script.sh")
		shell.hang_up()
		wait_until(lambda: is_gone(shell.pid), "the shell's end")
		check(held(), "held after a hangup")
		open("go", "w").close()
		wait_until(lambda: os.path.exists("done"), "the script's end")
		wait_until(lambda: not held(), "the release")
	END
}

# ---- The lock is lost ----------------------------------------------------------------------------

# A script with a tree, each of which touches a file as long as it runs, and of which all but the first
# ignore TERM. They start nothing for it: it would have ended when KILL came, or, being new in a tree that
# is being stopped, got TERM.
write_stampers() {
	write stampers <<-'END'
		dlock hold -t 3 x || exit
		stamp='while :; do : >$$.stamp; sleep 0.01; done'
		(trap '' TERM; sh -c "$stamp" & exec sh -c "$stamp") &
		sh -c "trap '' TERM; setsid -w sh -c '$stamp'; :" &
		trap ': >termed; exit 3' TERM
		touch ready
		while :; do sleep 0.01; done
	END
}

last_stamp() { date -r "$(ls -t ./*.stamp | head -n 1)" +%s%3N; }
stampers_are() { (($(find . -name '*.stamp' | wc -l) == $1)); }
no_stampers() {
	local pid
	for pid in $(marked_pids); do
		! grep -qs stamp "/proc/$pid/cmdline" || return 1
	done
}

stolen() {
	start one "$1" stampers
	wait_until stampers_are 3
	cli SET lock:x thief PX 100000 >/dev/null
	wait_until no_stampers
	wait_until is_gone "$one_pid"
	finish one
	assert_equal "$(grep -cx 'dlock: x: the lock was lost: somebody else took it, or it was ended; stopping its caller' one.err)" 1
	assert_equal "$(taken lock:x)" thief
	rm -f ./*.stamp
}

@test "a thief: the script and its tree get the stop signal, then KILL; the script hears why" {
	write_stampers
	in_each_shell stolen
}

@test "the server is killed: the script's tree is gone before the lock would have ended" {
	write_stampers
	start one dash stampers
	wait_until stampers_are 3
	local expires
	expires=$(just_renewed)
	server_end "$SERVER"
	wait_until is_gone "$one_pid"
	wait_until no_stampers
	finish one
	assert_equal "$status" 3
	assert_match "$err" 'cannot be proved any longer; stopping its caller'
	assert_between "$(($(date -r termed +%s%3N) - expires))" -1700 $((-1200 + 200 * (TEST_PATIENCE - 1))) "TERM, in ms from the end of the lock"
	assert_between "$(($(last_stamp) - expires))" -900 -1 "the last stamp, in ms from the end of the lock"
	wait_until no_keepers
}

# Waits for a renewal; prints when the lock ends, in ms.
just_renewed() {
	local before now
	before=$(expiry_of lock:x)
	while now=$(expiry_of lock:x) && [[ $now == "$before" ]]; do
		sleep 0.02
	done
	echo "$now"
}

@test "the server stands still while the script is stopped by Ctrl-Z: it never goes on" {
	write_stampers
	start one bash stampers
	wait_until stampers_are 3
	kill -STOP $one_pid
	server_stop
	wait_until is_gone $one_pid
	wait_until no_stampers
	refute_file termed
	server_continue
	finish one
	wait_until no_keepers
	cli DEL lock:x
}

@test "a script that forks without end, deep and in sessions of its own, is gone as a whole" {
	write forks <<-'END'
		trap '' TERM
		dlock hold -t 2 --grace 100ms x || exit
		for i in 1 2 3 4 5 6 7 8; do
			setsid sh -c 'while :; do sh -c : ; sleep 300 & sh -c "exec setsid sleep 0.02"; done' &
		done
		touch ready
		while :; do (sleep 0.01); done
	END
	start one dash forks
	wait_until test -e ready
	cli SET lock:x thief PX 100000 >/dev/null
	wait_until is_gone "$one_pid"
	wait_until nothing_runs
	finish one
	assert_equal "$status" 137
	cli DEL lock:x
}

@test "--on-lost warn: the script goes on, and is told on its standard error of that time" {
	write script.sh <<-'END'
		dlock hold --on-lost warn -t 2 x 2>first || exit
		exec 2>second
		touch ready
		await go
		echo end
	END
	start one dash script.sh
	wait_until test -e ready
	cli SET lock:x thief PX 100000 >/dev/null
	wait_until is_file second
	assert_match "$(<second)" '^dlock: x: the lock was lost; its caller goes on \(--on-lost warn\)$'
	assert_file first ""
	assert is_alive $one_pid
	touch go
	finish one
	expect 0 end
	cli DEL lock:x
}

@test "--stop-signal and --grace count for the script" {
	write script.sh <<-'END'
		trap 'echo usr1; trap "" USR1' USR1
		dlock hold -t 3 --stop-signal USR1 --grace 200ms x || exit
		touch ready
		while :; do sleep 0.02; done
	END
	start one bash script.sh
	wait_until test -e ready
	cli SET lock:x thief PX 100000 >/dev/null
	finish one
	assert_equal "$status $out" "137 usr1"
	cli DEL lock:x
}

# ---- The release ---------------------------------------------------------------------------------

released() {
	start one "$1" released
	wait_until test -e ready
	start next dlock x touch taken.txt
	wait_until status_shows_waiters 1
	touch go
	wait_until test -e on
	assert_file code.txt 0
	finish next
	expect 0
	assert test -e taken.txt
	assert is_alive $one_pid
	touch done
	finish one
	expect 1 '' 'dlock: x: no dlock hold around this process holds it; else give its TOKEN'
}

@test "dlock release inside: when it returns the lock is free, and goes to the next" {
	write released <<-'END'
		dlock hold x || exit
		touch ready
		await go
		(true; dlock release x; echo $? >code.txt; true)
		touch on
		await done
		dlock release x
	END
	in_each_shell released
}

@test "dlock release as a script's last command, which its shell becomes: the lock ends, exit 0" {
	local shell
	for shell in bash dash; do
		try $shell -c 'dlock hold -n x || exit 9; echo held; dlock release x'
		expect 0 held
		try $shell -c '(dlock hold -n x || exit 9; echo held; dlock release x) || exit'
		expect 0 held
		try dlock -n x true
		expect 0
	done
}

@test "dlock release returns no sooner than the lock is free" {
	write script.sh <<-'END'
		for i in 1 2 3 4 5 6 7 8 9 10; do
			dlock hold x || exit 2
			dlock release x || exit 3
			! redis-cli -s "$SERVER/socket" GET lock:x | grep . || exit 4
		done
	END
	try dash script.sh
	expect 0
}

@test "dlock release from outside, or of another NAME: exit 1, and nothing changes" {
	write script.sh <<-'END'
		dlock hold x || exit
		touch ready
		await go
		dlock release y
		echo $?
		dlock --prefix other: release x
		echo $?
		dlock status -q x && echo held
	END
	start one dash script.sh
	wait_until test -e ready
	try dlock release x
	expect_failure 1 '^dlock: x: no dlock hold around this process holds it; else give its TOKEN$'
	assert is_held x
	touch go
	finish one
	expect 0 "1
1
held" "$err"
}

@test "dlock release needs no server; a server that is gone is said" {
	write script.sh <<-'END'
		dlock hold -S "$1" -t 20 x || exit
		touch ready
		await go
		dlock release x
		echo $?
	END
	start one env -u DLOCK_SERVER dash script.sh "$DLOCK_SERVER"
	wait_until test -e ready
	server_end "$SERVER"
	touch go
	finish one
	expect 0 69 "$err"
	assert_match "$(last_line one.err)" '^dlock: x: could not release the lock \(.*\); it frees itself within 20 s$'
}

# ring_often: a bash script that holds x, and calls 40 releases at once when it may go; N.txt gets the
# exit code of the Nth, and what it took (ms).
ring_often() {
	write ringers <<-'END'
		dlock hold x || exit
		ring() {
			local began=${EPOCHREALTIME/[.,]/} code=0
			dlock release x 2>"$1.err" || code=$?
			echo "$code $(((${EPOCHREALTIME/[.,]/} - began) / 1000))" >"$1.txt"
		}
		touch ready
		await go
		for i in {1..40}; do
			ring $i &
		done
		wait
	END
	start one bash ringers
	wait_until test -e ready
}

told() { [[ $(cat ./*.txt 2>/dev/null | wc -l) == "$1" ]]; } # COUNT

@test "dlock release at a keeper that stands still: 40 at once, each is told so within its 10 s" {
	ring_often
	local keeper code ms
	keeper=$(keepers)
	kill -STOP "$keeper"
	touch go
	wait_until -t 14 told 40 || fail "only $(cat ./*.txt | wc -l) of 40 have ended after 14 s"
	while read -r code ms; do
		assert_equal "$code" 70
		assert_between "$ms" 9900 $((10000 + 3000 * TEST_PATIENCE)) ms
	done < <(cat ./*.txt)
	assert_equal "$(sort -u ./*.err)" \
		"dlock: x: its keeper did not answer: it was killed, stands still, or is another user's"
	kill -CONT "$keeper"
	finish one
}

@test "dlock release at a keeper that works: 40 at once, each is answered, or comes too late" {
	ring_often
	touch go
	finish one
	assert told 40
	assert_match "$(cut -d' ' -f1 ./*.txt | sort -u | paste -sd' ')" '^0( 1)?$' "exit codes"
	wait_until is_free x
}

# ---- Inside --------------------------------------------------------------------------------------

reentrant() {
	start one "$1" reentrant
	finish one
	expect 0 "run
function
again 0
still held
from below 0
free"
}

@test "the same lock inside: a run, another hold; one release ends it, however often it was held" {
	write reentrant <<-'END'
		set -e
		dlock hold x
		dlock -n x echo run
		work() { dlock -n x sh -c 'dlock -n x echo function'; }
		work
		dlock hold -n x
		echo again $?
		(dlock hold -n x)
		until ! redis-cli -s "$SERVER/socket" --scan | grep :inner:; do sleep 0.02; done
		dlock status -q x && echo still held
		sh -c 'sh -c "dlock release x"; echo from below $?'
		dlock status -q x || echo free
	END
	in_each_shell reentrant
}

@test "inside a run form: held as well, by one keeper; a release ends that, and the lock stays" {
	cat >script.sh <<-'END'
		dlock hold -n x && dlock hold --print x | grep -c "$DLOCK_TOKEN"
		dlock release x
		echo $?
		dlock status -q x && echo held
		dlock release x
		echo $?
	END
	try dlock x dash script.sh
	expect 0 "1
0
held
1" "dlock: x: the lock stays with the dlock around this one
dlock: x: no dlock hold around this process holds it; else give its TOKEN"
	assert is_free x
}

@test "a script under a script that holds: it holds for itself, its release ends only that" {
	write outer <<-'END'
		dlock hold x || exit
		dash inner || exit
		dlock status -q x && echo still held
	END
	cat >inner <<-'END'
		dlock hold -n x || exit
		dlock release x
		echo $?
	END
	try dash outer
	expect 0 "0
still held" 'dlock: x: the lock stays with the dlock around this one'
	wait_until is_free x
}

@test "a script under a run form: its inner lock is free when that returns, and nothing is said" {
	local i
	for i in 1 2 3 4 5 6; do
		try dlock y sh -c 'dlock hold x; dlock status -q x && echo held; true'
		expect 0 held
		assert is_free x
	done
	# A keeper that is not done soon is what COMMAND leaves running.
	start other sleep 300
	try dlock y dlock hold --pid $other_pid x
	expect 0 '' "$err"
	assert_match "$err" '^dlock: y: the lock stays with what COMMAND left running: [0-9]+$'
	assert is_held y
	kill $other_pid
	wait_until is_free y
	assert is_free x
}

@test "two scripts share, a writer does not get in" {
	write script.sh <<-'END'
		dlock hold -s x || exit
		touch ready$1
		await go
	END
	start one dash script.sh 1
	start two dash script.sh 2
	wait_until test -e ready1 -a -e ready2
	assert is_taken x
	try dlock -s -n x true
	expect 0
	touch go
	finish one
	finish two
	wait_until is_free x
}

# ---- --pid and --print ---------------------------------------------------------------------------

@test "--pid: for any process that may be stopped" {
	start one sleep 300
	wait_until is_called "$one_pid" sleep
	try dlock hold --pid $one_pid x
	expect 0
	assert is_taken x
	assert_equal "$(dlock status --json x | jq -c '.[0].holders[0] | [.pid, .label]')" "[$one_pid,\"sleep\"]"
	kill $one_pid
	wait_until is_free x

	try dlock hold --pid $one_pid x
	expect_failure 64 "^dlock: x: there is no process $one_pid, which was to hold the lock$"
	try dlock hold --pid 1 x
	expect_failure 64 '^dlock: x: process 1 could not be stopped when the lock is lost$'
	try dlock y dlock hold x
	expect_failure 64 '^dlock: x: cannot tell which process is to hold the lock: name it by --pid$'
	local bad
	for bad in 0 -1 x 1.5 '' 99999999999; do
		try dlock hold --pid "$bad" x
		expect_failure 64 '--pid: '
	done
	assert is_free x
}

is_called() { [[ $(proc_status "$1" Name) == "$2" ]]; }

# An odd NAME, as one string of a shell.
readonly ODD="it's \"\$HOME\" \`id\` \\n é *"

printed() {
	try env ODD="$ODD" "$1" printed
	expect 0 "$ODD
$ODD
$ODD"
	wait_until no_keepers
}

@test "--print: what a shell reads, in \$( ), from a file, by another script" {
	write printed <<-'END'
		vars=$(dlock hold --print "$ODD") || exit
		eval "$vars"
		printenv DLOCK_NAME
		[ "$(redis-cli -s "$SERVER/socket" GET "lock:$ODD")" = "$DLOCK_TOKEN" ] || exit 3
		[ "$DLOCK_FENCE" -gt 1700000000000000 ] || exit 4
		unset DLOCK_NAME
		dlock hold --print "$ODD" >file.sh || exit
		. ./file.sh
		printenv DLOCK_NAME
		# The environment alone proves it, where the ancestors do not.
		setsid dlock -n "$ODD" printenv DLOCK_NAME
	END
	in_each_shell printed
}

@test "no process is to be had for the look at its caller: 71, and nothing was asked for" {
	write script.sh <<-'END'
		strace -D -o trace -e trace=clone,clone3,fork -e inject=clone,clone3,fork:error=EAGAIN:when=1 dlock hold x
		echo $?
	END
	unleaked try dash script.sh
	expect 0 71 'dlock: x: cannot fork: Resource temporarily unavailable'
	assert_equal "$(cli DBSIZE)" 0
}

@test "--print that cannot be printed: exit 71, and the lock is released" {
	write script.sh <<-'END'
		dlock hold --print x >/dev/full
		echo $?
		dlock hold --print x >&-
		echo $?
		while dlock status -q x; do sleep 0.02; done
		dlock hold --print --at-least 1h x >/dev/full
		echo $?
	END
	try dash script.sh
	expect 0 "71
71
71" "$err"
	wait_until is_free x
}

@test "the front is ended between the grant and its word to the script: the lock is released" {
	write script.sh <<-'END'
		mkfifo pipe
		exec 7<>pipe
		head -c 65536 /dev/zero >&7
		dlock hold --print x >&7
		echo $? >code.txt
		await go
	END
	local sig
	for sig in TERM KILL; do
		start one dash script.sh
		wait_until one_keeper
		local front
		front=$(cat "/proc/$one_pid/task/$one_pid/children")
		wait_until is_quiet $front
		kill -$sig $front
		wait_until is_file code.txt
		assert_equal "$(<code.txt)" $((128 + $(kill -l $sig)))
		wait_until -t 2 is_free x
		touch go
		finish one
		rm -f pipe
		clean
	done
}

# ---- The wait is in vain -------------------------------------------------------------------------

@test "the script is killed while it waits: its place in the queue is left" {
	begin_holder holder x
	write script.sh <<-'END'
		dlock hold x || exit
	END
	start one dash script.sh
	wait_until status_shows_waiters 1
	kill -KILL $one_pid
	wait_until status_shows_waiters 0
	let_go holder
	assert is_free x
}

@test "the script is killed while the server is away: the wait for it ends, nothing comes later" {
	cli SET lock:x other PX 60000 >/dev/null
	write script.sh <<-'END'
		dlock hold x || exit
	END
	start one dash script.sh
	wait_until status_shows_waiters 1
	local waiter
	waiter=$(tr -d ' ' <"/proc/$one_pid/task/$one_pid/children")
	server_end "$SERVER"
	# It has noticed, and tries again and again.
	wait_until is_cut_off "$waiter"
	stays 500 is_alive "$waiter"
	kill -KILL "$one_pid"
	wait_until is_gone "$waiter"
	assert_match "$(<one.err)" "^dlock: x: process $one_pid, which was to hold the lock, has ended; if the lock was granted all the same, it frees itself within 1m\$"
	server_again "$SERVER"
	stays 300 is_free x
}

@test "a signal while it waits ends it by that signal" {
	begin_holder holder x
	write script.sh <<-'END'
		dlock hold x
		echo $?
	END
	start one dash script.sh
	wait_until status_shows_waiters 1
	kill -TERM "$(cat "/proc/$one_pid/task/$one_pid/children")"
	finish one
	expect 0 143 "$err"
	let_go holder
}

@test "what makes no sense here is refused" {
	local option
	for option in '-c true' -o '--max-run 1' '--once a' '--cooldown 1' '--report f' '--report-fd 2' \
		'--if-unreachable skip' '--also y'; do
		try dlock hold $option x
		assert_equal "$status$out" 64
		assert_match "$err" '^dlock: -*[a-z-]+ is no option of dlock hold'
	done
	try dlock hold x true
	expect_failure 64 "nothing may follow here: 'true'"
	try dlock hold
	expect_failure 64 'no lock NAME given'
	try dlock hold a://b
	expect_failure 64 'URL'
	# A configuration may hold such things for others.
	printf 'cooldown = 1h\nonce = a\nmax-run = 1\nif-unreachable = skip\n' >>config/dlock.conf
	dlock x true
	write script.sh <<-'END'
		dlock hold x || exit
		dlock status -q x && echo held
		dlock hold -S unix:///nowhere y; echo $?
	END
	try dash script.sh
	expect 0 "held
69" "$err"
	cli DEL 'lock:{lock:x}:once:a'
}

@test "flock's fd form points here" {
	try dlock -n 9
	expect_failure 64 'dlock hold'
}
