# Five servers for a quorum, which a test may kill, stop and restart empty: `load ../lib/helper`, then
# `load ../lib/quorum`.

# How one of them is started, and restarted: a file may have ways of its own.
one_begin() { server_begin "$@"; }
one_again() { server_again "$@"; }

setup_file() {
	file_begin
	local i
	for i in 1 2 3 4 5; do
		one_begin "$BATS_FILE_TMPDIR/q$i"
	done
	ln -s "$(realpath "${TEST_BIN:-$BATS_TEST_DIRNAME/../programs}/lock_probe")" "$BIN/lock_probe"
}

teardown_file() {
	local i
	for i in 1 2 3 4 5; do
		server_end "$BATS_FILE_TMPDIR/q$i"
	done
	file_end
}

setup() {
	local i
	test_begin
	for i in 1 2 3 4 5; do
		[[ -e $(dir_of "$i")/pid ]] || one_again "$(dir_of "$i")"
		on "$i" FLUSHALL >/dev/null
		on "$i" CONFIG RESETSTAT >/dev/null
	done
	export DLOCK_SERVER
	DLOCK_SERVER=$(url 1 2 3 4 5)
}

# Those that a test stopped go on; then nothing may be left on any of them but what is remembered.
teardown() {
	local i failed=0
	thaw 1 2 3 4 5
	if [[ -n ${BATS_TEST_COMPLETED:-} ]]; then
		wait_until nothing_runs || failed=1
		for i in 1 2 3 4 5; do
			wait_until is_clean "$i" || {
				on "$i" KEYS '*'
				failed=1
			}
		done
	fi
	test_end || failed=1
	return $failed
}

dir_of() { echo "$BATS_FILE_TMPDIR/q$1"; }
on() { cli_of "$(dir_of "$1")" "${@:2}"; }
port_of() { echo "$(<"$(dir_of "$1")/port")"; }
url() {
	local i list=
	for i; do
		list+=,127.0.0.1:$(port_of "$i")
	done
	echo "redis+quorum://${list:1}"
}

freeze() {
	local i pids=()
	for i; do
		pids+=("$(<"$(dir_of "$i")/pid")")
	done
	halt "${pids[@]}"
}
thaw() {
	local i
	for i; do
		[[ ! -e $(dir_of "$i")/pid ]] || kill -CONT "$(<"$(dir_of "$i")/pid")" 2>/dev/null || true
	done
}
slay() {
	local i pid
	for i; do
		[[ ! -e $(dir_of "$i")/pid ]] || kill_remembered "$(dir_of "$i")/pid"
	done
	for i; do
		server_end "$(dir_of "$i")"
	done
}
# Side by side: a lock's TTL goes on meanwhile.
revive() {
	local i starts=()
	for i; do
		one_again "$(dir_of "$i")" &
		starts+=($!)
	done
	for i in "${starts[@]}"; do
		wait "$i" || return
	done
}

# Of a server that is not there nothing can be left.
is_clean() {
	[[ ! -e $(dir_of "$1")/pid || -z $(on "$1" KEYS '*' | grep -v ':meta$') ]]
}

owner() { on "$1" GET "lock:${2:-x}"; }
is_owned_on() { [[ -n $(owner "$1" "${2:-x}") ]]; }
is_free_on() { [[ -z $(owner "$1" "${2:-x}") ]]; }
fence_on() { on "$1" HGET "$(meta_of x)" fence; }

# How many of the five have x in the name of TOKEN.
count_owned() {
	local i count=0
	for i in 1 2 3 4 5; do
		[[ ! -e $(dir_of "$i")/pid || $(owner "$i") != "$1" ]] || ((++count))
	done
	echo "$count"
}

evalshas() { # SERVER: how many scripts were called there
	on "$1" INFO commandstats | sed -n 's/^cmdstat_evalsha\?:calls=\([0-9]*\).*/\1/p' | awk '{ sum += $1 } END { print sum + 0 }'
}

queued() { # SERVER COUNT
	[[ $(on "$1" ZCARD 'lock:{lock:x}:queue') == "$2" ]]
}

# What the holder a's COMMAND was given.
variable() { tr '\0' '\n' <"/proc/$a_command/environ" | sed -n "s/^$1=//p"; }

# What is left on these servers of waiters expires within a minute; then it is taken away.
ends_by_itself() {
	local one key left
	for one; do
		for key in $(on "$one" KEYS '*' | grep -v ':meta$'); do
			left=$(on "$one" PTTL "$key")
			[[ $left == -2 ]] || assert_between "$left" 0 60000 "the expiry of $key on $one"
		done
		on "$one" FLUSHALL >/dev/null
	done
}
