# Every signal's way: to COMMAND exactly once, to a waiter, from a terminal, through nohup.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() {
	test_begin
	[[ $BATS_TEST_DESCRIPTION != terminal:* ]] || needs terminal
}
teardown() { test_end; }

readonly FORWARDED=(HUP INT QUIT TERM USR1 USR2 ALRM WINCH CONT)

# once NAME SIGNAL TARGET...: sends it by kill, waits until everybody is done with it, and counts.
once() {
	local name=$1 signal=$2
	shift 2
	local front=${name}_pid keeper=${name}_keeper command=${name}_command before
	before=$(received "$name")
	kill -"$signal" -- "$@"
	wait_until file_has "$BATS_TEST_TMPDIR/$name.count" "^$signal "
	wait_until is_quiet "${!front}" "${!keeper}" "${!command}"
	assert_equal "$(received "$name")" "$before${before:+$'\n'}$signal" "received after $signal"
}

@test "a signal to dlock's pid reaches COMMAND once" {
	begin_holder one x
	local signal
	for signal in "${FORWARDED[@]}"; do
		once one $signal $one_pid
	done
	let_go one
	expect 0
}

@test "a signal to dlock's process group reaches COMMAND once, where there is no terminal" {
	begin_holder one x
	local signal
	for signal in "${FORWARDED[@]}"; do
		once one $signal -$one_pid
	done
	let_go one
	expect 0
}

@test "what is not for forwarding is not forwarded" {
	begin_holder one x
	kill -CHLD $one_pid
	kill -URG $one_pid
	once one USR1 $one_pid
	assert_equal "$(received one)" USR1
	let_go one
}

@test "the sender of a signal to COMMAND itself is not dlock: nothing is doubled" {
	begin_holder one x
	once one USR1 $one_command
	once one TERM -$one_command
	assert_match "$(<one.count)" "TERM $$"
	let_go one
}

@test "COMMAND that ends by the forwarded signal: 128+N, and the lock is released" {
	local signal
	for signal in HUP INT QUIT TERM USR1 USR2 ALRM; do
		start one outcome=outcome pid=front dlock x sh -c 'echo >running; exec sleep 60'
		wait_until is_file running
		kill -$signal "$(<front)"
		wait_until is_file outcome
		assert_file outcome "exit $((128 + $(kill -l $signal)))"
		assert is_free x
		rm outcome running front
	done
}

@test "COMMAND that handles a signal ends as it likes" {
	start one dlock x sh -c 'trap "exit 42" TERM; echo >running; while :; do sleep 0.05; done'
	wait_until is_file running
	kill -TERM $one_pid
	finish one
	expect 42
	assert is_free x
}

@test "a signal that comes while COMMAND starts is not lost" {
	local i
	for i in {1..20}; do
		start one dlock x sleep 60
		# Anywhere between dlock's start and COMMAND's first step.
		sleep "0.0$((i % 10))"
		kill -TERM $one_pid
		finish one
		assert_equal "$status$out$err" 143 "run $i"
	done
	assert is_free x
}

@test "a signal after COMMAND's end does not interrupt the release" {
	begin_holder one x
	server_stop
	kill -RTMIN $one_command
	wait_until is_gone $one_command
	kill -TERM $one_pid
	kill -INT $one_pid
	kill -HUP $one_pid
	server_continue
	finish one
	expect 0
	assert is_free x
}

@test "nohup: what was ignored at the start is ignored by dlock, waiting and running" {
	begin_holder one x
	start two ignore=HUP,INT dlock x witness count two.count
	wait_until is_quiet $two_pid
	kill -HUP $two_pid
	kill -INT $two_pid
	let_go one
	wait_until file_has two.count ready
	two_command=$(sed -n 's/^ready //p' two.count)
	two_keeper=$(parent_of "$two_command")
	kill -HUP $two_pid
	kill -INT $two_pid
	once two USR1 $two_pid
	assert_equal "$(received two)" USR1
	let_go two
	expect 0
}

@test "nohup(1) around dlock keeps it alive through a hangup" {
	start one nohup dlock x sh -c 'echo >running; while [ ! -e end ]; do sleep 0.05; done; exit 6'
	wait_until is_file running
	kill -HUP -- -$one_pid
	wait_until is_quiet $one_pid
	touch end
	finish one
	assert_equal "$status" 6
}

@test "INT and QUIT ignored at the start, as a shell's background job has them, stay so" {
	begin_holder one x
	local surroundings=(launch default setsid ignore=INT,QUIT)
	"${surroundings[@]}" dlock y witness record seen &
	wait $!
	# bits 1 and 2: INT and QUIT
	assert_equal "$((16#$(sed -n 's/^SigIgn:\t//p' seen) & 6))" 6
	let_go one
}

@test "a waiter dies of HUP, INT, QUIT, TERM, gives its place back and leaves no core" {
	begin_holder one x
	local signal
	for signal in HUP INT QUIT TERM; do
		start two core outcome=outcome pid=front dlock x touch ran
		wait_until is_file front
		wait_until is_asking "$(<front)"
		kill -$signal "$(<front)"
		wait_until -t 2 is_file outcome
		assert_file outcome "signal $signal"
		refute_match "$(cli KEYS '*')" 'wait:|who:.*'"$(<front)"
		assert_equal "$(cli --scan | grep -c ':queue' || true)" 0 'queues left'
		rm outcome front
	done
	refute_file ran
	let_go one
	assert_equal "$status" 0 "the holder's status"
}

@test "WINCH and CONT do not end a waiter nor hurry it" {
	begin_holder one x
	start two dlock x echo ran
	wait_until is_asking $two_pid
	kill -WINCH $two_pid
	kill -CONT $two_pid
	wait_until is_quiet $two_pid # a busy machine lets it come to them later
	stays 300 is_asleep $two_pid
	assert is_held x
	let_go one
	finish two
	expect 0 ran
}

is_asleep() { [[ $(proc_state "$1") == S ]]; }

@test "a waiter that is stopped and continued goes on waiting" {
	begin_holder one x
	start two dlock x echo ran
	wait_until is_asking $two_pid
	kill -STOP $two_pid
	wait_until is_stopped $two_pid
	kill -CONT $two_pid
	wait_until is_asleep $two_pid
	let_go one
	finish two
	expect 0 ran
}

@test "no core file of dlock when QUIT ends COMMAND" {
	start one core outcome=outcome pid=front dlock x sh -c \
		'ulimit -S -c 0; echo >running; exec sleep 60'
	wait_until is_file running
	kill -QUIT "$(<front)"
	wait_until is_file outcome
	assert_file outcome 'exit 131'
	assert_equal "$(find . -name 'core*')" ''
}

# ---- On a terminal -------------------------------------------------------------------------------

@test "terminal: Ctrl-C, Ctrl-backslash, a resize reach COMMAND once, though dlock is beside it" {
	python <<-'END'
		import os, re
		from terminal import *

		terminal = Terminal("dlock", "x", "witness", "count", "count")
		wait_until(lambda: os.path.exists("count") and open("count").read(), "COMMAND")
		command = int(open("count").read().split()[1])
		def status(pid, field):
		    return re.search(field + r":\s*(\S+)", open(f"/proc/{pid}/status").read())[1]
		keeper = int(status(command, "PPid"))
		front = int(status(keeper, "PPid"))
		check(front == terminal.pid, "the front is what was started")
		check(os.getpgid(command) == os.getpgid(front), "COMMAND shares dlock's group")
		check(os.getpgid(keeper) != os.getpgid(front), "the keeper does not")

		def quiet():
		    return all(process_state(pid) == "S" and int(status(pid, "SigPnd"), 16) == 0
		        and int(status(pid, "ShdPnd"), 16) == 0 for pid in (front, keeper, command))

		# What the terminal sent has no sender: 0.
		wanted = [f"ready {command}"]
		open("count", "w").write(f"ready {command}\n")
		for action, line in ((lambda: terminal.send("\x03"), "INT 0"),
		        (lambda: terminal.send("\x1c"), "QUIT 0"),
		        (lambda: terminal.resize(40, 100), "WINCH 0"),
		        (lambda: terminal.send("\x03"), "INT 0")):
		    action()
		    wanted.append(line)
		    wait_until(lambda: len(open("count").read().splitlines()) >= len(wanted), line)
		    wait_until(quiet, "quiet")
		    seen = open("count").read().splitlines()
		    check(seen == wanted, seen, wanted)

		# From a process, to the pid: forwarded, once.
		for name in ("INT", "QUIT", "WINCH", "TERM", "HUP", "USR1", "USR2", "ALRM"):
		    os.kill(front, getattr(signal, "SIG" + name))
		    wanted.append(f"{name} ")
		    wait_until(lambda: len(open("count").read().splitlines()) >= len(wanted), name)
		    wait_until(quiet, "quiet")
		    seen = open("count").read().splitlines()
		    check(len(seen) == len(wanted) and seen[-1].startswith(name + " "), seen, wanted)
		os.kill(command, signal.SIGRTMIN)
		check(terminal.wait() == ("exit", 0), terminal.status)
	END
	assert is_free x
}

@test "terminal: so too while the keeper leaves the session, in COMMAND's group" {
	cc -std=c17 -D_GNU_SOURCE -O1 -shared -fPIC -o linger.so "$BATS_TEST_DIRNAME/../programs/linger.c"
	touch linger
	python "$LOADING/dlock" <<-'END'
		from terminal import *

		terminal = Terminal("env", "LD_PRELOAD=./linger.so", "LINGER=linger", sys.argv[1], "x",
		    "witness", "count", "count")
		wait_until(lambda: os.path.exists("count") and open("count").read(), "COMMAND")
		wait_until(lambda: os.path.exists("linger.here"), "the keeper")
		terminal.send("\x03")
		wait_until(lambda: "INT" in open("count").read(), "INT")
		os.remove("linger")
		# USR1 comes to COMMAND by the keeper, which has seen INT by then.
		os.kill(terminal.pid, signal.SIGUSR1)
		wait_until(lambda: "USR1" in open("count").read(), "USR1")
		seen = [line.split()[0] for line in open("count").read().splitlines()]
		check(seen == ["ready", "INT", "USR1"], seen)
		os.kill(int(open("count").read().split()[1]), signal.SIGRTMIN)
		check(terminal.wait() == ("exit", 0), terminal.status)
	END
	assert is_free x
}

@test "terminal: dlock dies of the Ctrl-C that ended COMMAND, with no core of a Ctrl-backslash" {
	ulimit -S -c unlimited || true
	python <<-'END'
		import os
		from terminal import *

		for key, number in (("\x03", 2), ("\x1c", 3)):
		    terminal = Terminal("dlock", "x", "sh", "-c", "ulimit -S -c 0; echo up; exec sleep 60")
		    terminal.expect("up")
		    terminal.send(key)
		    status = terminal.wait()
		    check(status == ("signal", number), status)
	END
	assert is_free x
}

@test "terminal: so too on a busy machine, where dlock sees the Ctrl-C only after all has ended" {
	python <<-'END'
		import subprocess
		from terminal import *

		terminal = Terminal("dlock", "x", "sh", "-c", "echo up; exec sleep 60")
		terminal.expect("up")
		# The front alone is put behind all others, and another process is on every processor.
		os.sched_setscheduler(terminal.pid, os.SCHED_IDLE, os.sched_param(0))
		busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
		    for processor in range(os.cpu_count())]
		try:
		    for one in busy:
		        wait_until(lambda: process_state(one.pid) == "R", "a busy processor")
		    terminal.send("\x03")
		    status = terminal.wait()
		finally:
		    for one in busy:
		        one.kill()
		        one.wait()
		check(status == ("signal", 2), status)
	END
	assert is_free x
}

@test "terminal: COMMAND that handles Ctrl-C ends as it likes" {
	python <<-'END'
		from terminal import *

		terminal = Terminal("dlock", "x", "sh", "-c",
		    "trap 'exit 5' INT; echo up; while :; do sleep 0.05; done")
		terminal.expect("up")
		terminal.send("\x03")
		status = terminal.wait()
		check(status == ("exit", 5), status)
	END
	assert is_free x
}

@test "terminal: Ctrl-C ends a shell loop around dlock" {
	cat >loop <<-'END'
		#!/bin/bash
		while :; do
			dlock x sh -c 'echo up; exec sleep 60'
			echo again
		done
	END
	python <<-'END'
		from terminal import *

		terminal = Terminal("bash", "loop")
		terminal.expect("up")
		terminal.send("\x03")
		status = terminal.wait()
		check(status == ("signal", 2), status, terminal.seen)
		check("again" not in terminal.seen, terminal.seen)
	END
	assert is_free x
}

@test "terminal: Ctrl-C ends a shell loop around a waiter" {
	begin_holder one x
	cat >loop <<-'END'
		#!/bin/bash
		while :; do
			echo up
			dlock x touch ran
			echo again
		done
	END
	python <<-'END'
		from terminal import *

		terminal = Terminal("bash", "loop")
		terminal.expect("up")
		wait_until(lambda: waiting_child(terminal.pid), "the waiter")
		terminal.send("\x03")
		status = terminal.wait()
		check(status == ("signal", 2), status, terminal.seen)
		check("again" not in terminal.seen, terminal.seen)
	END
	refute_file ran
	assert_equal "$(cli --scan | grep -c ':queue' || true)" 0 'queues left'
	let_go one
}

@test "terminal: Ctrl-Z stops the job, the lock stays held past its TTL; fg goes on" {
	python "$SERVER/socket" <<-'END'
		import subprocess, sys
		from terminal import *

		def cli(*words):
		    return subprocess.run(["redis-cli", "-s", sys.argv[1], *words],
		        capture_output=True, text=True).stdout.strip()

		shell = Shell()
		shell.send("dlock -t 2 x sh -c 'echo $$ >command; echo up; exec cat'; echo status=$?\n")
		shell.expect(r"\nup\r?\n")
		command = int(open("command").read())
		shell.stop(command)
		token = cli("GET", "lock:x")
		check(token, "held")
		# Past two TTLs, looked at all the while: never free, never another's.
		limit = time.monotonic() + 4.5
		while time.monotonic() < limit:
		    check(cli("GET", "lock:x") == token, "still held")
		    time.sleep(0.05)
		check(process_state(command) == "T", "COMMAND still stopped")
		check("other" not in shell.run("dlock -n x echo oth''er"), "a second one is kept out")
		shell.send("fg\n")
		shell.expect(r"dlock[^\n]*\n")
		wait_until(lambda: process_state(command) == "S", "COMMAND to go on")
		shell.send("hello\n")
		shell.expect("hello\r?\nhello\r?\n")  # the echo, and cat: it reads the terminal
		shell.stop(command)
		shell.send("fg\n")
		shell.expect(r"dlock[^\n]*\n")
		wait_until(lambda: process_state(command) == "S", "COMMAND to go on")
		shell.send("\x04")
		shell.expect(Shell.PROMPT)
		check(cli("EXISTS", "lock:x") == "0", "given back")
		shell.leave()
	END
}

@test "terminal: Ctrl-Z stops nothing where no shell could continue it (ssh -t, docker run -it)" {
	python <<-'END'
		from terminal import *

		terminal = Terminal("dlock", "x", "sh", "-c", "echo up; exec cat")
		terminal.expect(r"up\r?\n")
		terminal.send("\x1a")
		terminal.send("hello\n")
		terminal.expect(r"hello\r?\nhello\r?\n")
		terminal.send("\x04")
		check(terminal.wait() == ("exit", 0), terminal.status)
	END
	assert is_free x
}

@test "terminal: a stopped job whose shell is killed ends, and the lock with it" {
	python <<-'END'
		from terminal import *

		shell = Shell()
		shell.send("dlock x sh -c 'echo $$ >command; echo up; exec sleep 600'\n")
		shell.expect(r"\nup\r?\n")
		command = int(open("command").read())
		shell.stop(command)
		os.kill(shell.pid, signal.SIGKILL)
		shell.wait()
		wait_until(lambda: is_gone(command), "COMMAND to end")
	END
	wait_until is_free x
}

@test "terminal: COMMAND that stops itself alone: the job is stopped, and fg goes on" {
	python <<-'END'
		from terminal import *

		shell = Shell()
		shell.send("dlock x sh -c 'echo up; kill -STOP $$; echo back; exit 3'\n")
		shell.expect(r"\nup\r?\n")
		shell.expect("Stopped")
		shell.expect(Shell.PROMPT)
		shell.send("fg; echo status=$?\n")
		shell.expect("back\r?\n")
		shell.expect("status=3\r?\n")
		shell.expect(Shell.PROMPT)
		shell.leave()
	END
	assert is_free x
}

@test "terminal: bg lets a stopped job go on, and its exit code reaches the shell" {
	python <<-'END'
		from terminal import *

		os.mkfifo("end")
		shell = Shell()
		# It waits without a child: a shell that is stopped while it starts one is in another state.
		shell.send("dlock x sh -c 'echo $$ >command; echo up; read a <end; exit 7'\n")
		shell.expect(r"\nup\r?\n")
		command = int(open("command").read())
		shell.stop(command)
		shell.run("bg")
		wait_until(lambda: process_state(command) == "S", "COMMAND to go on")
		open("end", "w").close()
		out = shell.run("wait %1; echo status=$?")
		check("status=7" in out, out)
		shell.leave()
	END
	assert is_free x
}

@test "terminal: a signal to its group that is not the terminal's reaches COMMAND once" {
	local from
	for from in group timeout; do
		FROM=$from python <<-'END'
			import os, re
			from terminal import *

			limit = ("timeout", "-s", "USR1", "0.5") if os.environ["FROM"] == "timeout" else ()
			terminal = Terminal(*limit, "dlock", "x", "witness", "count", "count")
			def lines():
			    return open("count").read().splitlines() if os.path.exists("count") else []
			wait_until(lines, "COMMAND")
			command = int(lines()[0].split()[1])
			def status(pid, field):
			    return re.search(field + r":\s*(\S+)", open(f"/proc/{pid}/status").read())[1]
			keeper = int(status(command, "PPid"))
			front = int(status(keeper, "PPid"))
			# Both as if at the shell's prompt: it takes time to type.
			time.sleep(0.1 * PATIENCE)

			def sent(names, target):
			    for name in names:
			        before = len(lines())
			        target(getattr(signal, "SIG" + name))
			        wait_until(lambda: len(lines()) > before, name)
			        # USR2 to the front alone goes the longer way, behind what else is under way.
			        os.kill(front, signal.SIGUSR2)
			        wait_until(lambda: any(line.startswith("USR2 ") for line in lines()[before:]), "USR2")
			        seen = [line.split()[0] for line in lines()[before:]]
			        check(seen == [name, "USR2"], seen, name)

			if limit:
			    wait_until(lambda: len(lines()) > 1, "the signal of timeout")
			    os.kill(front, signal.SIGUSR2)
			    wait_until(lambda: lines()[-1].startswith("USR2 "), "USR2")
			    seen = [line.split()[0] for line in lines()[1:]]
			    check(seen.count("USR1") == 1 and seen.count("CONT") <= 1, seen)
			else:
			    sent(("TERM", "INT", "HUP", "QUIT", "USR1", "ALRM"), lambda sig: os.killpg(os.getpgid(front), sig))
			    sent(("TERM", "INT", "HUP", "QUIT", "USR1", "ALRM"), lambda sig: os.kill(front, sig))
			os.kill(command, signal.SIGRTMIN)
			terminal.wait()
		END
		assert is_free x
		rm count
	done
}

@test "terminal: kill %1 ends the job and the lock" {
	python <<-'END'
		from terminal import *

		shell = Shell()
		shell.run("dlock x sh -c 'echo >running; exec sleep 60' &")
		wait_until(lambda: os.path.exists("running"), "COMMAND")
		shell.run("kill %1")
		out = shell.run("wait %1; echo status=$?")
		check("status=143" in out, out)
		shell.leave()
	END
	assert is_free x
}

@test "terminal: pipelines on both sides, and COMMAND reads what is typed" {
	python <<-'END'
		from terminal import *

		shell = Shell()
		check("a-B-c" in shell.run("echo abc | dlock x tr b B | sed 's/B/-B-/'"), shell.seen)
		shell.send("dlock x sh -c 'echo up; read a </dev/tty; read b; echo \"<$a:$b>\"' | cat\n")
		shell.expect(r"\nup\r?\n")
		shell.send("one\ntwo\n")
		shell.expect("<one:two>")
		shell.expect(Shell.PROMPT)
		shell.leave()
	END
}

@test "terminal: a background job that reads it is stopped as any job is, and fg lets it read" {
	python <<-'END'
		from terminal import *

		shell = Shell()
		shell.run("dlock x sh -c 'echo $$ >command; exec cat' &")
		wait_until(lambda: os.path.exists("command") and open("command").read(), "COMMAND")
		command = int(open("command").read())
		wait_until(lambda: process_state(command) == "T", "COMMAND to stop")
		wait_until(lambda: "Stopped" in shell.run("jobs"), "the shell to see it stopped")
		shell.send("fg\n")
		wait_until(lambda: process_state(command) == "S", "COMMAND to go on")
		shell.send("hello\n")
		shell.expect("hello\r?\nhello\r?\n")
		shell.send("\x04")
		shell.expect(Shell.PROMPT)
		shell.leave()
	END
	assert is_free x
}

@test "terminal: a waiter can be stopped by Ctrl-Z and ended by Ctrl-C" {
	begin_holder one x
	python <<-'END'
		from terminal import *

		shell = Shell()
		shell.send("dlock x touch ran; echo status=$?\n")
		shell.expect("status=.*\n")
		wait_until(lambda: waiting_child(shell.pid), "the waiter")
		shell.send("\x1a")
		shell.expect("Stopped")
		shell.expect(Shell.PROMPT)
		shell.send("fg\n")
		wait_until(lambda: waiting_child(shell.pid), "the waiter to go on")
		shell.send("\x03")
		shell.expect(Shell.PROMPT)
		out = shell.run("jobs; echo left=$?")
		check(out.strip() == "left=0", out)
		shell.leave()
	END
	refute_file ran
	let_go one
}

@test "terminal: an alarm that was set before dlock is not the terminal's: it reaches COMMAND" {
	python <<-'END'
		import signal
		from terminal import *

		start = (f"import os, signal; signal.alarm({int(PATIENCE)});"
		         " os.execvp('dlock', ['dlock', 'x', 'sleep', '600'])")
		terminal = Terminal(sys.executable, "-c", start)
		status = terminal.wait()
		check(status == ("exit", 128 + signal.SIGALRM), status)
	END
	assert is_free x
}

@test "an alarm that was set before dlock reaches COMMAND where there is no terminal" {
	start one "$PYTHON" -c "import os, signal; signal.alarm($TEST_PATIENCE); os.execvp('dlock', ['dlock', 'x', 'sleep', '600'])"
	finish one
	expect 142
	assert is_free x
}

@test "terminal: hanging up ends COMMAND and the lock" {
	python <<-'END'
		from terminal import *

		terminal = Terminal("dlock", "x", "sh", "-c", "echo $$ >command; echo up; exec sleep 60")
		terminal.expect("up")
		command = int(open("command").read())
		terminal.hang_up()
		wait_until(lambda: is_gone(command), "COMMAND to end")
		wait_until(lambda: is_gone(terminal.pid), "dlock to end")
	END
	wait_until is_free x
}

@test "terminal: closing the window of a shell ends its dlock" {
	python <<-'END'
		from terminal import *

		shell = Shell()
		shell.send("dlock x sh -c 'echo $$ >command; echo up; exec sleep 60'\n")
		shell.expect(r"\nup\r?\n")
		command = int(open("command").read())
		shell.hang_up()
		wait_until(lambda: is_gone(command), "COMMAND to end")
	END
	wait_until is_free x
}
