# dlock status on a terminal: --watch, the width, colours, and what a terminal must not get.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() {
	test_begin
	needs terminal
	TERM=screen
}
teardown() {
	[[ ! -S $BATS_TEST_TMPDIR/tmux ]] || on kill-server || true
	test_end
}

# on COMMAND...: tmux, whose one pane is the terminal.
on() { tmux -u -S "$BATS_TEST_TMPDIR/tmux" -f /dev/null "$@" 3>&- 4>&-; }

# terminal COLUMNS ROWS: with an interactive bash on it.
terminal() {
	on new-session -d -x "$1" -y "$2" "env PS1='ready> ' bash --norc --noprofile"
	wait_until shows 'ready>'
}

type_in() { on send-keys -l "$1" && on send-keys Enter; }
screen() { on capture-pane -p; }
shows() { screen | grep -qE -- "$1"; }
shows_not() { ! shows "$1"; }
narrower() { (($(screen | wc -L) <= $1)); }

# asked: how many looks the server has seen.
asked() { cli INFO commandstats | sed -n 's/^cmdstat_scan:calls=\([0-9]*\),.*/\1/p'; }
asked_more() { (($(asked) > $1)); } # THAN

@test "it is redrawn in place, and q gives the terminal back as it was" {
	terminal 100 12
	type_in 'stty -g >before; echo written before'
	wait_until shows '^written before'
	type_in 'dlock status --watch; echo "ended $?"; stty -g >after'
	wait_until shows '^NAME +MODE +HOLDER'
	assert shows_not 'written before'
	begin_holder one deploy
	begin_holder two build -s
	wait_until shows "^deploy +exclusive +$(hostname):$one_pid tester"
	wait_until shows '^build +shared'
	assert_equal "$(screen | grep -c '^NAME')" 1
	let_go one
	wait_until shows_not '^deploy'
	assert_equal "$(screen | grep -vc '^$')" 3
	let_go two
	on send-keys x y
	wait_until shows_not '^build'
	on send-keys q
	wait_until shows '^ended 0'
	assert shows '^written before'
	assert shows_not '^NAME|xy'
	wait_until is_file after
	assert_equal "$(<after)" "$(<before)"
	assert_equal "$(on display-message -p '#{cursor_flag} #{wrap_flag} #{alternate_on}')" '1 1 0'
}

@test "it follows the width and the height: NAME and HOLDER are cut, nothing wraps" {
	cli SET lock:naïve-中文-a-name-that-is-long-and-longer token PX 60000 >/dev/null
	begin_holder one "$(printf 'x%.0s' {1..60})" --label "$(printf 'y%.0s' {1..60})"
	terminal 220 9
	type_in 'dlock status --watch --interval 1h'
	wait_until shows '^x{60} +exclusive .* y{60} '
	assert shows '^naïve-中文-a-name-that-is-long-and-longer +foreign '
	local columns
	for columns in 100 80 70; do
		on resize-window -x $columns -y 9
		wait_until narrower $columns
		wait_until shows '^x+… +exclusive +[^ ]+.*… +[0-9]'
		wait_until shows 'WAITING *$'
		assert_equal "$(screen | grep -vc '^$')" 4
	done
	# Columns begin where the heading does, wide characters or not.
	wait_until shows '^naïve.*… +foreign'
	screen >drawn
	python <<-'END'
		import unicodedata
		def width(text):
		    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
		lines = [line for line in open("drawn").read().splitlines()[2:] if line]
		assert len(lines) == 3, lines
		where = [width(line[:line.index(word)]) for line, word in zip(lines, ("MODE", "foreign", "exclusive"))]
		assert len(set(where)) == 1, (where, lines)
	END
	on resize-window -x 20 -y 9
	wait_until narrower 20
	assert_equal "$(screen | grep -vc '^$')" 4
	on resize-window -x 220 -y 9
	wait_until shows '^x{60} +exclusive .* y{60} '

	local n
	for n in {10..29}; do
		cli SET lock:many-$n token PX 60000 >/dev/null
	done
	on send-keys q
	wait_until shows_not '^NAME'
	type_in 'clear; dlock status --watch --interval 1h'
	wait_until shows '^\.\.\. 18 more'
	assert_equal "$(screen | grep -vc '^$')" 7
	on resize-window -x 220 -y 30
	wait_until shows '^many-29 '
	assert shows_not 'more'
	on send-keys q
	cli FLUSHALL >/dev/null
	let_go one || true
}

# ended_by SIGNAL KEYS: on a terminal of its own; KEYS empty: by kill(1).
ended_by() {
	python "$1" "$2" <<-'END'
		import os, signal, sys, termios
		from terminal import *

		name, key = sys.argv[1:]
		terminal = Terminal("dlock", "status", "--watch")
		flags = termios.ECHO | termios.ICANON
		terminal.expect("(?s)NAME.*\033\\[J")
		check(termios.tcgetattr(terminal.master)[3] & flags == 0, "keys are still echoed")
		if key:
		    terminal.send(chr(int(key)))
		else:
		    os.kill(terminal.pid, getattr(signal, name))
		status = terminal.wait()
		check(status == ("signal", getattr(signal, name)), status)
		check(terminal.seen.endswith("\033[?7h\033[?25h\033[?1049l"), repr(terminal.seen[-100:]))
		check(termios.tcgetattr(terminal.master)[3] & flags == flags, "not as before")
	END
}

@test "INT, TERM, HUP, QUIT: the terminal is restored, then it dies of the signal" {
	ended_by SIGTERM ''
	ended_by SIGINT ''
	ended_by SIGHUP ''
	ended_by SIGQUIT ''
	ended_by SIGINT 3
	ended_by SIGQUIT 28
}

@test "whatever ends it, a crash as well: the terminal is restored, then it dies of that" {
	# Sanitizers take some of these for their own business.
	local own=:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0
	export ASAN_OPTIONS=$ASAN_OPTIONS$own UBSAN_OPTIONS=$UBSAN_OPTIONS$own TSAN_OPTIONS=$TSAN_OPTIONS$own
	python <<-'END'
		import os, signal, termios
		from terminal import *

		left = "KILL STOP TSTP TTIN TTOU CONT CHLD URG WINCH PIPE".split()
		left = {getattr(signal, "SIG" + name) for name in left}
		flags = termios.ECHO | termios.ICANON
		for number in sorted(set(range(1, 32)) - left):
		    terminal = Terminal("dlock", "status", "--watch")
		    terminal.expect("(?s)NAME.*\033\\[J")
		    os.kill(terminal.pid, number)
		    check(terminal.wait()[1] == number, number, terminal.status)
		    check(terminal.seen.endswith("\033[?7h\033[?25h\033[?1049l"), number, terminal.seen[-100:])
		    check(termios.tcgetattr(terminal.master)[3] & flags == flags, number)
	END
}

@test "Ctrl-S stops it, but q and signals end it all the same" {
	python <<-'END'
		import os, signal
		from terminal import *

		for end, status in (lambda terminal: terminal.send("q"), ("exit", 0)), (
		    lambda terminal: os.kill(terminal.pid, signal.SIGTERM),
		    ("signal", signal.SIGTERM),
		):
		    terminal = Terminal("dlock", "status", "--watch", "--interval", "100ms")
		    terminal.expect("(?s)NAME.*\033\\[J")
		    terminal.send("\x13")
		    time.sleep(0.5)
		    terminal._read()
		    seen = len(terminal.seen)
		    time.sleep(0.5)
		    terminal._read()
		    check(len(terminal.seen) == seen, terminal.seen[seen:])
		    end(terminal)
		    check(terminal.wait() == status, terminal.status)
		    check(terminal.seen.endswith("\033[?7h\033[?25h\033[?1049l"), terminal.seen[-100:])
	END
}

@test "600 locks are looked at over one connection, in five round trips a look" {
	cli EVAL 'for i = 1, 600 do redis.call("SET", "lock:n" .. i, 1, "PX", 600000) end' 0 >/dev/null
	dlock status >/dev/null
	proxy "$SERVER/socket"
	cli CONFIG RESETSTAT >/dev/null
	DLOCK_SERVER=unix://$PWD/proxy.socket python <<-'END'
		from terminal import *

		terminal = Terminal("dlock", "status", "--watch", "--interval", "100ms")
		wait_until(lambda: open("turns").read().count("<") >= 20, "four looks")
		terminal.send("q")
		check(terminal.wait() == ("exit", 0), terminal.status)
	END
	local looks said
	looks=$(cli INFO commandstats | sed -n 's/^cmdstat_scan:calls=\([0-9]*\),.*/\1/p')
	said=$(turns)
	assert_equal "$(grep -c connect <<<"${said// /$'\n'}")" 1
	assert_between "$(grep -c '<' <<<"${said// /$'\n'}")" 20 $((5 * looks))
	cli FLUSHALL >/dev/null
}

@test "a terminal that is gone ends it, even where nobody says so" {
	python <<-'END'
		import os
		from terminal import *

		terminal = Terminal("sh", "-c", "trap '' HUP; exec dlock status --watch --interval 100ms </dev/null 2>gone")
		terminal.expect("(?s)NAME.*\033\\[J")
		terminal.hang_up()
		wait_until(lambda: is_gone(terminal.pid), "its end")
		terminal.status = os.waitpid(terminal.pid, 0)[1]
		check(os.WEXITSTATUS(terminal.status) == 71, terminal.status)
	END
	assert_file gone 'dlock: --watch: the terminal is gone'
}

@test "however small the terminal is, nothing wraps and nothing scrolls" {
	cli SET lock:日本語テスト漢字 foreign PX 600000 >/dev/null
	cli SET lock:$'cafe\u0301-au-lait' foreign PX 600000 >/dev/null
	cli SET lock:x foreign PX 600000 >/dev/null
	begin_holder one 日本 --label 漢字漢字
	python <<-'END'
		import re, unicodedata
		from terminal import *

		def width(text):
		    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)

		def run(command, rows, columns):
		    wait = 'until [ "$(stty size)" = "%d %d" ]; do sleep 0.01; done; exec ' % (rows, columns)
		    return Terminal("sh", "-c", wait + command, rows=rows, columns=columns)

		def narrow(text, columns, *what):
		    for line in re.split("[\r\n]+", re.sub("\033\\[[0-9;?]*[A-Za-z]", "", text)):
		        check(width(line) <= columns, what, columns, line)

		for columns in (*range(1, 21), 33, 50):
		    terminal = run("dlock status", 24, columns)
		    check(terminal.wait() == ("exit", 0), terminal.seen)
		    narrow(terminal.seen, columns, "status")
		for columns in (1, 2, 3, 14, 40):
		    terminal = run("dlock -w 0.4 日本 true", 24, columns)
		    terminal.wait()
		    # Only the last line, why it ended, may be longer.
		    narrow(terminal.seen[: terminal.seen.rindex("dlock: ")], columns, "waiting")
		for rows, columns in ((1, 40), (2, 40), (3, 40), (4, 40), (5, 7), (6, 1)):
		    terminal = run("dlock status --watch", rows, columns)
		    terminal.expect("(?s)\033\\[2J.*\033\\[J")
		    terminal.send("q")
		    terminal.wait()
		    frame = terminal.seen.split("\033[2J")[1].split("\033[J")[0]
		    narrow(frame, columns, "watch")
		    check(frame.count("\n") == rows - 1, rows, frame)
		    check(rows != 4 or "... 4 more" in frame, frame)
	END
	cli FLUSHALL >/dev/null
	let_go one || true
}

@test "a signal that was ignored at the start stays ignored" {
	python <<-'END'
		import os, signal
		from terminal import *

		terminal = Terminal("sh", "-c", "trap '' HUP; exec dlock status --watch --interval 100ms")
		terminal.expect("NAME")
		os.kill(terminal.pid, signal.SIGHUP)
		terminal.expect("(?s)\033\\[J.*\033\\[J")
		terminal.send("q")
		check(terminal.wait() == ("exit", 0), terminal.seen)
	END
}

@test "Ctrl-Z gives the shell its terminal, fg goes on" {
	terminal 90 12
	type_in 'stty -g >before'
	wait_until is_file before
	type_in 'dlock status --watch'
	wait_until shows '^NAME'
	on send-keys C-z
	wait_until shows 'Stopped.*dlock status'
	assert_equal "$(on display-message -p '#{cursor_flag} #{alternate_on}')" '1 0'
	begin_holder one deploy
	type_in 'stty -g >stopped; fg'
	wait_until shows '^deploy '
	assert_equal "$(<stopped)" "$(<before)"
	assert_equal "$(on display-message -p '#{cursor_flag} #{alternate_on}')" '0 1'
	on send-keys q
	wait_until shows_not '^NAME'
	let_go one
}

@test "many looks, one connection; --interval says how often" {
	terminal 90 12
	type_in 'dlock status --watch --interval 100ms'
	wait_until shows '^NAME'
	# Two words of the test's own come by connections too.
	cli CONFIG RESETSTAT >/dev/null
	sleep 1
	cli INFO everything >stats
	assert_between "$(sed -n 's/^cmdstat_scan:calls=\([0-9]*\),.*/\1/p' stats)" 3 12
	assert_between "$(sed -n 's/^total_connections_received:\([0-9]*\).*/\1/p' stats)" 0 1
	on send-keys q
	wait_until shows_not '^NAME'

	type_in 'dlock status --watch'
	wait_until shows '^NAME'
	cli CONFIG RESETSTAT >/dev/null
	wait_until asked_more 1
	on send-keys q
}

@test "a server that goes away is named, what was seen stays, and it is found again" {
	own_server other
	redis-cli -s other/socket SET lock:old token PX 60000 >/dev/null
	terminal 110 12
	type_in "dlock status --watch -S unix://$PWD/other/socket"
	wait_until shows '^old +foreign'
	server_end "$PWD/other"
	wait_until shows 'cannot reach unix://.*/other/socket: .*; trying again'
	assert shows '^old +foreign'
	server_again "$PWD/other"
	redis-cli -s other/socket SET lock:new token PX 60000 >/dev/null
	wait_until shows '^new +foreign'
	assert shows_not 'trying again|^old '
	# One that hangs can be left all the same.
	kill -STOP "$(<other/pid)"
	sleep 0.3
	on send-keys q
	wait_until shows_not '^NAME|new'
	kill -CONT "$(<other/pid)"
}

@test "it is for terminals, and for people" {
	try dlock status --watch
	expect_failure 64 'no terminal'
	try dlock status --watch --json
	expect_failure 64 '--watch is for people'
	try dlock status --watch --openmetrics
	expect_failure 64 '--watch is for people'
	try dlock status --interval 2
	expect_failure 64 '--interval .* give both'
	try dlock status --watch --interval 50ms
	expect_failure 64 "'50ms' is less than 100ms"
	python <<-'END'
		import os
		from terminal import *
		for name in ("dumb", ""):
		    os.environ["TERM"] = name
		    terminal = Terminal("dlock", "status", "--watch")
		    check(terminal.wait() == ("exit", 64), terminal.seen)
		    check("\033" not in terminal.seen and "TERM is '%s'" % name in terminal.seen, terminal.seen)
	END
}

@test "colours only on a terminal, and not with NO_COLOR or TERM=dumb" {
	cli SET lock:x token PX 60000 >/dev/null
	cat >coloured.py <<-'END'
		import os, sys
		from terminal import *

		def seen(*argv, **environment):
		    os.environ.update(TERM="xterm")
		    os.environ.pop("NO_COLOR", None)
		    os.environ.update(environment)
		    terminal = Terminal(*argv, columns=200)
		    terminal.wait()
		    return terminal.seen

		for argv in (("dlock", "status"), ("dlock", "check")):
		    check("\033[1m" in seen(*argv), argv)
		    check("\033[33m" in seen(*argv), argv)
		    check("\033[1m" in seen(*argv, NO_COLOR=""), argv)
		    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}):
		        check("\033" not in seen(*argv, **environment), argv, environment)
	END
	python <coloured.py
	local command
	for command in status check; do
		TERM=xterm try dlock $command
		refute grep -q $'\e' try.out
	done
	cli FLUSHALL >/dev/null
}

@test "on a terminal the table is cut to its width, elsewhere it is not" {
	begin_holder one "$(printf 'x%.0s' {1..200})"
	try dlock status
	assert_match "$out" $'\n''x{200} '
	python <<-'END'
		from terminal import *
		terminal = Terminal("sh", "-c", "sleep 0.2; exec dlock status", columns=70)
		terminal.wait()
		lines = terminal.seen.replace("\r", "").splitlines()
		import re
		lines = [re.sub("\033\\[[0-9;]*m", "", line) for line in lines]
		check(len(lines) == 2 and max(map(len, lines)) == 70, lines)
		check("x\u2026 " in lines[1], lines)
	END
	let_go one
}

@test "what a terminal must not get is made visible: in the table, in messages, in the wait line" {
	# ESC, C1 (CSI), a bidi override and its isolates, a line separator, bytes that are no UTF-8.
	local bad=$'\e[31mA\u009b2JB\u202eC\u2066D\u200fE\u2028F\xff\xfeG'
	cli SET "lock:n$bad" foreign PX 60000 >/dev/null
	begin_holder one x
	local token
	token=$(cli GET lock:x)
	local record
	record=$(cli GET "lock:{lock:x}:who:$token")
	cli SET "lock:{lock:x}:who:$token" "${record%%host=*}host=h$bad"$'\t'"pid=1"$'\t'"user=u$bad"$'\t'"label=l$bad" KEEPTTL >/dev/null
	cat >clean.py <<-'END'
		import sys
		data = open(sys.argv[1], "rb").read()
		for part in (b"\x1b[31m", b"\xc2\x9b", b"\xe2\x80\xae", b"\xe2\x81\xa6", b"\xe2\x80\x8f", b"\xe2\x80\xa8", b"\xff"):
		    assert part not in data, (part, data)
		assert b"?[31mA?2JB?C?D?E?F" in data, data
	END
	try dlock status
	assert "$PYTHON" clean.py try.out
	assert_match "$out" $'\n''n\?\[31mA\?2JB\?C\?D\?E\?F\?\?G '
	assert_match "$out" ' h\?\[31m.* u\?\[31m.* l\?\[31m'
	try dlock status --json
	assert "$PYTHON" clean.py try.out
	try dlock -n x true
	assert "$PYTHON" clean.py try.err
	assert_match "$err" '^dlock: x: .*held by h\?\[31mA'
	try dlock status --openmetrics
	refute grep -qP '\x1b|\xc2\x9b|\xe2\x80\xae|\xff' try.out
	assert grep -qF 'dlock_held{name="n\\x1b[31mA\\xc2\\x9b2JB\\xe2\\x80\\xaeC' try.out
	python <<-'END'
		from terminal import *
		terminal = Terminal("dlock", "-w", "1", "x", "true", columns=300)
		terminal.wait()
		open("wait", "wb").write(terminal.seen.encode())
		terminal = Terminal("dlock", "status", "--watch", columns=300)
		terminal.expect("(?s)NAME.*\033\\[J")
		terminal.send("q")
		terminal.wait()
		open("watch", "wb").write(terminal.seen.encode())
	END
	assert "$PYTHON" clean.py wait
	assert grep -q 'waiting for' wait
	assert "$PYTHON" clean.py watch
	cli FLUSHALL >/dev/null
	let_go one || true
}
