# What is seen of a wait.

load ../lib/helper
load ../lib/waiters

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() {
	test_begin
	[[ $BATS_TEST_DESCRIPTION != *a\ terminal* ]] || needs terminal
}
teardown() { test_end; }

@test "on a terminal one line is redrawn in place, and gone before COMMAND starts" {
	begin_holder one x --label 'night run'
	start ahead dlock x true
	wait_until queued x 1
	(
		wait_until file_has drawn 'for 2s'
		kill -RTMIN "$one_command"
	) 3>&- 4>&- &
	local helper=$!
	python "$(hostname):$one_pid" <<-'END'
		import re, sys
		from terminal import *

		def line(seconds):
		    """Cut to the width, wherever a long host's name or pid puts that."""
		    text = "dlock: x: waiting for %ds, 1 ahead; held by %s (tester, night run) for "
		    return (text % (seconds, sys.argv[1]))[:79]

		terminal = Terminal("dlock", "x", "echo", "RAN")
		terminal.expect(re.escape(line(2)))
		open("drawn", "w").write("for 2s\n")
		terminal.expect("RAN")
		before = terminal.seen[:terminal.seen.index("RAN")]
		check("\n" not in before, "one line: %r" % before)
		check(line(1) in before, before)
		frames = before.split("\r")
		check(all(len(frame) < 80 for frame in frames), "too wide: %r" % frames)
		check(frames[-2].strip() == "" and len(frames[-2]) == 79 and frames[-1] == "", "not taken away: %r" % frames[-3:])
		status = terminal.wait()
		check(status == ("exit", 0), status)
	END
	wait $helper
	finish one
	finish ahead
	assert_equal "$status$err" 0
}

@test "on a terminal: a short wait draws nothing, -q neither" {
	begin_holder one x
	python <<-'END'
		from terminal import *

		terminal = Terminal("dlock", "-q", "-w", "1.5", "x", "true")
		status = terminal.wait()
		check(status == ("exit", 1), status)
		check(terminal.seen == "", terminal.seen)

		def draws_nothing():
		    """A busy machine may have no answer in time, or make it a wait that is worth a line."""
		    terminal = Terminal("dlock", "-w", "0.1", "x", "true")
		    terminal.wait()
		    return "waiting" not in terminal.seen and "busy after" in terminal.seen

		wait_until(draws_nothing, "a short wait that draws nothing")
	END
	let_go one
}

@test "in the background of a terminal nothing is drawn, until it comes to the foreground" {
	begin_holder one x
	python "$one_command" <<-'END'
		import os, signal, sys
		from terminal import *

		shell = Shell()
		shell.run("dlock -w 60 x true &")
		said = shell.run("sleep 2")
		check("waiting" not in said, said)
		shell.send("fg\n")
		shell.expect("waiting for")
		os.kill(int(sys.argv[1]), signal.SIGRTMIN)
		shell.expect(shell.PROMPT)
		shell.leave()
	END
	finish one
}

@test "no terminal: nothing is said while waiting, with -v one line when it begins" {
	begin_holder one x
	start quiet dlock -w 2 x true
	start loud dlock -v -w 2 x true
	finish quiet
	assert_equal "$(wc -l <quiet.err)" 1
	assert_match "$err" '^dlock: x: busy after 2s: held by '
	finish loud
	assert_equal "$(grep -c 'waiting' loud.err)" 1
	assert_match "$err" "waiting, [01] ahead; held by $(hostname):$one_pid"
	let_go one
}

@test "a terminal that is stopped by Ctrl-S does not stop the wait" {
	begin_holder one x
	python <<-'END'
		from terminal import *

		terminal = Terminal("dlock", "-w", "2", "x", "true")
		terminal.expect("waiting for")
		terminal.send("\x13")
		status = terminal.wait()
		check(status == ("exit", 1), status)
	END
	let_go one
}
