# What becomes of command and lock when the wrapper is asked to end, is killed, or loses its server.
# TTL 10 s; the command sleeps for 25. All cases run side by side.
# shellcheck shell=bash disable=SC2154

failures_watch=16 # seconds, from the blow on
failures_command='echo $$ >"$1/command.new" && mv "$1/command.new" "$1/command" && exec sleep 25'

# lives PID: and is no zombie that waits for a slow reaper.
lives() {
	[[ $(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null) == [!ZX] ]]
}

died() {
	! lives "$1"
}

# lock_is_free NAME FOLDER: by the server's word; a dead server has none to give.
lock_is_free() {
	case $1 in
	flock) flock -n "$2/file" true ;;
	etcdctl) [[ -z $(env "${settings[@]}" etcdctl get --prefix --keys-only bench) ]] ;;
	*) [[ -z $(redis-cli -s "$2/redis.sock" keys '*bench' 2>&1) ]] ;;
	esac
}

# watch_fall NAME FOLDER: when the command and the lock ended, in tenths of a second from now; "-"
# for what outlived the watch.
watch_fall() {
	local start=${EPOCHREALTIME/./} command tenths command_end=- lock_end=-
	command=$(<"$2/command")
	for (( ; ; )); do
		tenths=$(((${EPOCHREALTIME/./} - start) / 100000))
		[[ $command_end != - ]] || lives "$command" || command_end=$tenths
		[[ $lock_end != - ]] || ! lock_is_free "$1" "$2" || lock_end=$tenths
		((tenths < failures_watch * 10)) && [[ $command_end == - || $lock_end == - ]] || break
		sleep 0.1
	done
	echo "$command_end $lock_end"
}

# in_seconds TENTHS: "at once", or "after S s".
in_seconds() {
	if (($1 < 5)); then
		echo "at once"
	else
		echo "after $(awk -v t="$1" 'BEGIN { printf "%.1f", t / 10 }') s"
	fi
}

# tell_fall COMMAND_END LOCK_END: the cell of the table.
tell_fall() {
	local command="command lives on" lock="lock held"
	[[ $1 == - ]] || command="command stopped $(in_seconds "$1")"
	[[ $2 == - ]] || lock="free $(in_seconds "$2")"
	echo "$command, $lock"
}

# failure_case NAME CASE: one blow to one wrapper; the cell goes to a file.
failure_case() {
	local folder=$work/failures/$1-$2 wrapper ends command_end lock_end status dlock_options=(-t 10s)
	started=()
	trap '((${#started[@]} == 0)) || kill -KILL "${started[@]}" 2>/dev/null' EXIT
	contestant_server "$1" "$folder" || return
	env "${settings[@]}" "${lock[@]}" sh -c "$failures_command" sh "$folder" 2>"$folder/stderr" &
	wrapper=$!
	until_true 10 test -s "$folder/command" || return
	started+=("$wrapper" "$(<"$folder/command")")
	sleep 1
	failure_blow "$1" "$2" "$wrapper"
	ends=$(watch_fall "$1" "$folder" "$wrapper")
	read -r command_end lock_end <<<"$ends"
	if until_true 20 died "$wrapper"; then
		wait "$wrapper"
		status="exit $?"
	else
		status="wrapper hangs"
	fi
	failure_cell "$2" "$command_end" "$lock_end" "$status" >"$folder/cell"
}

# failure_blow NAME CASE WRAPPER
failure_blow() {
	case $2 in
	term) kill -TERM "$3" ;;
	kill) kill -KILL "$3" ;;
	server)
		if [[ $1 == etcdctl ]]; then
			kill -KILL "$etcd_pid"
		else
			kill -KILL "$redis_pid"
		fi
		;;
	esac
}

# failure_cell CASE COMMAND_END LOCK_END STATUS
failure_cell() {
	case $1 in
	term) echo "$(tell_fall "$2" "$3"), $4" ;;
	kill) tell_fall "$2" "$3" ;;
	server)
		if [[ $2 == - ]]; then
			echo "command goes on, $4"
		else
			echo "command stopped $(in_seconds "$2"), $4"
		fi
		;;
	esac
}

# failure_codes NAME: what the wrapper makes of exit 7, of a signal and of a missing command.
failure_codes() {
	local folder=$work/failures/$1-codes codes=()
	contestant_server "$1" "$folder" || return
	env "${settings[@]}" "${lock[@]}" sh -c 'exit 7' 2>/dev/null
	codes+=($?)
	env "${settings[@]}" "${lock[@]}" sh -c 'kill -TERM $$' 2>/dev/null
	codes+=($?)
	env "${settings[@]}" "${lock[@]}" ./no-such-command 2>/dev/null
	codes+=($?)
	figure failures "$1" codes "${codes[*]}"
}

measure_failures() {
	local name case jobs=()
	rm -rf "$work/failures"
	mkdir -p "$work/failures"
	for name in "${contestants[@]}"; do
		[[ $name != @(dlock-tcp|shared|shared-tcp|dlock-file|dlock-etcd|dlock-postgres|psql|libpq|dlock-zookeeper|kazoo) ]] || continue
		for case in term kill server; do
			[[ $name == flock && $case == server ]] && continue
			failure_case "$name" "$case" 2>"$work/failures/$name-$case.log" &
			jobs+=($!)
		done
	done
	wait "${jobs[@]}"
	for name in "${contestants[@]}"; do
		[[ $name != @(dlock-tcp|shared|shared-tcp|dlock-file|dlock-etcd|dlock-postgres|psql|libpq|dlock-zookeeper|kazoo) ]] || continue
		for case in term kill server; do
			[[ ! -s $work/failures/$name-$case/cell ]] ||
				figure failures "$name" "$case" "$(<"$work/failures/$name-$case/cell")"
		done
		failure_codes "$name"
	done
}
