# For service/conformance.bats: the service under test, and its column of the table.

table=$BATS_TEST_DIRNAME/../lib/service_table
service=${BATS_TEST_FILENAME##*/conformance_}
service=${service%.bats}
load "../lib/service_$service"
load ../lib/contenders

setup_file() {
	programs_begin
	service_begin
}

teardown_file() { service_end; }

setup() {
	environment_begin
	service_reset
	export DLOCK_SERVER
	DLOCK_SERVER=$(service_url)
	write_work
	write_stint
	of_build "$service"
}

# Each test leaves nothing: no process, and nothing with the service.
teardown() {
	service_thaw
	environment_end nothing_is_left || {
		service_left
		return 1
	}
}

nothing_is_left() { [[ -z $(service_left) ]]; }

# ---- The table -----------------------------------------------------------------------------------

# column FEATURE NAME: what the table has there.
column() {
	awk -v feature="$1" -v name="$2" '
		/^#/ { next }
		$1 == "feature" { for (i = 1; i <= NF; i++) if ($i == name) at = i }
		$1 == feature && at { print $at }' "$table"
}

cell() { column "$1" "$service"; }

# has FEATURE: the service has it. A test goes on with `has FEATURE || { refuses FEATURE; return; }`.
has() { [[ $(cell "$1") != @(64|no|) ]]; }

# lacks FEATURE: the table says that it is neither had nor refused.
lacks() { assert_equal "$(cell "$1")" no "$1 of $service"; }

# refuses FEATURE: by every command that takes the option, in one sentence, of a server that no command
# could have asked.
refuses() {
	local option commands nowhere
	assert_equal "$(cell "$1")" 64 "$1 of $service"
	option=$(column "$1" option)
	commands=${option#*:} option=${option%:*}
	nowhere=$(service_nowhere)
	if [[ $commands == t ]]; then
		local token=host:1:00112233445566778899aabbccddeeff command
		for command in "acquire x" "renew x $token" "release x $token"; do
			# shellcheck disable=SC2086 # words
			refused 'a lock by token' dlock ${command%% *} -S "$nowhere" ${command#* }
		done
		assert nothing_is_left
		return
	fi
	[[ $commands != *r* ]] || refused "$option" dlock -S "$nowhere" "$option" x touch ran
	[[ $commands != *r* ]] || refused "$option" dlock -S "$nowhere" "$option" -n --if-unreachable skip x touch ran
	[[ $commands != *h* ]] || refused "$option" dlock hold -S "$nowhere" "$option" x
	[[ $commands != *a* ]] || ! has by-token || refused "$option" dlock acquire -S "$nowhere" "$option" x
	refused "$option" dlock "$option" --report report x touch ran
	assert_equal "$(jq -r .outcome report)" usage 'outcome'
	refute_file ran
	refute_file nowhere
	assert nothing_is_left
}

refused() { # OPTION COMMAND...
	try "${@:2}"
	expect_failure 64 "^dlock: x: ${1%%=*} cannot be had from $service_word \(.+\)\$"
}

# ttl SECONDS: so long, or as long as the service has them at least, or at most; for -t.
ttl() {
	local least most ms=$(($1 * 1000 * TEST_PATIENCE))
	IFS=: read -r least _ most <<<"$(cell ttl)"
	((ms >= least)) || ms=$least
	[[ -z $most ]] || ((ms <= most)) || ms=$most
	echo ${ms}ms
}

# by_name: the URL, with the name lockhost for 127.0.0.1.
by_name() { echo "${DLOCK_SERVER//127.0.0.1/lockhost}"; }

# names_begin: ./with_names COMMAND... has the names in ./hosts, lockhost at first, and no name server.
names_begin() {
	cat >with_names <<-'END'
		#!/bin/sh
		exec in_mounts sh -c 'mount --bind hosts /etc/hosts && mount --bind resolv.conf /etc/resolv.conf && exec "$@"' sh "$@"
	END
	chmod +x with_names
	echo 'nameserver 127.0.0.1' >resolv.conf
	echo '127.0.0.1 lockhost' >hosts
}

least_ms() { cell ttl | cut -d: -f1; } # of a TTL

in_ms() { echo "${1%ms}"; }
