# A PostgreSQL server of a test's own: `load ../lib/postgres`, then database_begin in the test and
# database_end in teardown.

# database_make FOLDER: what a server of ours needs, in FOLDER/data. DATABASE_TEMPLATE may name one, for tests of which
# each would make its own.
database_make() {
	[[ $(id -u) != 0 ]] || chown nobody "$1"
	(cd "$1" && database_as "$programs/initdb" -D data -U tester -A trust -E UTF8 -N) >"$1/initdb.out" 2>&1
}

# Run by a user without rights, from Debian's folder or that in POSTGRES_PROGRAMS (another version), on a socket in a folder of its own.
database_begin() {
	[[ -z ${BATS_TEST_NAME:-} ]] || of_build postgres # not in setup_file
	programs=$(database_programs)
	database=$(mktemp -d /tmp/dlock-database-XXXXXX)
	[[ $(id -u) != 0 ]] || chown nobody "$database"
	if [[ -n ${DATABASE_TEMPLATE:-} ]]; then
		cp -a "$DATABASE_TEMPLATE" "$database/data"
	else
		database_make "$database"
	fi
	export database programs PGHOST=$database PGUSER=tester PGDATABASE=postgres PGOPTIONS= PSQLRC=/dev/null
	database_start
}

database_programs() { echo "${POSTGRES_PROGRAMS:-$(find /usr/lib/postgresql/*/bin -maxdepth 0 | sort -V | tail -n 1)}"; }

# Words before a command that is to run as the server does.
database_words() {
	echo env -u TEST_MARK "$([[ $(id -u) != 0 ]] || echo setpriv --reuid nobody --regid nogroup --clear-groups)"
}

database_as() {
	# shellcheck disable=SC2046 # words
	exec $(database_words) "$@"
}

database_start() { # [OPTION]...
	(cd "$database" && database_as "$programs/postgres" -D data -c listen_addresses= \
		-c unix_socket_directories="$database" -c fsync=off "$@" >>log 2>&1 </dev/null 3>&- 4>&-) &
	wait_until psql -qAtc 'SELECT 1' -o /dev/null 2>/dev/null
}

database_pid() { head -n 1 "$database/data/postmaster.pid"; }

# It crashes: its sessions end without a word.
database_stop() {
	local pid
	pid=$(database_pid)
	kill -QUIT "$pid"
	wait_until is_gone "$pid"
}

database_end() {
	[[ -n ${database:-} ]] || return 0
	local pid
	pid=$(database_pid 2>/dev/null) || pid=
	if [[ -n $pid && /proc/$pid/cwd -ef $database/data ]]; then # a crash leaves its number, another's perhaps
		kill -INT "$pid" # disconnect everybody, then end
		wait_until is_gone "$pid"
	fi
	rm -rf "$database"
}
