# Everything stands still for longer than the lock lasts: suspended, or stopped by a terminal.

load ../lib/helper
load ../lib/deaf

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

# What a laptop does: every process of the run stands still past the end of the lock, and another
# process has it meanwhile.
suspended() {
	start_deaf one -t $((2 * TEST_PATIENCE))
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
	begin_holder two x
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

# A job under a shell with job control: Ctrl-Z stops COMMAND, and the keeper goes on renewing. TTL and SECONDS are stretched.
ctrl_z() { # SECONDS THIEF
	needs terminal
	python "$SERVER/socket" "$@" <<-'END'
		import subprocess, sys, time
		from terminal import PATIENCE, Shell, check, process_state, wait_until

		socket, seconds, thief = sys.argv[1], float(sys.argv[2]) * PATIENCE, sys.argv[3] == "thief"

		def call(*words):
		    return subprocess.run(["redis-cli", "-s", socket, *words], capture_output=True,
		                          text=True).stdout.strip()

		def text(path):
		    try:
		        return open(path).read().strip()
		    except FileNotFoundError:
		        return ""

		shell = Shell()
		shell.send(f"dlock -t {2 * PATIENCE} x sh -c 'echo $$ >command; until [ -e end ]; do sleep 0.05; done; exit 7'\n")
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
		from terminal import PATIENCE, Shell, check, process_state, wait_until

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
		shell.send(f"dlock -t {2 * PATIENCE} x sh -c 'echo $$ >command; until [ -e begin ]; do sleep 0.05; done;"
		           f" {action}; exit 7' &\n")
		wait_until(lambda: text("command"), "COMMAND")
		command = int(text("command"))
		token = call("GET", "lock:x")
		open("begin", "w").close()
		wait_until(lambda: process_state(command) == "T", "COMMAND's stop")
		until = time.monotonic() + 3 * PATIENCE
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

@test "COMMAND reads the terminal in the background (SIGTTIN): the lock stays past its TTL; fg" {
	needs terminal
	stopped_by_terminal true 'read -r line; echo "said" $line' hello
}

@test "COMMAND writes to it in the background (SIGTTOU): the same" {
	needs terminal
	stopped_by_terminal 'stty tostop' 'echo "said" $((6 * 7))' 42
}

@test "Ctrl-Z and fg within the TTL: the lock stays" { ctrl_z 0.5 none; }

@test "Ctrl-Z, and fg past the TTL: the lock stays" { ctrl_z 3 none; }

@test "Ctrl-Z and a thief: COMMAND is ended while it is stopped, fg says 80" { ctrl_z 2 thief; }
