# The failure table, row by row, as far as processes.bats does not have it: the network swallows, the
# server forgets or is told to, clocks jump, terminals stop the job, and COMMAND's tree is as hard to
# end as a tree can be. Where a second holder is possible, oracle judges by flock(2) (aux/oracle.c).

load helper

setup_file() {
	file_begin
	cc -std=c17 -D_GNU_SOURCE -O1 -shared -fPIC -o "$BATS_FILE_TMPDIR/clock.so" \
		"$BATS_TEST_DIRNAME/aux/clock.c"
}

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

# ---- Clocks --------------------------------------------------------------------------------------

# with_clock COMMAND...: the wall clock that it sees is off by what set_clock says.
with_clock() {
	PATH=$LOADING:$PATH TEST_CLOCK=$PWD/clock LD_PRELOAD=$BATS_FILE_TMPDIR/clock.so "$@"
}

set_clock() { printf '%-8s' "$1" 1<>clock; }

# One hour either way: for the host, nothing happens.
clock_jumps() {
	local by=$1 token
	set_clock 0
	with_clock launch default setsid dlock -t $((2 * TEST_PATIENCE)) x \
		sh -c 'date +%s >seen; echo $$ >command; until [ -e end ]; do date +%s >seen; sleep 0.05; done; exit 5' \
		>one.out 2>one.err </dev/null 3>&- 4>&- &
	one_pid=$!
	wait_until is_file command
	token=$(cli GET lock:x)
	set_clock "$by"
	# It has really jumped, for dlock's own kind of program.
	local here
	here=$(date +%s)
	wait_until far_from "$here"
	stays $((3000 * TEST_PATIENCE)) owner_is x "$token"
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

@test "the server's clock steps back: the lock lives longer, and COMMAND goes on" {
	set_clock +0
	server_end "$SERVER"
	with_clock server_again "$SERVER"
	hold one x -t $((2 * TEST_PATIENCE))
	local token
	token=$(cli GET lock:x)
	set_clock -3600
	wait_until server_time_is_off
	stays $((2500 * TEST_PATIENCE)) owner_is x "$token"
	set_clock +0
	let_go one
	assert_equal "$status" 0
	server_end "$SERVER"
}

@test "the server's clock steps forward: set again where nobody came, else exit 80; fences grow" {
	set_clock +0
	server_end "$SERVER"
	with_clock server_again "$SERVER"
	start_deaf one -t 3 --grace 0
	local fence
	fence=$(cli HGET "$(meta_of x)" fence)
	set_clock +3600
	wait_until server_time_is_off
	# Whoever comes first may have it: the manual says so. But he has a greater token.
	try dlock -n x sh -c 'echo $DLOCK_FENCE'
	if [[ $status == 0 ]]; then
		((out > fence)) || fail "fence $out after $fence"
		finish one
		assert_equal "$status" 80
		is_gone $one_command
	else
		assert_equal "$status" 1
		kill -KILL $one_command
		finish one
		assert_equal "$status" 137
	fi
	server_end "$SERVER"
}

server_time_is_off() {
	local there here
	there=$(cli TIME | head -1)
	here=$(date +%s)
	((there > here + 3000 || there < here - 3000))
}

# ---- The server forgets, or is told to -----------------------------------------------------------

@test "SCRIPT FLUSH during the hold: renewed and given back all the same" {
	hold one x -t "$TEST_PATIENCE"
	local token before
	token=$(cli GET lock:x)
	cli SCRIPT FLUSH >/dev/null
	before=$(expiry)
	wait_until -t 3 expires_after "$before"
	assert_equal "$(cli GET lock:x)" "$token"
	cli SCRIPT FLUSH >/dev/null
	let_go one
	assert_equal "$status$out$err" 0
	assert is_free x
}

expires_after() { (($(expiry) > $1)); }

@test "CLIENT KILL during the hold: renewed at once on another connection, not a second's wait" {
	hold one x -t 30
	local before began round
	for round in 1 2 3; do
		before=$(expiry)
		began=$(now_ms)
		cli CLIENT KILL TYPE normal SKIPME yes >/dev/null
		wait_until -t 2 expires_after "$before"
		echo "# renewed after $(($(now_ms) - began)) ms" >>figures
	done
	let_go one
	assert_equal "$status$out" 0
}

@test "FLUSHALL and a thief who is quicker: stopped, exit 80, the thief's key untouched" {
	start_deaf one -t 3 --grace 0.3
	printf 'MULTI\nFLUSHALL\nSET lock:x thief PX 60000\nEXEC\n' | cli >/dev/null
	wait_until is_gone $one_command
	finish one
	assert_equal "$status" 80
	assert_equal "$(cli GETDEL lock:x)" thief
}

@test "FLUSHALL and another dlock who is quicker: the first is stopped, and never gets it back" {
	start_deaf one -t $((3 * TEST_PATIENCE)) --grace 0
	cli FLUSHALL >/dev/null
	start two dlock -t 3 -n x sh -c 'until [ -e end ]; do sleep 0.05; done'
	wait_until is_gone $one_command
	finish one
	assert_equal "$status" 80
	touch end
	finish two
	assert_equal "$status" 0
}

@test "server restarted from its append-only file: the same lock, COMMAND goes on" {
	server_end "$SERVER"
	server_again "$SERVER" --appendonly yes --appendfsync always
	hold one x -t 3
	local token
	token=$(cli GET lock:x)
	server_end "$SERVER"
	server_again "$SERVER" --appendonly yes --appendfsync always
	assert_equal "$(cli GET lock:x)" "$token"
	wait_until is_quiet $one_command
	let_go one
	assert_equal "$status" 0
	refute_match "$err" "lost|set again"
	server_end "$SERVER"
	rm -r "$SERVER/appendonlydir"
}

@test "server restarted from an older snapshot, before the grant: set again, COMMAND goes on" {
	try dlock x true
	cli SAVE >/dev/null
	hold one x -t 20
	local token fence
	token=$(cli GET lock:x)
	fence=$(cli HGET "$(meta_of x)" fence)
	server_end "$SERVER"
	server_again "$SERVER"
	rm -f "$SERVER/dump.rdb"
	wait_until -t 3 owner_is x "$token"
	assert_equal "$(cli HGET "$(meta_of x)" fence)" "$fence" 'the fence'
	let_go one
	assert_equal "$status" 0
}

@test "server restarted from an older snapshot, in which another holds it: stopped, exit 80" {
	hold old x -t 5
	cli SAVE >/dev/null
	let_go old
	start_deaf one -t 4 --grace 0
	server_end "$SERVER"
	server_again "$SERVER"
	rm -f "$SERVER/dump.rdb"
	wait_until is_gone $one_command
	finish one
	assert_equal "$status" 80
	wait_until is_free x
}

# ---- The tree ------------------------------------------------------------------------------------

# What this test started and still runs, but for dlock (and what lists it). Each is looked at once: it
# may end meanwhile.
marked_but_dlock() {
	local one program
	for one in $(marked_pids); do
		program=$(readlink "/proc/$one/exe") || continue
		runs_dlock "$program" || [[ $program == */cut ]] || echo "$one"
	done
}

none_but_dlock() { [[ -z $(marked_but_dlock) ]]; }

# A server that is gone: everything must be, before the lock would have ended. The longer a lock lasts,
# the more of it is left for ending what runs under it, so these last as long as there is patience.
ends_before_the_lock() {
	local expires ended
	expires=$(expiry)
	server_stop
	wait_until is_file ended
	ended=$(<ended)
	server_continue
	assert none_but_dlock
	assert_between "$((ended - expires))" $((-4000 * TEST_PATIENCE)) -1 "the tree's end, in ms from the end of the lock"
	echo "# $BATS_TEST_DESCRIPTION: $((expires - ended)) ms before the lock's end" >&3
	finish one
	assert_equal "$status" 80
}

# All of the tree have ./alive open: its end comes with the end of the last, told to the ms at no cost.
watch_tree() {
	mkfifo alive
	(
		env -u TEST_MARK cat alive >/dev/null
		now_ms >ended.new
		env -u TEST_MARK mv ended.new ended
	) 3>&- 4>&- &
}

write_program() { # NAME <<PYTHON
	{
		echo "#!$PYTHON"
		echo 'end = __import__("os").open("alive", 1)'
		cat
	} >"$1"
	chmod +x "$1"
}

@test "300 processes deep, each in a session of its own and deaf: ended in time" {
	write_program deep <<-'END'
		import os, signal, time
		signal.signal(signal.SIGTERM, signal.SIG_IGN)
		for depth in range(300):
		    if os.fork():
		        break
		    os.setsid()
		else:
		    open("command", "w").write("deep")
		while True:
		    time.sleep(60)
	END
	watch_tree
	start one dlock -t $((5 * TEST_PATIENCE)) x ./deep
	wait_until is_file command
	live=($(marked_but_dlock))
	assert_equal ${#live[@]} 301 'processes'
	ends_before_the_lock
}

@test "a hundred daemons by double fork and setsid, all deaf: ended in time" {
	write_program daemons <<-'END'
		import os, signal, time
		signal.signal(signal.SIGTERM, signal.SIG_IGN)
		for number in range(100):
		    if os.fork() == 0:
		        os.setsid()
		        if os.fork():
		            os._exit(0)
		        while True:
		            time.sleep(60)
		for number in range(100):
		    os.wait()
		open("command", "w").write("all")
		while True:
		    time.sleep(60)
	END
	watch_tree
	start one dlock -t $((5 * TEST_PATIENCE)) x ./daemons
	wait_until is_file command
	live=($(marked_but_dlock))
	assert_equal ${#live[@]} 101 'processes'
	ends_before_the_lock
}

@test "a storm: every process forks a successor into a session of its own, and ends: ended in time" {
	write_program storm <<-'END'
		import os, signal, time
		signal.signal(signal.SIGTERM, signal.SIG_IGN)
		for number in range(8):
		    if os.fork() == 0:
		        while True:
		            if os.fork():
		                os._exit(0)
		            os.setsid()
		            time.sleep(0.002)
		open("command", "w").write("storm")
		while True:
		    time.sleep(60)
	END
	watch_tree
	start one dlock -t $((3 * TEST_PATIENCE)) x ./storm
	wait_until is_file command
	ends_before_the_lock
	# Nobody got away in between.
	stays 300 none_but_dlock
}

@test "front killed in a storm: the tree is ended, and only then the lock given back" {
	write_program storm <<-'END'
		import os, signal, time
		signal.signal(signal.SIGTERM, signal.SIG_IGN)
		for number in range(8):
		    if os.fork() == 0:
		        while True:
		            if os.fork():
		                os._exit(0)
		            os.setsid()
		            time.sleep(0.002)
		open("command", "w").write("storm")
		while True:
		    time.sleep(60)
	END
	watch_tree
	start one dlock -t 3 --grace 0.2 x ./storm
	wait_until is_file command
	kill -KILL $one_pid
	wait_until is_free x
	assert none_but_dlock
	stays 300 none_but_dlock
	finish one
}

@test "COMMAND hands its children to init's care by a reaper of its own: ended with it" {
	write_program reaper <<-'END'
		import ctypes, os, signal, time
		ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
		signal.signal(signal.SIGTERM, signal.SIG_IGN)
		if os.fork() == 0:
		    if os.fork():
		        os._exit(0)
		    os.setsid()
		    while True:
		        time.sleep(60)
		open("command", "w").write("reaper")
		while True:
		    time.sleep(60)
	END
	watch_tree
	start one dlock -t $((3 * TEST_PATIENCE)) x ./reaper
	wait_until is_file command
	ends_before_the_lock
}

@test "stopped processes in the tree are ended too" {
	watch_tree
	start one dlock -t $((3 * TEST_PATIENCE)) x sh -c 'exec 9>alive; sleep 300 & kill -STOP $!; echo x >command; kill -STOP $$; wait'
	wait_until is_file command
	ends_before_the_lock
}

# As user 65534, with a COMMAND that leaves a process of root's: dlock may not signal that one.
as_nobody() {
	[[ $(id -u) == 0 ]] || skip 'only root can make a set-user-ID program'
	chmod 755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_TEST_TMPDIR" "${BATS_FILE_TMPDIR%/*}" \
		"${BATS_TEST_TMPDIR%/*}" "$BIN"
	mkdir -m 777 out
	cp "$(realpath "$BIN/dlock")" dlock
	cat >riser.c <<-'END'
		#include <fcntl.h>
		#include <stdio.h>
		#include <unistd.h>
		int main(void)
		{
			setsid();
			if (setresuid(0, 0, 0) < 0)
				return 1;
			dprintf(open("out/riser", O_WRONLY | O_CREAT, 0644), "%d\n", (int)getpid());
			for (;;)
				sleep(60);
		}
	END
	cc -D_GNU_SOURCE -o riser riser.c
	chmod 4755 riser
	export DLOCK_SERVER=redis://127.0.0.1:$(<"$SERVER/port")
	start one setpriv --reuid=65534 --regid=65534 --clear-groups "$PWD/dlock" "$@"
	wait_until is_file out/riser
	riser=$(<out/riser)
	assert_equal "$(proc_status "$riser" Uid | tr '\t' ' ')" '0 0 0 0'
}

@test "a descendant that may not be signalled: named in a message, and exit 80 all the same" {
	as_nobody -t 3 x sh -c './riser & wait'
	server_stop
	finish one
	server_continue
	assert_equal "$status" 80
	assert_match "$err" "could not stop[^"$'\n'"]*\b$riser\b"
	assert is_alive "$riser"
	kill -KILL "$riser"
}

# as_nobody in a cgroup that was delegated to that user, as `Delegate=yes` of systemd does.
delegated() {
	mkdir tree
	mount -t cgroup2 none tree
	mkdir "tree/dlock-test.$$"
	chown -R 65534 "tree/dlock-test.$$"
	echo $BASHPID >"tree/dlock-test.$$/cgroup.procs"
	as_nobody "$@"
	echo $BASHPID >tree/cgroup.procs
}

not_delegated_any_more() {
	rmdir "tree/dlock-test.$$" || return 1
	umount tree
}

@test "a descendant that may not be signalled, in a cgroup of ours: killed with the others" {
	delegated -t 3 x sh -c './riser & wait'
	server_stop
	finish one
	server_continue
	assert is_gone "$riser"
	assert_equal "$status" 80
	refute grep -q 'could not stop' one.err
	wait_until not_delegated_any_more
}

@test "front killed, a descendant in a cgroup of ours may not be signalled: killed, and released" {
	delegated -t 60 --grace 0.2 x sh -c './riser & wait'
	kill -KILL $one_pid
	wait_until is_gone "$riser"
	wait_until is_free x
	finish one
	wait_until not_delegated_any_more
}

@test "front killed, a descendant may not be signalled: the lock is renewed as long as it lives" {
	as_nobody -t $((2 * TEST_PATIENCE)) --grace 0.2 x sh -c './riser & wait'
	local token
	token=$(cli GET lock:x)
	kill -KILL $one_pid
	stays $((4000 * TEST_PATIENCE)) owner_is x "$token"
	kill -KILL "$riser"
	wait_until is_free x
	finish one
}

@test "keeper killed, a descendant may not be signalled: it is named, and the lock ends by itself" {
	as_nobody -t 3 --grace 0.2 x sh -c './riser & wait'
	local token
	token=$(cli GET lock:x)
	kill -KILL "$(pgrep -P $one_pid)"
	finish one
	assert_equal "$status" 70
	assert_match "$err" "\b$riser\b"
	assert_equal "$(cli GET lock:x)" "$token"
	kill -KILL "$riser"
	wait_until is_free x
}

# ---- Suspended -----------------------------------------------------------------------------------

# What a laptop does: every process of the run stands still past the end of the lock, and somebody
# else has it meanwhile.
suspended() {
	start_deaf one -t 2
	keeper=$(parent_of $one_command)
	kill -STOP $one_pid $keeper $one_command
	wait_until is_free x
}

wake() { kill -CONT $one_pid $keeper $one_command; }

@test "everything stopped past the validity, then continued: COMMAND is ended at once, exit 80" {
	suspended
	try dlock -n x sh -c 'echo $DLOCK_FENCE'
	assert_equal "$status" 0
	local began
	began=$(now_ms)
	wake
	wait_until is_gone $one_command
	assert_between "$(($(now_ms) - began))" 0 $((500 * TEST_PATIENCE)) 'ms until COMMAND had ended'
	finish one
	assert_equal "$status" 80
}

@test "everything stopped past the validity while another holds the lock: his is untouched" {
	suspended
	hold two x
	local token
	token=$(cli GET lock:x)
	wake
	wait_until is_gone $one_command
	finish one
	assert_equal "$status" 80
	assert_equal "$(cli GET lock:x)" "$token"
	let_go two
	assert_equal "$status" 0
}

# A job under a shell with job control: Ctrl-Z stops COMMAND, and the keeper goes on renewing.
ctrl_z() { # SECONDS THIEF
	python "$SERVER/socket" "$@" <<-'END'
		import subprocess, sys, time
		from terminal import Shell, check, process_state, wait_until

		socket, seconds, thief = sys.argv[1], float(sys.argv[2]), sys.argv[3] == "thief"

		def call(*words):
		    return subprocess.run(["redis-cli", "-s", socket, *words], capture_output=True,
		                          text=True).stdout.strip()

		def text(path):
		    try:
		        return open(path).read().strip()
		    except FileNotFoundError:
		        return ""

		shell = Shell()
		shell.send("dlock -t 2 x sh -c 'echo $$ >command; until [ -e end ]; do sleep 0.05; done; exit 7'\n")
		wait_until(lambda: text("command"), "COMMAND")
		command = int(text("command"))
		token = call("GET", "lock:x")
		shell.send("\x1a")
		shell.expect(r"Stopped")
		shell.expect(shell.PROMPT)
		wait_until(lambda: process_state(command) == "T", "COMMAND's stop")
		if thief:
		    call("SET", "lock:x", "thief", "PX", "60000")
		until = time.monotonic() + seconds
		while time.monotonic() < until:
		    check(call("GET", "lock:x") == ("thief" if thief else token), call("GET", "lock:x"))
		    time.sleep(0.05)
		if thief:
		    wait_until(lambda: process_state(command) in ("", "Z"), "COMMAND's end while stopped")
		open("end", "w").close()
		shell.send("fg\n")
		shell.expect(shell.PROMPT)
		status = shell.run("echo code $?").strip()
		check(status == ("code 80" if thief else "code 7"), status)
		check(call("GET", "lock:x") == ("thief" if thief else ""), call("GET", "lock:x"))
		call("DEL", "lock:x")
		shell.leave()
	END
}

# A job in the background that the terminal stops: by its own reading, or by writing under `stty tostop`.
stopped_by_terminal() { # SETTING COMMAND ANSWER
	python "$SERVER/socket" "$@" <<-'END'
		import subprocess, sys, time
		from terminal import Shell, check, process_state, wait_until

		socket, setting, action, answer = sys.argv[1:5]

		def call(*words):
		    return subprocess.run(["redis-cli", "-s", socket, *words], capture_output=True,
		                          text=True).stdout.strip()

		def text(path):
		    try:
		        return open(path).read().strip()
		    except FileNotFoundError:
		        return ""

		shell = Shell()
		shell.run(setting)
		shell.send(f"dlock -t 2 x sh -c 'echo $$ >command; until [ -e begin ]; do sleep 0.05; done;"
		           f" {action}; exit 7' &\n")
		wait_until(lambda: text("command"), "COMMAND")
		command = int(text("command"))
		token = call("GET", "lock:x")
		open("begin", "w").close()
		wait_until(lambda: process_state(command) == "T", "COMMAND's stop")
		until = time.monotonic() + 3
		while time.monotonic() < until:
		    check(call("GET", "lock:x") == token, "the lock while COMMAND is stopped")
		    check(process_state(command) == "T", process_state(command))
		    time.sleep(0.05)
		shell.send("fg\n")
		if "read" in action:
		    shell.send(answer + "\n")
		shell.expect("said " + answer)
		shell.expect(shell.PROMPT)
		status = shell.run("echo code $?").strip()
		check(status == "code 7", status)
		check(call("GET", "lock:x") == "", call("GET", "lock:x"))
		shell.leave()
	END
}

@test "COMMAND reads from the terminal in the background (SIGTTIN): stopped past the TTL, the lock stays, fg goes on" {
	stopped_by_terminal true 'read -r line; echo "said" $line' hello
}

@test "COMMAND writes to it in the background (SIGTTOU): the same" {
	stopped_by_terminal 'stty tostop' 'echo "said" $((6 * 7))' 42
}

@test "Ctrl-Z and fg within the TTL: the lock stays" { ctrl_z 0.5 none; }

@test "Ctrl-Z, and fg past the TTL: the lock stays" { ctrl_z 3 none; }

@test "Ctrl-Z and a thief: COMMAND is ended while it is stopped, fg says 80" { ctrl_z 2 thief; }
