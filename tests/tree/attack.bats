# COMMAND's tree, as hard to end as a tree can be.

load ../lib/helper
load ../lib/deaf

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

# What this test started and still runs, but for dlock (and what lists it). Each is looked at once: it
# may end meanwhile.
marked_but_dlock() {
	local one program
	for one in $(marked_pids); do
		program=$(readlink "/proc/$one/exe") || continue
		[[ $program == */@(dlock|cut) ]] || echo "$one"
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

@test "a storm: every process forks a successor into its own session, and ends: ended in time" {
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
	# No process got away in between.
	stays 300 none_but_dlock
}

@test "front killed in a storm: the tree is ended, and only then the lock released" {
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

# COMMAND runs in a dlock of which the calls WHEN of CALL, of each process, take 1.5 s and fail. WHEN is that of its first
# SIGKILL; the front may first send the stop signal to COMMAND as well, which has just ended.
start_late() { # NAME CALL WHEN COMMAND...
	rm -f command
	unleaked start "$1" strace -f --seccomp-bpf -qq -e signal=none -e trace="$2" \
		-e inject="$2:error=EAGAIN:delay_enter=1500000:when=$3" -o trace \
		dlock -t $((8 * TEST_PATIENCE)) --grace 0.2 x "${@:4}"
	wait_until is_file command
}

sent_again() {
	assert is_gone "$(<command)"
	refute_match "$err" 'could not stop'
	assert grep -q 'SIGKILL.*INJECTED' trace
}

@test "a SIGKILL that takes long and fails is sent again, by keeper, front and guardian" {
	needs trace
	write_deaf
	start_late one kill 2 ./deaf
	cli SET lock:x thief PX 60000 >/dev/null
	finish one
	assert_equal "$status" 80
	sent_again
	cli DEL lock:x >/dev/null
	start_late two kill 2..3 sh -c './deaf & wait'
	kill -KILL "$(parent_of "$(parent_of "$(<command)")")"
	finish two
	assert_equal "$status" 70
	sent_again
	# What COMMAND left is one process: it is sent the stop signal, SIGSTOP, SIGKILL.
	start_late three pidfd_send_signal 3 sh -c '(trap "" TERM; exec sleep 300) & echo $! >command'
	wait_until file_has three.err 'stays with what COMMAND left running'
	kill -KILL "$(parent_of "$(<command)")"
	wait_until is_gone "$(<command)"
	finish three
	sent_again
}

@test "stopped processes in the tree are ended too" {
	watch_tree
	start one dlock -t $((3 * TEST_PATIENCE)) x sh -c 'exec 9>alive; sleep 300 & kill -STOP $!; echo x >command; kill -STOP $$; wait'
	wait_until is_file command
	ends_before_the_lock
}

# As user 65534, with a COMMAND that leaves a process of ours: dlock may not signal that one.
as_nobody() {
	needs users
	as_user 65534
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
	start one "${become[@]}" "$PWD/dlock" "$@"
	wait_until is_file out/riser
	riser=$(<out/riser)
	assert_equal "$(proc_status "$riser" Uid | tr '\t' ' ')" "$EUID $EUID $EUID $EUID"
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
	needs cgroup users
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
