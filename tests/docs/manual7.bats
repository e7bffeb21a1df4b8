# The manuals of section 7: what they say in figures, and every one of their examples, run.

load ../lib/helper
load ../lib/manual
load ../lib/etcd
load ../lib/postgres
load ../lib/zookeeper

setup_file() {
	file_begin
	cd "$BATS_FILE_TMPDIR"
	database_begin
	export database
	example tables >tables.sql
	psql -q -v ON_ERROR_STOP=1 -f tables.sql
}
teardown_file() {
	database_end
	file_end
}
setup() {
	test_begin
	mkdir stubs
	PATH=$PWD/stubs:$PATH
}
teardown() { test_end; }

# ---- The page ------------------------------------------------------------------------------------

@test "every example is run here" {
	local kind name
	sed -n 's/^\.\\" example: //p' $(pages 7) >listed
	assert_between "$(wc -l <listed)" 25 100
	while read -r kind name; do
		grep -qE "(example|rows|take_turns) $name( |\$|\))" "$BATS_TEST_FILENAME" || fail "$name is not run"
	done <listed
	# The other displays are in the languages of others.
	sed -n '/^\.\\" example/{n;d}; /^\.Bd -literal/{n;p}' "$MANUALS"/dlock{,-migrating}.7 >others
	assert_equal "$(grep -vE '^(consul|etcdctl|psql -c|export CRONLOCK|@SchedulerLock)' others || true)" ''
}

@test "what is pasted from the screen is what is run here" {
	local kind name line
	mandoc -Tutf8 $(pages) 2>/dev/null | sed 's/.\x08//g; s/^ *//' >screen
	sed -n 's/^\.\\" example: //p' $(pages) >listed
	while read -r kind name; do
		display "$name" "$kind" | sed 's/^\t*//' >lines
		while IFS= read -r line; do
			grep -qxF -- "$line" screen || fail "$name, not as written: $line"
		done <lines
	done <listed
}

@test "the table of TTLs is what the source says" {
	python "$MANUALS/dlock.7" <<-'END'
		import re, sys
		def seconds(text):
		    number, unit = re.fullmatch(r"([0-9.]+)([sm])", text).groups()
		    return float(number) * {"s": 1, "m": 60}[unit]
		rows = re.findall(r"^\.It ([0-9.]+[sm]) Ta (\S+) Ta (\S+) Ta (\S+)$", open(sys.argv[1]).read(), re.M)
		assert len(rows) == 4, rows
		for row in rows:
		    ttl, every, stop, outage = map(seconds, row)
		    # lease.h: a tenth is margin, 250 ms are for KILL, then the grace
		    at = ttl * 9 / 10 - 0.25 - min(10, ttl / 3)
		    again = min(ttl / 3, at / 2)
		    for seen, right in ((every, again), (stop, at), (outage, at - again)):
		        assert abs(seen - right) <= 0.0501, (row, seen, right)
	END
}

@test "the table of services is that of the tests" {
	local table=$BATS_TEST_DIRNAME/../lib/service_table
	# Features that some service lacks must be there, by their option or name; others may be.
	awk '!/^#/ && NF && $1 != "feature" && ($2 != "-" || $1 ~ /^(order|deadlock)$/) {
		name = $3 == "-" ? $1 : $3; sub(/[=:].*/, "", name); sub(/^by-token$/, "acquire", name)
		row = name; lacked = 0
		for (i = 4; i <= NF; i++) { row = row " " $i; lacked += $i != "yes" }
		print row > "rows"; if (lacked) print row > "needed" }' "$table"
	sed -nE '/^\.Ss Services/,/^\.Ss/{ s/ Ta / /g; s/^\.It (Fl -|)([-a-z]+) (yes|64)/\1\2 \3/p; }' "$MANUALS/dlock.7" |
		sed 's/^Fl -/--/' >shown
	assert_between "$(wc -l <shown)" 8 20
	assert_equal "$(grep -vxFf rows shown || true)" '' 'not so'
	assert_equal "$(grep -vxFf shown needed || true)" '' 'not in the manual'
}

# ---- What it shows of dlock itself ---------------------------------------------------------------

@test "keys: a lock looked at by redis-cli" {
	begin_holder one backup
	start two dlock backup true
	wait_until queued backup 1
	PATH=$PWD/stubs:$PATH
	printf '#!/bin/sh\nexec %s -s %s "$@"\n' "$(command -v redis-cli)" "$SERVER/socket" >stubs/redis-cli
	chmod +x stubs/redis-cli
	run_example keys
	assert_equal "$status $err" "0 "
	assert_match "$out" "^$(uname -n):[^ ]+"$'\n[1-9][0-9]{3,4}\n[1-9][0-9]{15}\n'"$(uname -n):[^ ]+\$"
	let_go one
	finish two
}

@test "keys: the companions are those that it names" {
	begin_holder one backup --once monday
	start two dlock backup true
	wait_until queued backup 1
	cli --raw KEYS '*' | sed -E "s/:(who|wake):.*/:\1:TOKEN/" | sort -u >seen
	let_go one
	finish two
	cli --raw KEYS '*' | sed -E "s/:once:.*/:once:ID/" >>seen
	cli DEL 'lock:{lock:backup}:once:monday' >/dev/null
	sed -n 's/^\.It \(lock:.*\)/\1/p' "$MANUALS/dlock-redis.7" | sort -u >named
	assert_equal "$(sort -u seen | comm -23 - named)" '' 'not in the manual'
	assert_between "$(sort -u seen | wc -l)" 5 20
}

@test "fencing: a row that remembers" {
	psql -q <<-'END'
		CREATE TABLE orders (id int PRIMARY KEY, state text, fence bigint);
		INSERT INTO orders VALUES (4711, 'new', 1795252345678900);
	END
	rows fence
	assert_equal "$out" 4711
	rows fence # the same holder's next request
	assert_equal "$out" 4711
	psql -qc "UPDATE orders SET state = 'back', fence = fence + 1"
	rows fence
	assert_equal "$out" ''
	assert_equal "$(psql -qAtc 'SELECT state FROM orders')" back
}

@test "fencing: a file that is guarded" {
	stub fetch-prices
	run_example guard
	expect 0
	assert_file prices 'fetch-prices '
	try dlock guard --fence 1 prices.fence false
	expect_failure 82 'stale'
}

# fence_at URL: the number of one more grant there.
fence_at() { dlock -S "$1" x sh -c 'echo "$DLOCK_FENCE"'; }

@test "numbers after a loss of data: etcd gives one twice after a snapshot, and begins again" {
	local url first again
	etcd_begin one
	url=$(etcd_url one)
	etcd_ctl one snapshot save snapshot >/dev/null
	first=$(fence_at "$url")
	try dlock guard --fence "$first" state true
	expect 0
	etcd_kill one
	rm -r "$(etcd_dir one)/data"
	ETCDCTL_API=3 etcdctl snapshot restore snapshot --data-dir "$(etcd_dir one)/data" --name one \
		--initial-cluster "$(<"$(etcd_dir one)/cluster")" \
		--initial-advertise-peer-urls "http://127.0.0.1:$(<"$(etcd_dir one)/peer")" >/dev/null 2>&1
	etcd_again one
	again=$(fence_at "$url")
	assert_equal "$again" "$first" 'not twice'
	try dlock guard --fence "$again" state true # as it must, for the same holder's next request
	expect 0

	first=$(fence_at "$url")
	try dlock guard --fence "$first" state true
	expect 0
	etcd_kill one
	rm -r "$(etcd_dir one)/data"
	etcd_again one
	again=$(fence_at "$url")
	etcd_end one
	try dlock guard --fence "$again" state true
	expect_failure 82 stale
}

@test "numbers after a loss of data: ZooKeeper begins again" {
	local url first again
	zookeeper_begin one
	url=$(zookeeper_url one)
	fence_at "$url" >/dev/null
	first=$(fence_at "$url")
	zookeeper_kill one
	rm -r "$(zookeeper_dir one)"/data/version-2
	zookeeper_again one
	again=$(fence_at "$url")
	zookeeper_end one
	assert_between "$again" 1 $((first - 1))
}

@test "numbers after a loss of data: those of Redis and of a folder go on by the clock" {
	local url first
	for url in "unix://$SERVER/socket" "file:$PWD/locks"; do
		first=$(fence_at "$url")
		cli FLUSHALL >/dev/null
		rm -rf locks
		assert_between "$(fence_at "$url")" $((first + 1)) $((first + 3600000000))
	done
}

# ---- Instead of a lock ---------------------------------------------------------------------------

# rows NAME: runs it as SQL; out is what it returned, without the names of commands.
rows() {
	example "$1" >"$1.sql"
	try psql -qAt -v ON_ERROR_STOP=1 -f "$1.sql"
	assert_equal "$status $err" '0 '
}

# The example, stopped at its comment until the file `go` is there, as a job of its own.
pause_example() { # NAME
	example "$1" | sed 's/^--.*/\\! touch waits; until test -e go; do sleep 0.01; done/' >paused.sql
	start paused psql -qAt -v ON_ERROR_STOP=1 -f paused.sql
	wait_until test -e waits
}
go_on() {
	: >go
	finish paused
	assert_equal "$status $err" '0 '
}

@test "instead: a unique constraint, of twenty one gets the row" {
	local pids=() i
	example unique >unique.sql
	for i in {1..20}; do
		psql -qAt -f unique.sql >"got.$i" 2>&1 3>&- 4>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i"; done
	assert_equal "$(cat got.*)" 2026-11-21
}

@test "instead: SELECT ... FOR UPDATE, nobody else changes the row, or decides by what it was" {
	psql -qc 'INSERT INTO account VALUES (1, 100), (2, 100)'
	pause_example for-update
	try psql -qAt -c "SET lock_timeout = '50ms'" -f <(example for-update)
	assert_match "$err" 'lock timeout'
	try psql -qAt -c "SET lock_timeout = '50ms'" -c 'UPDATE account SET balance = 0 WHERE id = 2'
	assert_equal "$status" 0
	go_on
	assert_equal "$out" 100
	rows for-update
	assert_equal "$out" 70
}

@test "instead: SKIP LOCKED, each job is taken once, nobody waits, a dead worker took none" {
	psql -qc "INSERT INTO job (work) SELECT 'job ' || i FROM generate_series(101, 120) i"
	pause_example skip-locked
	rows skip-locked
	assert_equal "$out" 'job 102'
	kill -KILL -- -$paused_pid
	finish paused
	wait_until offered 'job 101'
	local pids=() i
	example skip-locked >skip.sql
	for i in {1..19}; do
		psql -qAt -f skip.sql >"got.$i" 2>&1 3>&- 4>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i"; done
	assert_equal "$(cat got.* | sort | paste -sd,)" "$(seq -f 'job %.0f' 101 120 | grep -vx 'job 102' | paste -sd,)"
}
offered() {
	[[ $(psql -qAtc 'SELECT work FROM job ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1') == "$1" ]]
}

@test "instead: an advisory lock, which ends with the transaction" {
	pause_example advisory
	rows advisory
	assert_equal "$out" f
	go_on
	assert_equal "$out" t
	rows advisory
	assert_equal "$out" t
}

@test "instead: a version, the second one to save gets no row" {
	psql -qc "INSERT INTO page VALUES (1, 'first', 7)"
	rows version
	assert_equal "$out" $'first|7\n8'
	rows version
	assert_equal "$out" 'edited|8'
}

# ---- From elsewhere ------------------------------------------------------------------------------

# The flock of the manual locks the folder /tmp; here, this one.
flock_example() { example "$1" flock | sed "s# /tmp # $PWD #"; }

# The two lines of an example: the first has something to read for as long as the second runs.
# Prints what that one said.
take_turns() {
	local first second
	{ read -r first; read -r second; }
	mkfifo input
	start first sh -c "exec <input; $first"
	exec 8>input
	wait_until "$1"
	wait_until answered
	cat said
	exec 8>&-
	finish first
	rm input
}
# Seven milliseconds are flock's. The server of a loaded machine does not always answer in them.
answered() {
	sh -c "$second" >said 2>messages
	[[ $(tail -n 1 said) != 69 ]]
}
flocked() { ! flock -n . true; }
dlocked() { is_held tmp; }

@test "from flock: a second one fails while the first holds, as flock has it" {
	assert_equal "$(flock_example flock-busy | take_turns flocked)" 1
	assert_equal "$(example flock-busy | take_turns dlocked)" 1
}

@test "from flock: shared ones do not exclude each other" {
	assert_equal "$(flock_example flock-shared | take_turns flocked)" $'\n0'
	# Seven milliseconds are few for a server to answer in.
	assert_equal "$(example flock-shared | sed "s/-w \.007/-w .$TEST_PATIENCE/" | take_turns dlocked)" $'\n0'
	begin_holder reader tmp -s
	try dlock -n tmp true
	expect_failure 1 'held'
	let_go reader
}

@test "from flock: a command" {
	flock_example flock-command >before
	run_example flock-command
	expect 0 'a b c'
	try sh before
	expect 0 'a b c'
}

@test "from flock: a script that locks itself" {
	local which
	for which in flock sh; do
		{
			echo '#!/bin/sh'
			example flock-self "$which"
			echo 'test ! -e slow || { : >up; exec sleep 60; }'
		} >"$which.script"
		chmod +x "$which.script"
		try "./$which.script" a 'b c'
		expect 0 'nightly, with a b c'
		: >slow
		start one "./$which.script"
		wait_until test -e up
		try "./$which.script"
		assert_equal "$status $out" '1 '
		kill -TERM -- -$one_pid
		finish one
		rm -f slow up
	done
}

@test "from flock: the rest of a subshell" {
	local which
	flock_example flock-subshell >flock.script
	example flock-subshell >sh.script
	sed -i "s#/var/lock/#$PWD/#" flock.script
	for which in flock sh; do
		echo 'echo "and after it: $?"' >>$which.script
		try sh $which.script
		expect 0 $'under the lock\nand after it: 0'
	done
	wait_until is_free mylock
	begin_holder other mylock
	try sh sh.script
	assert_equal "$status $out" '0 and after it: 1'
	let_go other
	try flock mylockfile sh flock.script
	expect 0 'and after it: 1'
}

@test "from flock: the rest of a script, released before its end" {
	{
		flock_example flock-descriptor | sed "s#/var/lock/#$PWD/#"
		echo 'flock -n mylockfile true || echo held'
		echo 'flock -u 4; flock -n mylockfile true && echo free'
	} >before
	{
		example flock-descriptor
		echo 'dlock status -q mylock && echo held'
		example flock-unlock
		echo 'dlock status -q mylock || echo free'
	} >after
	try sh before
	expect 0 $'held\nfree'
	try sh after
	expect 0 $'held\nfree'
}

@test "from consul: a lock, and a semaphore" {
	stub deploy 'dlock status --json deploy >seen'
	run_example consul-lock
	expect 0 'deploy production'
	assert_match "$(<seen)" '"label": ?"web3"'

	stub fetch 'exec sleep 60'
	local n
	for n in one two three; do
		start $n sh -c "$(example consul-semaphore)"
	done
	wait_until shares_are fetch 3
	try dlock -n --permits 3 fetch ./fetch
	expect_failure 1 'held'
	for n in one two three; do
		n=${n}_pid
		kill -TERM -- -"${!n}"
		wait_until is_gone "${!n}"
	done
}
shares_are() { [[ $(cli ZCARD "lock:{lock:$1}:holders") == "$2" ]]; }

has_advisory() { [[ -n $(psql -qAt -d app -c "SELECT pid FROM pg_locks WHERE locktype = 'advisory'") ]]; }

@test "from pg_advisory_lock: a migration, which a user of the advisory lock keeps out" {
	psql -qc 'CREATE DATABASE app'
	echo "CREATE TABLE IF NOT EXISTS migrated (n int); INSERT INTO migrated VALUES (1);" >migrate.sql
	run_example pg-advisory
	expect 0
	echo "INSERT INTO migrated VALUES (2);" >migrate.sql
	run_example postgres
	expect 0
	assert_equal "$(psql -qAt -d app -c 'SELECT count(*) FROM migrated')" 2
	psql -qAt -d app -c "SELECT pg_advisory_lock(hashtext('migrate'))" \
		-c "SELECT pg_sleep(600)" >held 2>&1 3>&- 4>&- &
	wait_until has_advisory
	try dlock -n -S 'postgres:///app?dlock_advisory=hashtext' migrate touch ran
	expect_failure 1 'held by another client with the advisory lock'
	psql -qAt -d app -c "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'" >ended
	wait $! || true
	refute_file ran
}

@test "from kazoo: a command, and a lock that is kazoo's as well" {
	zookeeper_begin one
	local DLOCK_SERVER
	DLOCK_SERVER=$(zookeeper_url one)
	export DLOCK_SERVER
	stub deploy 'exit 7'
	run_example kazoo
	expect 7 'deploy production'
	example zookeeper | sed "s#zookeeper://[^ ]*#$DLOCK_SERVER#" >zookeeper
	try sh zookeeper
	expect 7 'deploy production'
	zk one "
import subprocess
with zk.WriteLock('/locks/deploy'): print(subprocess.run(['dlock', '-n', 'deploy', 'true'], stderr=subprocess.STDOUT).returncode)
" >busy
	zookeeper_end one
	assert_match "$(<busy)" 'held by another ZooKeeper client'
}

@test "file: a job of this host" {
	stub collect 'exec sleep 60'
	example file | sed "s#file:#&$PWD/locks#" >file
	start one sh -c "exec $(<file)"
	wait_until dlock -S "file:$PWD/locks" status -q collect
	try sh file
	expect_failure 1 'busy: held by'
	kill -TERM $one_pid
	finish one
}

@test "etcd: a command, which etcdctl keeps out" {
	etcd_begin one
	stub deploy 'exit 7'
	example etcd | sed "s#etcd://[^ ]*#$(etcd_url one)#" >etcd
	try sh etcd
	expect 7 'deploy production'
	etcd_ctl one lock lock:deploy -- dlock -n -S "$(etcd_url one)" deploy true >busy 2>&1 || true
	etcd_end one
	assert_match "$(<busy)" 'held by another etcd client'
}

@test "from etcdctl: a command, and no command" {
	stub deploy 'exit 7'
	run_example etcdctl-lock
	expect 7 'deploy production'
	start one sh -c "exec $(example etcdctl-hold)"
	wait_until is_held deploy
	kill -TERM $one_pid
	finish one
	assert_equal "$status" 143
	assert is_free deploy
}

@test "from cronlock: word by word, and better" {
	stub mail-customers
	run_example cronlock
	expect 0 'mail-customers --all'
	assert is_held mail # for 50 s
	run_example cronlock
	expect 200
	cli DEL lock:mail >/dev/null
	run_example cronlock-better
	expect 0 # the one before was a success
	cli FLUSHALL >/dev/null
	run_example cronlock-better
	expect 0 'mail-customers --all'
	run_example cronlock-better
	expect 0
}

@test "from ShedLock: at least, at most" {
	stub report
	run_example shedlock
	expect 0 'report '
	assert_between "$(cli PTTL lock:report)" 290000 300000
	run_example shedlock
	expect 0
	cli FLUSHALL >/dev/null
	stub report 'exec sleep 60'
	example shedlock | sed 's/5m/0/; s/14m/0.1/' >short
	try sh short
	assert_equal "$status" 124
}

@test "from a redis-cli script: the same, and each excludes the other" {
	printf '#!/bin/sh\nexec %s -s %s "$@"\n' "$(command -v redis-cli)" "$SERVER/socket" >stubs/redis-cli
	chmod +x stubs/redis-cli
	stub backup
	example redis-cli before >before
	run_example redis-cli
	expect 0 'backup --all'
	try sh -eu before
	expect 0 $'backup --all\n1'
	assert is_free backup

	stub backup 'test -e up || { : >up; exec sleep 60; }'
	start old sh before
	wait_until test -e up
	run_example redis-cli
	expect 1
	kill -KILL -- -$old_pid
	finish old
	cli DEL lock:backup >/dev/null
	rm up
	start new sh redis-cli
	wait_until test -e up
	try sh before
	assert_equal "$status" 1
	kill -TERM -- -$new_pid
	finish new
}

@test "from a redis-cli script: in two steps" {
	run_example redis-cli-acquire
	expect 0
	assert_between "$(cli PTTL lock:backup)" 880000 900000
	try dlock -n backup true
	expect_failure 1 'held by'
	run_example redis-cli-release
	expect 0
	assert is_free backup
}
