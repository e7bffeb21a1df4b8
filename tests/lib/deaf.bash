# A COMMAND that nothing but SIGKILL ends: `load ../lib/helper`, then `load ../lib/deaf`.

# A COMMAND that says its pid and lives on whatever is asked of it.
write_deaf() {
	cat >deaf <<-'END'
		#!/bin/bash
		trap '' TERM INT HUP QUIT
		echo $$ >deaf.new && mv deaf.new command
		while :; do sleep 0.2; done
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

expiry() { expiry_of lock:x; }
