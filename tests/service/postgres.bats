# Locks in PostgreSQL: what the server, its administrator and other clients may do to them. conformance_postgres.bats
# has what every lock service must do.

load ../lib/helper
load ../lib/work
load ../lib/postgres

setup_file() {
	programs_begin
	database_begin
}
teardown_file() { database_end; }

setup() {
	environment_begin
	query 'DROP SCHEMA IF EXISTS dlock CASCADE'
	export DLOCK_SERVER=postgres://tester@/postgres?host=$database
	write_work
	of_build postgres
}
teardown() { environment_end nothing_is_left; }

query() { psql -qAtc "$1" 2>/dev/null; }
nothing_is_left() { [[ -z $(query "SELECT name FROM dlock.lock WHERE EXISTS (SELECT FROM dlock.owners_2(name) WHERE kind = 'h')") ]]; }
waits() { [[ $(query "SELECT count(*) FROM dlock.waiter WHERE name = 'lock:$1' AND dlock.lives(session)") == "$2" ]]; }
ours="SELECT pid FROM pg_stat_activity WHERE application_name = 'dlock'"

holder() { # NAME LOCK [OPTION]...
	start "$1" dlock "${@:3}" "$2" ./work "$1"
	wait_until has_begun "$1"
}
ends() {
	: >"$1.go"
	finish "$1"
}
waiter() { # NAME LOCK COUNT: it is the COUNTth
	start "$1" dlock "$2" ./work "$1"
	wait_until waits "$2" "$3"
}
# So many sessions have asked, and have nothing left to do.
rest() {
	[[ $(query "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dlock' AND state = 'idle'
		AND query LIKE '%acquire%'") == "$1" ]]
}
fence_of_x() { query "SELECT fence FROM dlock.lock WHERE name = 'lock:x' AND EXISTS (SELECT FROM dlock.owners_2(name))"; }

@test "pg_terminate_backend of holder and waiters: it goes on, they keep their places" {
	holder a x -t 3
	local fence name
	fence=$(fence_of_x)
	waiter b x 1
	waiter c x 2
	waiter d x 3
	for _ in 1 2 3; do
		query "SELECT pg_terminate_backend(pid) FROM ($ours) AS one" >/dev/null
		wait_until waits x 3
	done
	stays 3500 has_not_ended a
	assert_equal "$(fence_of_x)" "$fence"
	for name in b c d; do
		: >$name.go
	done
	ends a
	expect 0 '' "$err"
	for name in b c d; do
		finish $name
		expect 0 '' "$err"
	done
	assert_equal "$(sed -n 's/.* begin //p' spans | tr '\n' ' ')" 'a b c d '
}
has_not_ended() { ! has_ended "$1"; }

@test "a backend is killed while waiters hammer: the server restarts itself, and nobody overlaps" {
	holder a x -t 5
	waiter b x 1
	start c bash -c 'until dlock -qn x ./work c; do sleep 0.05; done'
	kill -KILL "$(query "$ours LIMIT 1")"
	wait_until query 'SELECT 1' >/dev/null
	wait_until waits x 1
	stays 1500 has_not_ended a
	refute has_begun b
	refute has_begun c
	: >c.go
	: >b.go
	ends a
	expect 0 '' "$err"
	finish b
	expect 0 '' "$err"
	finish c
	after a b
	assert_match "$(<"$database/log")" 'terminated by signal 9'
}

@test "a waiter is no snapshot and no statement: CREATE INDEX CONCURRENTLY as COMMAND ends" {
	query 'DROP TABLE IF EXISTS big; CREATE TABLE big AS SELECT generate_series(1, 1000) AS n'
	cat >build <<-'END'
		#!/bin/sh
		: >built.begun
		until [ -e built.go ]; do sleep 0.02; done
		psql -qAtc 'CREATE INDEX CONCURRENTLY ON big (n)'
	END
	chmod +x build
	start a dlock x ./build
	wait_until test -e built.begun
	waiter b x 1
	waiter c x 2
	wait_until rest 2
	assert_equal "$(query "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dlock' AND
		(backend_xmin IS NOT NULL OR backend_xid IS NOT NULL OR state <> 'idle')")" 0
	: >built.go
	: >b.go
	: >c.go
	finish a
	expect 0
	finish b
	expect 0
	finish c
	expect 0
}

@test "a role with hostile settings: time-outs, isolation, read only, its schema before ours" {
	query "DROP ROLE IF EXISTS hostile; CREATE ROLE hostile LOGIN SUPERUSER;
		ALTER ROLE hostile SET statement_timeout = '100ms'; ALTER ROLE hostile SET idle_session_timeout = '200ms';
		ALTER ROLE hostile SET default_transaction_isolation = 'repeatable read';
		ALTER ROLE hostile SET default_transaction_read_only = on; ALTER ROLE hostile SET synchronous_commit = off;
		ALTER ROLE hostile SET lock_timeout = '1ms'; ALTER ROLE hostile SET search_path = evil"
	query "ALTER ROLE hostile SET transaction_timeout = '200ms'" || true # from PostgreSQL 17 on
	export DLOCK_SERVER=postgres://hostile@/postgres?host=$database
	holder a x -t $((9 * TEST_PATIENCE))
	waiter b x 1
	local before
	before=$(query "$ours ORDER BY 1")
	assert_equal "$(wc -w <<<"$before")" 2
	# The first renewal, after a third of the TTL, has to wait for the row, and for longer than each time-out.
	query "DO \$\$ BEGIN
		PERFORM FROM dlock.lock FOR UPDATE;
		WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'dlock' AND wait_event_type = 'Lock') LOOP
			PERFORM pg_sleep(0.05), pg_stat_clear_snapshot();
		END LOOP;
		PERFORM pg_sleep(0.5);
		END \$\$"
	stays 1000 has_not_ended a
	assert_equal "$(query "$ours ORDER BY 1")" "$before" 'the sessions after the renewal'
	ends a
	expect 0 '' "$err"
	ends b
	expect 0 '' "$err"
	query 'DROP SCHEMA dlock CASCADE; DROP ROLE hostile'
}

@test "no right to make the schema: 77, and what an administrator has to do; with it all works" {
	query 'DROP ROLE IF EXISTS "Poor"; CREATE ROLE "Poor" LOGIN'
	export DLOCK_SERVER=postgres://Poor@/postgres?host=$database
	try dlock x touch ran
	expect_failure 77 'permission denied.*administrator.*dlock check'
	try dlock check
	assert_equal "$status" 77
	assert_match "$out" 'CREATE TABLE .*GRANT USAGE ON SCHEMA dlock TO "Poor";'
	psql -qAt -v ON_ERROR_STOP=1 <<<"${out#*$'\n\n'}" 2>/dev/null
	try dlock x echo ran
	expect 0 ran
	try dlock check
	assert_between "$status" 0 1 # fsync is off
	query 'DROP SCHEMA dlock CASCADE'
	DLOCK_SERVER=postgres://tester@/postgres?host=$database try dlock x true
	try dlock x touch ran
	expect_failure 77 'permission denied.*administrator'
	try dlock check --json
	assert_equal "$status" 77
	refute_match "$out" 'CREATE TABLE'
	"$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["findings"][0]["script"])' <<<"$out" |
		psql -qAt -v ON_ERROR_STOP=1
	refute_file ran
	try dlock --shared x echo ran
	expect 0 ran
	query 'DROP OWNED BY "Poor"; DROP ROLE "Poor"'
}

@test "no such database, role or password: 78 and 77; the password is nowhere to be seen" {
	try dlock -S "postgres://tester@/nowhere?host=$database" x touch ran
	expect_failure 78 'nowhere'
	try dlock -S "postgres://nobody:s3cret@/postgres?host=$database" x touch ran
	expect_failure 77 'nobody'
	refute_match "$err" s3cret
	try dlock -S "postgres://tester@/nowhere?host=$database&password=s3cret" --report report x touch ran
	refute_match "$err$(<report)" s3cret
	refute_file ran
	start a dlock -S "postgres://tester:s3cret@/postgres?host=$database&password=s3cret" x ./work a
	wait_until has_begun a
	refute_match "$(ps -eo args)" s3cret
	refute_match "$(dlock status --json x)" s3cret
	ends a
	expect 0
}

@test "a pooler: 78, since its sessions are not ours alone" {
	local mode granted
	dlock x true # now all that a lock needs is there
	granted=$(query 'SELECT sum(granted) FROM dlock.lock')
	for mode in transaction session; do
		cat >pooler.ini <<-END
			[databases]
			postgres = host=$database user=tester
			[pgbouncer]
			listen_addr =
			unix_socket_dir = $database
			listen_port = 6543
			auth_type = any
			pool_mode = $mode
			logfile = $database/pooler.log
			ignore_startup_parameters = extra_float_digits,options
		END
		cp pooler.ini "$database/pooler.ini"
		chmod 644 "$database/pooler.ini"
		(database_as env PATH="$PATH:/usr/sbin" pgbouncer -q "$database/pooler.ini" >pooler.out 2>&1 </dev/null 3>&- 4>&-) &
		wait_until test -S "$database/.s.PGSQL.6543"
		try dlock -S "postgres://tester@/postgres?host=$database&port=6543" x touch ran
		kill -INT "$(pgrep -f "pgbouncer -q $database")"
		wait_until is_gone $!
		expect_failure 78 'is a pooler.*give dlock the server itself'
	done
	assert_equal "$(query 'SELECT sum(granted) FROM dlock.lock')" "$granted" 'grants'
	refute_file ran
}

# A network of the holder's own, whose only way to the server is a relay on 127.0.0.1.
cut_off_begin() {
	needs network
	start world unshare "${AS_ROOT[@]}" --net sleep 600
	inside=(nsenter --target "$world_pid" --net)
	((EUID == 0)) || inside+=(--user --preserve-credentials)
	wait_until eval '[[ $(proc_status "$world_pid" Name) == sleep ]]' # then it has left ours
	wait_until eval '"${inside[@]}" ip link set lo up 2>/dev/null'
	start relay "${inside[@]}" "$PYTHON" "$BATS_TEST_DIRNAME/../programs/hole.py" 5432 "$database/.s.PGSQL.5432" \
		"$PWD/none" "$PWD/counts"
	wait_until eval '"${inside[@]}" bash -c ": </dev/tcp/127.0.0.1/5432" 2>/dev/null'
}

cut_off_end() {
	kill "$relay_pid" "$world_pid"
	finish relay
	finish world
}

@test "the network is cut: nothing happens within the validity; then COMMAND ends before the next" {
	cut_off_begin
	start a "${inside[@]}" "$BIN/dlock" -S postgres://tester@127.0.0.1/postgres -t 8 x ./work a
	wait_until has_begun a
	local fence
	fence=$(fence_of_x)
	waiter b x 1
	"${inside[@]}" ip link set lo down
	stays 1500 has_not_ended a
	"${inside[@]}" ip link set lo up
	stays 9000 has_not_ended a
	assert_equal "$(fence_of_x)" "$fence"
	refute has_begun b
	"${inside[@]}" ip link set lo down
	finish a
	assert_equal "$status" 80
	wait_until has_begun b
	after a b
	ends b
	expect 0 '' "$err"
	cut_off_end
}

# A standby of the file's server, on port 5433 of the same folder.
standby_begin() {
	(cd "$database" && database_as "$programs/pg_basebackup" -D standby -R -c fast -d "host=$database user=tester") \
		>basebackup.out 2>&1
	(cd "$database" && database_as "$programs/postgres" -D standby -c port=5433 -c listen_addresses= \
		-c unix_socket_directories="$database" -c fsync=off >standby.log 2>&1 </dev/null 3>&- 4>&-) &
	wait_until psql -p 5433 -qAtc 'SELECT 1' -o /dev/null 2>/dev/null
}

standby_end() {
	local pid
	pid=$(head -n 1 "$database/standby/postmaster.pid") || return 0
	kill -INT "$pid"
	wait_until is_gone "$pid"
	rm -rf "$database/standby"
}

follows() { [[ $(query "SELECT sync_state FROM pg_stat_replication") == sync ]]; }

@test "a standby gives no lock; promoted, it has what a synchronous primary had: it goes on" {
	standby_begin
	try dlock -S "postgres://tester@/postgres?host=$database&port=5433" -w 1 x touch ran
	expect_failure 69 'hot standby'
	query "ALTER SYSTEM SET synchronous_standby_names = '*'"
	query 'SELECT pg_reload_conf()'
	wait_until follows
	export DLOCK_SERVER="postgres://tester@/postgres?host=$database,$database&port=5432,5433"
	holder a x -t 8
	local fence
	fence=$(fence_of_x)
	waiter b x 1
	database_stop
	(cd "$database" && database_as "$programs/pg_ctl" promote -D standby) >promote.out 2>&1
	export PGPORT=5433
	wait_until waits x 1
	stays 4000 has_not_ended a
	assert_equal "$(fence_of_x)" "$fence"
	refute has_begun b
	: >b.go
	ends a
	expect 0 '' "$err"
	finish b
	expect 0 '' "$err"
	after a b
	unset PGPORT
	standby_end
	sed -i /synchronous_standby_names/d "$database/data/postgresql.auto.conf"
	database_start
}

@test "a plain dlock maps no libpq, and a run of its own program leaves no session" {
	try dlock -S "file:$PWD/locks" x sh -c 'cat /proc/$PPID/maps'
	assert_equal "$status" 0
	assert_match "$out" stack
	refute_match "$out" libpq
	try dlock x sh -c 'cat /proc/$PPID/maps'
	assert_equal "$status" 0
	assert_match "$out" libpq
	wait_until eval '[[ -z $(query "$ours") ]]'
}

@test "COMMAND has the caller's environment" {
	local given=(PATH="$PATH" A=1)
	try env -i "${given[@]}" "$(type -P dlock)" -S "$DLOCK_SERVER" x env
	assert_equal "$status" 0
	assert_equal "$(grep -v '^DLOCK_' <<<"$out" | sort)" "$(printf '%s\n' "${given[@]}" | sort)"
}

@test "one session waits, holds, and stays when the front has ended before what COMMAND left" {
	holder a x -t 60
	local before
	before=$(query "$ours")
	assert_equal "$(wc -w <<<"$before")" 1
	stays 700 has_not_ended a
	assert_equal "$(query "$ours")" "$before"
	waiter b x 1
	before=$(query "$ours ORDER BY 1")
	ends a
	expect 0 '' "$err"
	wait_until has_begun b
	stays 700 eval '! has_ended b'
	assert_match "$before" "$(query "$ours")" 'the session that waited holds the lock'
	ends b
	expect 0 '' "$err"
	# A front that ends before its keeper.
	try dlock -q x sh -c 'exec >/dev/null 2>&1; (until [ -e go ]; do sleep 0.05; done) &'
	expect 0
	before=$(query "$ours")
	assert_equal "$(wc -w <<<"$before")" 1
	stays 700 eval '[[ $(query "$ours") == '"$before"' ]]'
	: >go
	wait_until nothing_is_left
}

@test "idle waiters cost the server nothing: no statement, no transaction" {
	holder a x -t 60
	local name seen
	for name in 1 2 3 4 5; do
		waiter w$name x $name
	done
	wait_until rest 5
	assert_equal "$(query 'SELECT name FROM dlock.lock')" lock:x
	assert_equal "$(query 'SELECT count(*) FROM dlock.waiter')" 5
	seen=$(query "SELECT pid, query_start, state_change FROM pg_stat_activity WHERE application_name = 'dlock' ORDER BY 1")
	assert_equal "$(wc -l <<<"$seen")" 6
	stays 3000 has_not_ended a
	assert_equal "$(query "SELECT pid, query_start, state_change FROM pg_stat_activity
		WHERE application_name = 'dlock' ORDER BY 1")" "$seen" 'the sessions three seconds later'
	for name in 1 2 3 4 5; do
		: >w$name.go
	done
	ends a
	expect 0 '' "$err"
	for name in 1 2 3 4 5; do
		finish w$name
		expect 0 '' "$err"
	done
}

@test "what psql takes is taken: hosts, a service file, a password file, and DLOCK_PASSWORD" {
	try dlock -S "postgres://tester@/postgres?host=$PWD/none,$database" x echo ran
	expect 0 ran
	printf '[here]\nhost=%s\nuser=tester\ndbname=postgres\n' "$database" >services
	PGSERVICEFILE=$PWD/services PGHOST='' PGUSER='' PGDATABASE='' try dlock -S 'postgres:///?service=here' x echo ran
	expect 0 ran
	query "DROP ROLE IF EXISTS locked; CREATE ROLE locked LOGIN SUPERUSER PASSWORD 's3cret'"
	sed -i '1i local all locked scram-sha-256' "$database/data/pg_hba.conf"
	query 'SELECT pg_reload_conf()'
	export DLOCK_SERVER=postgres://locked@/postgres?host=$database
	wait_until refused_without_password
	refute_file ran
	echo '*:*:*:locked:s3cret' >passwords
	chmod 600 passwords
	PGPASSFILE=$PWD/passwords try dlock x echo ran
	expect 0 ran
	DLOCK_PASSWORD=s3cret try dlock x echo ran
	expect 0 ran
	echo s3cret >password
	chmod 600 password
	echo "password-file = $PWD/password" >settings
	try dlock --config settings x echo ran
	expect 0 ran
	# A session that begins after the file was changed has the new one.
	holder a x -t 4 --config settings
	query "ALTER ROLE locked PASSWORD 'changed'"
	echo changed >password
	query "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'locked'" >/dev/null
	stays 5000 is_alive "$(<a.pid)"
	ends a
	assert_equal "$status" 0 "$err"
	DLOCK_PASSWORD=wrong try dlock x touch ran
	expect_failure 77 'password'
	refute_file ran
	sed -i 1d "$database/data/pg_hba.conf"
	query 'SELECT pg_reload_conf()'
	query 'DROP ROLE locked'
}
refused_without_password() {
	try dlock x touch ran
	[[ $status == 77 ]]
}

@test "one name in every encoding of the client and of the role" {
	holder a é
	PGCLIENTENCODING=LATIN1 try dlock -n é touch ran
	assert_equal "$status" 1
	refute_file ran
	PGCLIENTENCODING=LATIN1 try dlock status --json é
	assert_match "$out" '"name":"é"'
	ends a
	expect 0 '' "$err"
}

@test "broken by force: COMMAND ends before its dlock has noticed: 80, no success on record" {
	holder a x -t 60
	try dlock release --force x
	assert_equal "$status" 0
	ends a
	assert_equal "$status" 80
	try dlock --cooldown 1h x echo ran
	expect 0 ran
}

@test "broken by force, with an advisory lock: free once its holder has heard of it" {
	export DLOCK_SERVER="postgres://tester@/postgres?host=$database&dlock_advisory=hashtext"
	holder a x -t $((6 * TEST_PATIENCE))
	local keeper
	keeper=$(keeper_of "$a_pid")
	kill -STOP "$keeper"
	wait_until is_stopped "$keeper"
	try dlock release --force x
	assert_equal "$status" 0
	try dlock -n x touch ran
	assert_equal "$status" 1
	assert_match "$err" 'another client with the advisory lock'
	kill -CONT "$keeper"
	finish a
	assert_equal "$status" 80
	refute_file ran
	try dlock -n x true
	expect 0
}

@test "broken by force: a claim is a waiter's, and stays" {
	dlock x true
	query 'UPDATE dlock.lock SET alone = NULL'
	query "INSERT INTO dlock.holder VALUES ('lock:x', 'waiter', 'x', 'host=h', dlock.now_us(), dlock.now_us() + 60000000,
		60000, 0, NULL, 'handed', false)"
	try dlock release --force x
	assert_equal "$(query 'SELECT count(*) FROM dlock.holder')" 1
	query 'DELETE FROM dlock.holder'
}

@test "a lock that nobody has used for a month is forgotten, unless held or in a longer cooldown" {
	try dlock old true
	try dlock --cooldown 50d cooled true
	holder a held -t 60
	holder b read -t 60 -s
	query "UPDATE dlock.lock SET fence = fence - 3000000000000, ticket = 0, last_success = concat_ws('|',
		split_part(last_success, '|', 1)::bigint - 3000000000000, split_part(last_success, '|', 2)::bigint - 3000000000000, 0, ''),
		expires = CASE WHEN alone = '' THEN expires - 3000000000000 ELSE expires END"
	try dlock new true
	expect 0
	assert_equal "$(query 'SELECT name FROM dlock.lock ORDER BY 1' | tr '\n' ' ')" 'lock:cooled lock:held lock:new lock:read '
	query "INSERT INTO dlock.lock (name, fence) VALUES ('lock:old', 1)"
	query "INSERT INTO dlock.lock (name, ticket) VALUES ('lock:refused', dlock.now_us())"
	try dlock -s newer true
	expect 0
	assert_equal "$(query "SELECT name FROM dlock.lock WHERE name IN ('lock:old', 'lock:refused')")" lock:refused
	try dlock --cooldown 50d cooled touch ran
	expect 0
	refute_file ran
	for name in held read; do
		try dlock -n $name touch ran
		assert_equal "$status" 1
	done
	ends a
	expect 0 '' "$err"
	ends b
	expect 0 '' "$err"
	try dlock -v old sh -c 'echo $DLOCK_FENCE'
	(($(query "SELECT fence FROM dlock.lock WHERE name = 'lock:old'") > $(query "SELECT fence FROM dlock.lock
		WHERE name = 'lock:cooled'")))
}

@test "the server's clock was ahead: the fencing token still grows, by either way to a grant" {
	local last next mode
	dlock x true
	query "UPDATE dlock.lock SET fence = fence + 3600000000, ticket = ticket + 3600000000"
	last=$(query 'SELECT fence FROM dlock.lock')
	for mode in -x -s -x; do
		try dlock $mode x sh -c 'echo $DLOCK_FENCE'
		assert_equal "$status" 0
		next=$out
		((next > last)) || fail "$next after $last"
		last=$next
	done
	holder a x
	waiter b x 1
	query 'UPDATE dlock.holder SET since = since + 3600000000'
	query 'UPDATE dlock.waiter SET ticket = ticket + 3600000000'
	try dlock status --json x
	assert_match "$out" '"held_ms":0,.*"waited_ms":0'
	: >b.go
	ends a
	expect 0 '' "$err"
	finish b
	expect 0 '' "$err"
	assert_between "$(query 'SELECT held_us FROM dlock.lock')" 0 3600000000
}

@test "a waiter stands still as it is handed the lock: its late claim fails, its place stays" {
	holder a x
	waiter b x 1
	waiter c x 2
	waiter d x 3
	signal_waiters STOP "$b_pid"
	ends a
	wait_until has_begun c # when the claim must have come
	signal_waiters CONT "$b_pid"
	wait_until waits x 2
	: >b.go
	: >d.go
	ends c
	assert_equal "$status" 0
	finish b
	expect 0 '' "$err"
	finish d
	expect 0 '' "$err"
	assert_equal "$(sed -n 's/.* begin //p' spans | tr '\n' ' ')" 'a c b d '
	after c b
	after b d
}

@test "the numbers of sessions begin anew: those that are taken are passed over" {
	holder a x
	waiter b x 1
	query "SELECT setval('dlock.session', 2147483647)"
	waiter c x 2
	assert_equal "$(query 'SELECT count(DISTINCT session) FROM dlock.waiter')" 2
	: >b.go
	: >c.go
	ends a
	finish b
	expect 0 '' "$err"
	finish c
	expect 0 '' "$err"
	assert_equal "$(sed -n 's/.* begin //p' spans | tr '\n' ' ')" 'a b c '
}

@test "a circle under another prefix: the names are as the users gave them" {
	start a dlock --prefix teams/one/ one sh -c 'echo one >>have; until [ "$(wc -l <have)" = 2 ]; do sleep 0.02; done
		exec dlock --prefix teams/one/ two true'
	start b dlock --prefix teams/one/ two sh -c 'echo two >>have; until [ "$(wc -l <have)" = 2 ]; do sleep 0.02; done
		exec dlock --prefix teams/one/ one true'
	finish a
	local said=$err
	finish b
	assert_match "$said$err" 'deadlock: (one|two) is held by [^ ]*, which waits for (one|two), which is held by a dlock around'
}

@test "dlock_advisory=NUMBER: that advisory lock excludes, and is held, shared or not" {
	export DLOCK_SERVER="postgres://tester@/postgres?dlock_advisory=-42&host=$database"
	holder a x
	assert_equal "$(query 'SELECT pg_try_advisory_lock(-42)')" f
	assert_equal "$(query 'SELECT pg_try_advisory_lock_shared(-42)')" f
	ends a
	expect 0 '' "$err"
	holder b x -s
	assert_equal "$(query 'SELECT pg_try_advisory_lock(-42)')" f
	assert_equal "$(query 'SELECT pg_try_advisory_lock_shared(-42)')" t
	ends b
	expect 0 '' "$err"
	start other psql -qAtc 'SELECT pg_advisory_lock(-42)' -c 'SELECT pg_sleep(600)'
	wait_until eval '[[ $(query "SELECT pg_try_advisory_lock(-42)") == f ]]'
	try dlock -n x touch ran
	assert_equal "$status" 1
	assert_match "$err" 'another client with the advisory lock'
	refute_file ran
	try dlock status --json x
	assert_match "$out" '"mode":"foreign"'
	kill "$other_pid"
	finish other
	query 'SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE $$%pg_sleep(600)$$'
}

has_advisory() {
	[[ $(query "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
		WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND application_name = '$1'") == 1 ]]
}

@test "an advisory lock that another has when the holder comes back: a renewal takes it when free" {
	export DLOCK_SERVER="postgres://tester@/postgres?host=$database&dlock_advisory=hashtext"
	holder a x -t 3
	start other env PGAPPNAME=other psql -qAtc "SELECT pg_advisory_lock(hashtext('x'))" -c 'SELECT pg_sleep(600)'
	wait_until eval '[[ $(query "SELECT count(*) FROM pg_locks WHERE NOT granted") == 1 ]]'
	query "SELECT pg_terminate_backend(pid) FROM ($ours) AS one" >/dev/null
	wait_until has_advisory other
	stays 1500 has_not_ended a # it is renewed by a session without
	refute has_advisory dlock
	query "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'other'" >/dev/null
	wait_until has_advisory dlock
	finish other
	ends a
	expect 0 '' "$err"
}

@test "an advisory lock that was renewed is free at once after the release" {
	local setting='dlock_advisory=hashtext'
	# The answers to a are late, so that its session is still there when b is told of the release.
	service "$BATS_TEST_DIRNAME/../programs/proxy.py" "$PWD/.s.PGSQL.5432" "$database/.s.PGSQL.5432" "$PWD/turns" 0.5
	wait_until test -S .s.PGSQL.5432
	# A busy machine may come to the answer to a release after that was given up: then it is not known when b was told.
	local keeper i
	for i in 1 2 3 4 5; do
		rm -f ./*.go ./*.pid spans
		DLOCK_SERVER="postgres://tester@/postgres?host=$PWD&$setting" start a dlock -t 9 x ./work a
		wait_until has_begun a
		keeper=$(keeper_of "$a_pid") # the session ends after it
		stays 5000 has_not_ended a # the first renewal is after 3 s
		assert_equal "$(query "SELECT pg_try_advisory_lock(hashtext('x'))")" f
		export DLOCK_SERVER="postgres://tester@/postgres?host=$database&$setting"
		waiter b x 1
		: >a.go
		: >b.go
		wait_until has_begun b
		is_alive "$keeper" || fail "b had not begun while the session of a was there"
		finish b
		expect 0
		after a b
		finish a
		assert_equal "$(query "SELECT pg_try_advisory_lock(hashtext('x'))")" t
		[[ $err == *'(no answer)'* ]] || break
	done
	expect 0
}

# How often the functions of the schema were called: track_functions is on for our role.
calls() { query "SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE schemaname = 'dlock'"; }

@test "a lock that nobody has is taken and given back without the functions; else they decide" {
	try dlock x true
	expect 0
	query 'ALTER ROLE tester SET track_functions = pl'
	query 'SELECT pg_stat_reset()'
	try dlock x echo ran
	expect 0 ran
	wait_until eval '[[ -z $(query "$ours") ]]'
	assert_equal "$(calls)" 0
	holder a x
	try dlock -n x touch ran
	assert_equal "$status" 1
	ends a
	expect 0
	wait_until eval '[[ -z $(query "$ours") ]]'
	assert_between "$(calls)" 1 100
	query 'ALTER ROLE tester RESET track_functions'
}

# Another session has the row of the lock x, until it is left: what asks for that lock waits in the server.
occupy_row() {
	mkfifo row.in
	psql -qAt <row.in >row.out 2>&1 3>&- 4>&- &
	row_pid=$!
	exec {row_fd}>row.in
	rm row.in
	echo "BEGIN; SELECT 'has it' FROM dlock.lock WHERE name = 'lock:x' FOR UPDATE;" >&$row_fd
	wait_until test -s row.out
}
leave_row() {
	echo 'ROLLBACK; \q' >&$row_fd # others may have its input, too
	exec {row_fd}>&-
	wait "$row_pid"
	rm row.out
}
one_waits_for_it() { [[ $(query "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == 1 ]]; }

@test "a release that takes its time is awaited, and outlives front, keeper, and session" {
	dlock x true
	holder a x
	occupy_row
	: >a.go
	wait_until one_waits_for_it
	stays 200 is_alive "$a_pid"
	leave_row
	finish a
	expect 0 '' "$err"
	assert nothing_is_left
	holder b x
	occupy_row
	: >b.go
	wait_until one_waits_for_it
	kill -KILL "$b_pid"
	finish b
	leave_row
	wait_until -t 5 nothing_is_left
	# The front asks over a session of its own.
	holder c x
	occupy_row
	: >c.go
	wait_until one_waits_for_it
	kill -KILL "$(keeper_of "$c_pid")"
	leave_row
	finish c
	assert_equal "$status" 70
	assert nothing_is_left
	# The session ends with the release in it: the keeper asks again over another.
	holder d x
	occupy_row
	: >d.go
	wait_until one_waits_for_it
	query "SELECT pg_terminate_backend(pid) FROM ($ours) AS one" >/dev/null
	leave_row
	finish d
	expect 0 '' "$err"
	assert nothing_is_left
}

@test "a grant that comes too late for its TTL is given back, and another is asked for" {
	dlock x true
	occupy_row
	start a dlock -t 2 -w 60 x echo ran
	wait_until one_waits_for_it
	stays 2200 is_alive "$a_pid"
	leave_row
	wait_until is_gone "$a_pid"
	finish a
	expect 0 ran
}

@test "a role whose commits are not awaited: a grant is on disk all the same" {
	query "DROP ROLE IF EXISTS hasty; CREATE ROLE hasty LOGIN SUPERUSER; ALTER ROLE hasty SET synchronous_commit = off"
	query "ALTER SYSTEM SET wal_writer_delay = '10s'"
	query 'SELECT pg_reload_conf()'
	dlock x true
	export DLOCK_SERVER=postgres://hasty@/postgres?host=$database
	holder a x -t 60
	kill -KILL "$(keeper_of "$a_pid")" "$a_pid" # nobody is left that would set the lock again
	finish a
	crash
	try dlock -n x touch ran
	expect_failure 1 'busy'
	refute_file ran
	dlock release --force x
	query 'DROP ROLE hasty'
}

@test "the server crashes right after a release: the lock is free, and successes are on record" {
	query "ALTER SYSTEM SET wal_writer_delay = '10s'"
	query 'SELECT pg_reload_conf()'
	dlock x true
	try dlock --once job x true
	expect 0
	crash
	try dlock --once job x touch ran
	assert_equal "$status" 0
	try dlock --cooldown 1h y true
	expect 0
	crash
	try dlock --cooldown 1h y touch ran
	assert_equal "$status" 0
	refute_file ran
	try dlock z true
	expect 0
	crash
	try dlock -n z echo ran
	expect 0 ran
	holder a x
	waiter b x 1
	ends a
	ends b
	expect 0
	crash
	try dlock -n x echo ran
	expect 0 ran
	query 'ALTER SYSTEM RESET wal_writer_delay'
	query 'SELECT pg_reload_conf()'
}
crash() {
	database_stop
	database_start
}

@test "a server whose functions answer nothing, or without sense: 76, and COMMAND does not run" {
	local body
	dlock x true
	query "CREATE TABLE dlock.nothing (result text, fence bigint); INSERT INTO dlock.nothing VALUES ('odd', 1)"
	for body in "SELECT * FROM dlock.nothing WHERE false" "SELECT * FROM dlock.nothing"; do
		query "DO \$do\$ DECLARE f text; BEGIN
			SELECT oid::regprocedure INTO f FROM pg_proc WHERE proname = 'acquire_3';
			EXECUTE 'DROP FUNCTION ' || f;
			EXECUTE 'CREATE FUNCTION ' || replace(f::text, ')', ') RETURNS SETOF dlock.nothing LANGUAGE sql AS ')
				|| quote_literal('$body');
		END \$do\$"
		try dlock --shared x touch ran
		expect_failure 76 'without sense'
	done
	refute_file ran
}

@test "a renewal without sense is none: COMMAND is stopped in time" {
	dlock x true
	holder a x -t 3
	# At once: a renewal that finds none makes it anew.
	query "DROP FUNCTION dlock.renew_2;
		CREATE FUNCTION dlock.renew_2(text, text, bigint, boolean, bigint, OUT result text, OUT ttl_ms bigint, OUT fence bigint)
		LANGUAGE sql AS \$\$ SELECT 'odd', 3000::bigint, 1::bigint \$\$"
	finish a
	assert_equal "$status" 80
}

@test "one of two readers leaves: a writer that asks for the first time is refused" {
	holder a x -s
	holder b x -s
	ends a
	expect 0
	try dlock -n x touch ran
	assert_equal "$status" 1
	refute_file ran
	ends b
	expect 0
	try dlock -n x echo ran
	expect 0 ran
}

@test "the same with what --at-least keeps, with a detached lock, and with one inside another" {
	try dlock --at-least 60s x true
	expect 0
	try dlock acquire -t 60 y
	assert_equal "$status" 0
	local token=${out%% *} one
	try dlock z dlock z dlock z true
	expect 0
	for one in x y; do
		try dlock -n $one touch ran
		assert_equal "$status" 1
	done
	refute_file ran
	try dlock -n z echo ran
	expect 0 ran
	try dlock release y "$token"
	expect 0
	try dlock -n y echo ran
	expect 0 ran
	query "SELECT dlock.force_2('lock:x', 0)" >/dev/null
}

@test "-n, its grant is lost, the server away for 0.4 s: it is taken back, not left for the TTL" {
	dlock x true # the schema is there
	service "$BATS_TEST_DIRNAME/../programs/cutter.py" "$PWD/.s.PGSQL.5432" "$database/.s.PGSQL.5432" granted 0.4
	wait_until test -S .s.PGSQL.5432
	try dlock -S "postgres://tester@/postgres?host=$PWD" -n --at-least 1h x touch ran
	assert_equal "$status" 69 "$err"
	wait_until -t 5 nothing_is_left
	refute_file ran
}

@test "-n, its grant is lost and the server stays away: --at-least does not count" {
	dlock x true # the schema is there
	service "$BATS_TEST_DIRNAME/../programs/cutter.py" "$PWD/.s.PGSQL.5432" "$database/.s.PGSQL.5432" granted 60
	wait_until test -S .s.PGSQL.5432
	try dlock -S "postgres://tester@/postgres?host=$PWD" -n -t 5s --at-least 1h x touch ran
	expect_failure 69 'if the lock was granted all the same, it frees itself within 5s$'
	refute nothing_is_left
	wait_until nothing_is_left
	refute_file ran
}

@test "a signal in the midst of a request: what came of that is taken back at once" {
	dlock x true # the schema is there
	service "$BATS_TEST_DIRNAME/../programs/cutter.py" "$PWD/.s.PGSQL.5432" "$database/.s.PGSQL.5432" granted silent
	wait_until test -S .s.PGSQL.5432
	start a dlock -S "postgres://tester@/postgres?host=$PWD" x touch ran
	wait_until refute nothing_is_left # its row is there, and it does not know so
	kill -TERM "$a_pid"
	finish a
	assert_equal "$status" 143
	assert nothing_is_left
	refute_file ran
}

# COUNT waiters are stopped, then one waits that is not; how long that one needs once the holder has gone.
behind_stopped() { # COUNT
	local i stopped=() began
	rm -f spans ./*.go
	holder a x -t 10m
	for ((i = 1; i <= $1; i++)); do
		start w$i dlock -w 5m x ./work w$i
		wait_until waits x $i
		stopped+=($pid)
	done
	waiter last x $i
	wait_until rest $i
	signal_waiters STOP "${stopped[@]}"
	began=$(now_ms)
	ends a
	wait_until -t 60 has_begun last
	took=$(($(now_ms) - began))
	ends last
	signal_waiters KILL "${stopped[@]}"
	for ((i = 1; i <= $1; i++)); do
		finish w$i
	done
}

@test "stopped waiters in a row hold the next one up for a second each" {
	local k
	for k in 1 2 5; do
		behind_stopped $k
		assert_between "$took" 0 $(((k * 1000 + 1500) * TEST_PATIENCE)) "ms behind $k"
	done
}

waits_for_table() { # COUNT
	[[ $(query "SELECT count(*) FROM pg_locks WHERE relation = 'dlock.lock'::regclass AND NOT granted") == "$1" ]]
}

# The table is locked until ./unlock is there.
lock_table() {
	mkfifo statements
	start locker psql -qAt -f statements
	exec 7>statements
	echo 'BEGIN; LOCK dlock.lock; SELECT 1;' >&7
	wait_until file_has locker.out 1
}
unlock_table() {
	echo 'COMMIT;' >&7
	exec 7>&-
	finish locker
}

@test "the table is locked: a dlock that has given up does not get the lock later" {
	local way
	dlock x true # the schema is there
	for way in '-w 3s' '-n' '-s -w 3s' ''; do
		rm -f statements
		lock_table
		# shellcheck disable=SC2086 # words
		start a dlock $way x touch ran
		wait_until waits_for_table 1
		signal_waiters KILL "$a_pid" # it can take nothing back
		finish a
		# At the latest then the server gives it up as well.
		wait_until -t 15 waits_for_table 0
		unlock_table
		assert nothing_is_left
		refute_file ran
	done
}

@test "the server starts, or has no session to spare: waited for, within -w, else for 5 s" {
	dlock x true
	# One of its sessions is all that a role may have.
	query "CREATE ROLE guest LOGIN; GRANT USAGE, CREATE ON SCHEMA dlock TO guest; GRANT ALL ON ALL TABLES IN SCHEMA dlock TO guest;
		GRANT ALL ON ALL SEQUENCES IN SCHEMA dlock TO guest; ALTER ROLE guest CONNECTION LIMIT 1"
	start filler psql -qAt -U guest -c 'SELECT pg_sleep(3600)'
	wait_until eval '[[ $(query "SELECT count(*) FROM pg_stat_activity WHERE usename = '\''guest'\''") == 1 ]]'
	export DLOCK_SERVER=postgres://guest@/postgres?host=$database
	try dlock -w 500ms x touch ran
	expect_failure 69 'too many connections'
	refute_file ran
	start a dlock -w 1m x touch ran
	# Far beyond the 5 s without -w.
	stays 6000 is_alive "$a_pid"
	kill -KILL "$filler_pid"
	query "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guest' AND query LIKE '%sleep%'"
	finish filler
	finish a
	expect 0
	assert test -e ran
	try dlock x true
	expect 0
	export DLOCK_SERVER=postgres://tester@/postgres?host=$database
	query 'DROP OWNED BY guest; DROP ROLE guest'
}

@test "the server is being restarted: a newcomer waits for it, within -w" {
	dlock x true
	start visitor psql -qAt -c 'SELECT pg_sleep(3600)'
	wait_until eval '[[ $(query "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '\''%sleep(3600)%'\''") == 2 ]]'
	local server
	server=$(database_pid)
	kill -TERM "$server" # no newcomer, and the visitor may go on
	wait_until eval '! psql -qAtc "SELECT 1" -o /dev/null 2>visit.err && file_has visit.err "shutting down"'
	try dlock -w 300ms x touch ran
	expect_failure 69 'shutting down'
	start a dlock -w 1m x touch ran
	stays 1000 is_alive "$a_pid"
	kill -KILL "$visitor_pid"
	finish visitor
	kill -INT "$server"
	wait_until is_gone "$server"
	stays 500 is_alive "$a_pid"
	database_start
	finish a
	expect 0
	assert test -e ran
}
