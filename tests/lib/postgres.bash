# A PostgreSQL server of a test's own: `load ../lib/postgres`, then database_begin in the test and
# database_end in teardown.

# Run by a user without rights, on a socket in a folder of its own.
database_begin() {
	local programs as=()
	programs=$(find /usr/lib/postgresql/*/bin -maxdepth 0 | sort -V | tail -n 1)
	database=$(mktemp -d /tmp/dlock-database-XXXXXX)
	if [[ $(id -u) == 0 ]]; then
		chown nobody "$database"
		as=(setpriv --reuid nobody --regid nogroup --clear-groups)
	fi
	(cd "$database" && "${as[@]}" "$programs/initdb" -D data -U tester -A trust -E UTF8 -N) >initdb.out 2>&1
	(cd "$database" && exec "${as[@]}" "$programs/postgres" -D data -c listen_addresses= \
		-c unix_socket_directories="$database" -c fsync=off >log 2>&1 </dev/null 3>&- 4>&-) &
	database_pid=$!
	export PGHOST=$database PGUSER=tester PGDATABASE=postgres PGOPTIONS= PSQLRC=/dev/null
	wait_until psql -qAtc 'SELECT 1' -o /dev/null 2>/dev/null
}

database_end() {
	[[ -n ${database:-} ]] || return 0
	kill -INT $database_pid # disconnect everybody, then end
	wait_until is_gone $database_pid
	rm -rf "$database"
}
