# The lock service PostgreSQL, for service/conformance.bats; service_redis.bash says what each function is for.

load ../lib/postgres

service_word=PostgreSQL

service_begin() { database_begin; }
service_end() {
	service_thaw
	database_end
}

service_reset() {
	[[ -z ${database_stopped:-} ]] || service_again
	psql -qAtc 'DROP SCHEMA IF EXISTS dlock CASCADE' -o /dev/null 2>/dev/null
}

# Rows of locks stay; a waiter whose session has ended stands in nobody's way.
service_left() {
	psql -qAt 2>/dev/null <<-'END' || true
		SELECT 'holder', name, token, state FROM dlock.holder WHERE expires > dlock.now_us() AND state <> 'kept';
		SELECT 'holder', name, alone FROM dlock.lock WHERE alone <> '' AND expires > dlock.now_us();
		SELECT 'waiter', name, token FROM dlock.waiter WHERE dlock.lives(session);
	END
}

service_reap() { :; }

# A lock that nobody has is taken by a statement of its own, but not if users of advisory locks are to be
# excluded: every second test excludes them, and each in which there is one.
service_url() {
	local advisory=
	[[ ! $BATS_TEST_DESCRIPTION =~ ^foreign:|another\ client && $((BATS_TEST_NUMBER % 2)) == 1 ]] || advisory="&dlock_advisory=hashtext"
	echo "postgres://tester@/postgres?host=$database$advisory"
}
service_shown() { echo "$DLOCK_SERVER"; }
service_named() { # the server has but a socket
	local port
	port=$(free_port)
	service "$BATS_TEST_DIRNAME/../programs/cutter.py" "$port" "$database/.s.PGSQL.5432" 'cuts at nothing'
	wait_until is_served "$port"
	echo "postgres://tester@lockhost:$port/postgres"
}
service_nowhere() { echo postgres://127.0.0.1:1/nowhere; }
service_wrong() {
	printf '%s\n' 'postgres://h/db?nonsense=1' 'postgres://[::1/db' 'postgres://h/db?dlock_x=1' \
		'postgres://h/db?dlock_advisory='
}

service_kill() {
	database_stop
	declare -g database_stopped=yes
}
service_again() {
	database_start
	declare -g database_stopped=
}
service_restart() { echo 6; }
service_crowd() { echo 25; }
service_settles() { :; }
service_freeze() {
	halt $(database_pids)
}
service_thaw() {
	kill -CONT $(database_pids) 2>/dev/null || true
}
database_pids() {
	local pid
	pid=$(database_pid)
	echo "$pid $(pgrep -P "$pid" | tr '\n' ' ')"
}
# Its processes come and go with the sessions: none is stopped alone.
service_pids() { :; }

service_harms() {
	local one="SELECT pid FROM pg_stat_activity WHERE application_name = 'dlock' ORDER BY random() LIMIT 1"
	local ask="psql -X -qAt -h $database -U tester -d postgres -c"
	echo "end a session=$ask \"SELECT pg_terminate_backend(pid) FROM ($one) AS one\""
	# Until the server has recovered: if it is told to end before that, it stands still for ever
	# (PostgreSQL 15: the postmaster waits for its checkpointer, and has not told it to end).
	echo "kill a session's process=pid=\$($ask \"$one\"); kill -KILL \$pid && while [ -e /proc/\$pid ]; do :; done;" \
		"until $ask 'SELECT 1'; do sleep 0.02; done"
	echo "restart the server=cd $database && $(database_words) $programs/pg_ctl restart -s -m fast -D data -l restarted"
}

service_steal() {
	psql -qAt -o /dev/null <<-END
		BEGIN;
		DELETE FROM dlock.holder WHERE name = 'lock:$1';
		UPDATE dlock.lock SET alone = NULL WHERE name = 'lock:$1';
		INSERT INTO dlock.holder VALUES ('lock:$1', 'thief', 'x', 'host=thief', dlock.now_us(),
			dlock.now_us() + 60000000, 60000, 0, NULL, 'held', true);
		COMMIT;
	END
}

# As a user of advisory locks has it, until its input ends.
service_foreign_take() {
	mkfifo foreign.in
	psql -qAt -v ON_ERROR_STOP=1 <foreign.in >foreign.out 2>&1 3>&- 4>&- &
	foreign_pid=$!
	exec {foreign_fd}>foreign.in
	rm foreign.in
	echo "SELECT pg_try_advisory_lock(hashtext('$1'));" >&$foreign_fd
	wait_until test -s foreign.out
	[[ $(<foreign.out) == t ]] && return
	foreign_end
	return 1
}

foreign_end() {
	exec {foreign_fd}>&-
	kill "$foreign_pid" 2>/dev/null || true # others may have its input, too
	wait "$foreign_pid" || true
	unset foreign_fd
	rm -f foreign.out
}

service_foreign_drop() {
	psql -qAtc "SELECT FROM dlock.force_2('lock:$1', 0) WHERE token = 'thief'" -o /dev/null
	[[ -z ${foreign_fd:-} ]] || foreign_end
}

service_keeps() { psql -qAt -c "COMMENT ON TABLE dlock.lock IS 'dlock format $2'"; }
service_dump() { psql -qAt -c "SELECT * FROM dlock.lock WHERE name = 'lock:$1'"; }
