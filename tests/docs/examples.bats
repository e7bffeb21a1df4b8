# What is in examples/: its syntax, by the tools whose files these are, and its commands, run.

load ../lib/helper
load ../lib/notify_socket
load ../lib/postgres

setup_file() {
	file_begin
	export EXAMPLES=$BATS_TEST_DIRNAME/../../examples
}
teardown_file() { file_end; }
setup() {
	test_begin
	mkdir stubs
	PATH=$PWD/stubs:$PATH
}
teardown() {
	database_end
	test_end
}

# stub NAME [TEXT]: a program that an example calls; says how it was called, then does TEXT.
stub() {
	printf '#!/bin/sh\necho "%s $*"\n%s\n' "$1" "${2:-}" >"stubs/$1"
	chmod +x "stubs/$1"
	ln -sf "stubs/$1" "$1"
}

# shown FILE N: the Nth block of indented lines in FILE's comments or text, as a script.
shown() {
	awk -v n="$2" '
		{ sub(/^(#|--)/, "") }
		/^(\t|    )[^ ]/ { if (!inside) { inside = 1; seen++ } if (seen == n) { sub(/^(\t|    )/, ""); print }; next }
		/^\t\t/          { if (seen == n) print; next }
		                 { inside = 0 }' "$EXAMPLES/$1" >shown
	[[ -s shown ]] || fail "$1 shows no $2"
}

# ---- All of them ---------------------------------------------------------------------------------

@test "README.md lists every example, and no other" {
	grep '^|' "$EXAMPLES/README.md" | grep -oE '`[a-zA-Z0-9_.-]+`' | tr -d '`' | sort >listed
	find "$EXAMPLES" -type f ! -name README.md ! -name '*.pyc' -printf '%f\n' | sort >there
	assert_equal "$(<listed)" "$(<there)"
	assert_equal "$(sort -u listed)" "$(<listed)"
	# All of them are installed too.
	grep -oE 'examples/[^ ]+' "$BATS_TEST_DIRNAME/../../Makefile.am" | sed 's#.*/##' | sort >installed
	assert_equal "$(grep -vx README.md installed)" "$(<there)"
}

@test "no example names a machine of ours: only example.net and loopback" {
	assert_equal "$(grep -rnoE "[a-z+]+://[^/\"' \`]*" "$EXAMPLES" |
		grep -vE '://(redis\.example\.net|127\.0\.0\.1:8080|)$' || true)" ''
}

# ---- cron ----------------------------------------------------------------------------------------

# The Nth job of the crontab as a script: its settings, then its command as cron gives it to sh.
cron_job() {
	sed -nE 's/^([A-Z_]+=.*)/export \1/p' "$EXAMPLES/crontab" |
		sed "s#redis://redis.example.net#$DLOCK_SERVER#; s#PATH=.*#PATH=$PATH#; s/MAILTO=.*/MAILTO=x/" >job
	grep -E '^[0-9*]' "$EXAMPLES/crontab" | sed -n "$1p" |
		sed -E 's/^([^ ]+ +){5}//; s/\\%/%/g' >>job
}

@test "crontab: five fields a job, within their bounds, and no bare %" {
	python "$EXAMPLES/crontab" <<-'END'
		import re, sys
		bounds = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
		jobs = 0
		for line in open(sys.argv[1]):
		    if not line.strip() or line.startswith("#") or re.match(r"[A-Z_]+=\S", line):
		        continue
		    fields = line.split(None, 5)
		    assert len(fields) == 6, line
		    for field, (least, most) in zip(fields, bounds):
		        match = re.fullmatch(r"(\*|\d+(?:-\d+)?)(/\d+)?", field)
		        assert match, line
		        for number in re.findall(r"\d+", match[1]):
		            assert least <= int(number) <= most, line
		    assert not re.search(r"(?<!\\)%", fields[5]), line
		    assert fields[5].startswith("dlock "), line
		    jobs += 1
		assert jobs == 7, jobs
	END
}

@test "crontab: of many hosts one runs the backup; if it fails, the next tries" {
	stub backup 'test -e failed || { : >failed; exit 3; }'
	cron_job 1
	local host ended=''
	for host in a b c; do start "$host" sh job; done
	for host in a b c; do
		finish "$host"
		assert_equal "$err" ''
		ended+=" $status"
	done
	assert_equal "$(tr ' ' '\n' <<<"$ended" | sort | paste -sd' ')" ' 0 0 3'
	assert_equal "$(cat [abc].out)" $'backup --all\nbackup --all'

	cli FLUSHALL >/dev/null
	stub backup 'exec sleep 60'
	sed -i 's/max-run 6h/max-run 0.1/' job
	try sh job
	assert_equal "$status" 124
}

@test "crontab: once for each day, though it is tried again" {
	stub import-orders 'test -e arrived'
	cron_job 2
	try sh job
	expect 1 'import-orders '
	: >arrived
	try sh job
	expect 0 'import-orders '
	try sh job
	expect 0
	cli DEL "lock:{lock:import}:once:$(date +%F)" >/dev/null
}

@test "crontab: every minute, on one host, whose lock outlives the job" {
	stub poll-mailbox
	cron_job 3
	try sh job
	expect 0 'poll-mailbox '
	try sh job
	expect 0
	assert_between "$(cli PTTL lock:poll)" 40000 50000
	cli FLUSHALL >/dev/null
}

@test "crontab: no lock server, no job, no failure, no mail" {
	stub warm-cache
	cron_job 4
	try sh job
	expect 0 'warm-cache '
	sed -i "s#unix://.*#unix://$PWD/nowhere#" job
	try sh job
	expect 0
}

@test "crontab: the upgrade is done by every host, one after the other" {
	stub upgrade-host 'mkdir here || echo overlap; sleep 0.2; rmdir here'
	cron_job 5
	local host
	for host in a b c; do start "$host" sh job; done
	for host in a b c; do
		finish "$host"
		assert_equal "$status $out $err" '0 upgrade-host  '
	done
}

@test "crontab: a second one on this host is passed over" {
	stub collect-metrics 'sleep 1'
	cron_job 6
	sed -i "s#-S file:#&$PWD/locks#" job # not this machine's own
	start one sh job
	wait_until dlock -S "file:$PWD/locks" status -q collect
	try sh job
	expect 0
	finish one
	expect 0 'collect-metrics '
}

@test "crontab: shell syntax, with cron's way to write a %, and a profile" {
	stub report
	cp "$EXAMPLES/dlock.conf" config/
	cron_job 7
	try sh job
	expect 0
	assert_file "report-$(date +%V)" 'report --week'
}

# ---- systemd -------------------------------------------------------------------------------------

# unit FILE: it is a unit for systemd, but for programs that are not here; its command as a script.
unit() {
	mkdir -p units
	sed "s#/usr/bin/dlock#/bin/true#; s#/usr/local/bin/[a-z-]*#/bin/true#" "$EXAMPLES/$1" >"units/$1"
	try systemd-analyze verify --man=no "units/$1"
	expect 0
	{
		sed -n 's/^Environment=/export /p' "$EXAMPLES/$1" | sed "s#redis://redis.example.net#$DLOCK_SERVER#"
		sed -n 's/^ExecStart=/exec /p' "$EXAMPLES/$1" |
			sed "s#/usr/bin/##; s#/usr/local/bin/##; s#%H#$(uname -n)#"
	} >"${1%.*}.job"
}

@test "systemd: a job on one host of all; elsewhere it is passed over; TERM ends it in order" {
	stub backup 'echo $$ >running; trap "echo in order; exit 1" TERM; until test -e done; do sleep 0.05; done'
	unit dlock-backup.service
	cp "$EXAMPLES/dlock-backup.timer" units/
	try systemd-analyze verify --man=no units/dlock-backup.timer
	expect 0
	start one sh dlock-backup.job
	wait_until is_file running
	start two sh dlock-backup.job
	wait_until queued backup 1
	kill -TERM $one_pid # KillMode=mixed: to dlock alone
	finish one
	expect 1 $'backup --all\nin order'
	# That was no success: the next one tries, and then it is one.
	: >done
	finish two
	expect 0 'backup --all'
	assert is_free backup
	try sh dlock-backup.job
	expect 0
}

@test "systemd: every OnCalendar is one" {
	local when
	sed -n 's/^OnCalendar=//p' "$EXAMPLES"/*.timer >times
	assert is_file times
	while IFS= read -r when; do
		try systemd-analyze calendar "$when"
		assert_equal "$status" 0
	done <times
}

@test "leader election: systemctl status tells the leader from the others" {
	stub send-mail 'exec sleep 60'
	unit leader.service
	rm -r units && mkdir units
	local one
	for one in a b c; do
		sed "s#/usr/bin/dlock#$(realpath "$(command -v dlock)")#; s#/usr/local/bin/#$PWD/#
			s#redis://redis.example.net#$DLOCK_SERVER#; s/%H/$one/" "$EXAMPLES/leader.service" >units/leader-$one.service
	done
	shown_of() { systemctl --user status --no-pager "leader-$1"; }
	says() { [[ $(shown_of "$1") =~ Status:\ \"$2 ]]; }
	leaders() {
		systemctl --user start leader-a
		wait_until says a 'holds mail-leader since '
		systemctl --user start leader-b
		wait_until says b 'waiting for mail-leader; held by .*a\) for '
		systemctl --user start leader-c
		wait_until says c 'waiting for mail-leader, 1 ahead; held by .*a\) for '
		systemctl --user stop leader-a
		wait_until says b 'holds mail-leader since '
		wait_until says c 'waiting for mail-leader; held by .*b\) for '
		systemctl --user stop leader-b leader-c
	}
	under_systemd leaders
	assert is_free mail-leader
}

@test "leader election: one leads, the next takes over when it ends, and when its host dies" {
	stub send-mail 'echo $$ >"leader.$DLOCK_TOKEN"; exec sleep 60'
	unit leader.service
	assert_match "$(<leader.job)" 'ttl 15s'
	sed -i 's/ttl 15s/ttl 2s/' leader.job
	leaders() { ls leader.* 2>/dev/null | grep -c ':' || true; }
	has_led() { [[ $(leaders) == "$1" ]]; }

	start one sh leader.job
	wait_until has_led 1
	start two sh leader.job
	start three sh leader.job
	try dlock status mail-leader
	assert_match "$out" "$(uname -n):$one_pid"
	assert_equal "$(leaders)" 1

	kill -TERM $one_pid
	finish one
	wait_until has_led 2
	# The host of the second dies: of dlock nothing is left that could give the lock back.
	local command keeper front
	command=$(cat "$(ls -t leader.*:* | head -1)")
	keeper=$(parent_of "$command")
	front=$(parent_of "$keeper")
	kill -KILL "$front" "$keeper" "$command"
	wait_until has_led 3
	kill -TERM $two_pid $three_pid 2>/dev/null || true
	wait_until all_gone $two_pid $three_pid
}

# ---- One at a time, in other ways ---------------------------------------------------------------

@test "deploy-latest: one deploys, one waits and then looks anew, the others end at once" {
	stub git 'echo pull >>done'
	stub deploy 'echo "begun $1" >>done; until test -e go; do sleep 0.05; done; echo "ended $1" >>done'
	start one "$EXAMPLES/deploy-latest" production
	wait_until file_has done 'begun production'
	start two "$EXAMPLES/deploy-latest" production
	wait_until queued deploy:production 1
	local i
	for i in 1 2; do
		try "$EXAMPLES/deploy-latest" production
		expect 0
	done
	: >go
	finish one
	assert_equal "$status" 0
	finish two
	assert_equal "$status" 0
	assert_equal "$(paste -sd' ' done)" "pull begun production ended production pull begun production ended production"
	wait_until is_free deploy:production
	assert is_free deploy-next:production
	DLOCK_SERVER=unix:///nowhere try "$EXAMPLES/deploy-latest" production
	assert_equal "$status" 1
}

@test "reboot-in-turn: two hosts at a time; the next when one is back" {
	stub reboot
	local host
	for host in a b c; do
		mkdir $host
	done
	STATE_DIRECTORY=a try "$EXAMPLES/reboot-in-turn"
	expect 0 'reboot '
	STATE_DIRECTORY=b try "$EXAMPLES/reboot-in-turn"
	expect 0 'reboot '
	start third env STATE_DIRECTORY=c "$EXAMPLES/reboot-in-turn"
	wait_until queued reboot 1
	assert_equal "$(<third.out)" ''
	STATE_DIRECTORY=a try "$EXAMPLES/reboot-in-turn" back
	expect 0
	refute_file a/reboot-in-turn
	finish third
	expect 0 'reboot '
	for host in b c a; do # a has nothing to give back
		STATE_DIRECTORY=$host try "$EXAMPLES/reboot-in-turn" back
		expect 0
	done
	assert is_free reboot
}

@test "cronjob.yaml: of two clusters one runs it" {
	stub report 'sleep 1'
	assert_equal "$(yaml 'it["kind"], it["apiVersion"], it["spec"]["schedule"].count(" ")' cronjob.yaml)" \
		"('CronJob', 'batch/v1', 4)"
	local pod='it["spec"]["jobTemplate"]["spec"]["template"]["spec"]'
	assert_equal "$(yaml "$pod[\"containers\"][0][\"env\"][0][\"value\"]" cronjob.yaml)" redis://redis.example.net
	yaml "'exec ' + ' '.join($pod['containers'][0]['command'] + $pod['containers'][0]['args'])" cronjob.yaml >job
	start one sh job
	start two sh job
	finish one
	expect 0 "$out"
	local first=$out
	finish two
	expect 0 "$out"
	assert_equal "$first$out" 'report --all'
}

@test "edit-alone: two names of a file are one lock, another file is another" {
	export XDG_RUNTIME_DIR=$PWD EDIT_SERVER=file:///$PWD/locks
	mkdir docs
	: >docs/page
	ln -s docs/page link
	start one "$EXAMPLES/edit-alone" docs/page sh -c ': >one; until test -e go; do sleep 0.05; done'
	wait_until test -e one
	AGENT=second start two "$EXAMPLES/edit-alone" ./link sh -c 'test -e go'
	wait_until eval '[[ $(dlock -S "$EDIT_SERVER" status --json | jq ".[0].waiting") == 1 ]]'
	try "$EXAMPLES/edit-alone" docs/other echo other
	expect 0 other
	: >go
	finish one
	assert_equal "$status" 0
	finish two
	assert_equal "$status" 0
}

@test "pinged: the one that ran it tells how, and nobody twice" {
	stub curl 'for url; do :; done; echo "${url##*/}" >>pings'
	stub backup 'exit "$(cat code)"'
	echo 3 >code
	try "$EXAMPLES/pinged" http://127.0.0.1:8080/ping --cooldown 12h backup backup --all
	assert_equal "$status" 3
	echo 0 >code
	try "$EXAMPLES/pinged" http://127.0.0.1:8080/ping --cooldown 12h backup backup --all
	assert_equal "$status" 0
	try "$EXAMPLES/pinged" http://127.0.0.1:8080/ping --cooldown 12h backup backup --all
	assert_equal "$status" 0
	DLOCK_SERVER=unix:///nowhere try "$EXAMPLES/pinged" http://127.0.0.1:8080/ping backup backup --all
	assert_equal "$status" 69
	assert_equal "$(paste -sd' ' pings)" '3 0 fail'
}

@test "relay: it has the socket, and is the process that systemd started" {
	cat >stubs/mail-relay <<-'END'
		#!/usr/bin/python3
		import os, socket
		assert os.environ["LISTEN_PID"] == str(os.getpid())
		open("leads", "w").write(str(os.getpid()) + "\n")
		socket.socket(fileno=3).accept()[0].sendall(b"relayed\n")
	END
	chmod +x stubs/mail-relay
	local port=$((20000 + RANDOM % 10000))
	start service systemd-socket-activate -l "127.0.0.1:$port" -E DLOCK_SERVER -E PATH "$EXAMPLES/relay"
	wait_until bash -c "exec 5<>/dev/tcp/127.0.0.1/$port && head -n 1 <&5 >answer && grep -q . answer" 2>>noise
	assert_equal "$(<answer)" relayed
	finish service
	assert_equal "$status" 0
	assert_equal "$(<leads)" "$service_pid"
	wait_until is_free mail-relay
}

# ---- A rate limiter ------------------------------------------------------------------------------

@test "fetch-all: at most five begin in any second, of two processes together" {
	stub curl 'echo "${EPOCHREALTIME/./}" >>begun'
	sed -i 's#/bin/sh#/bin/bash#' stubs/curl
	seq -f 'https://api.example.net/%.0f' 5 >urls
	local n
	for n in one two; do
		start $n sh -c "exec '$EXAMPLES/fetch-all' <urls"
	done
	for n in one two; do
		finish $n
		assert_equal "$status $err" '0 '
	done
	python <<-'END'
		begun = sorted(int(line) for line in open("begun"))
		assert len(begun) == 10, begun
		# A permit's second is the server's, from before the request begins.
		closest = min(later - first for first, later in zip(begun, begun[5:]))
		assert closest > 900_000, closest
	END
	wait_until is_free api.example.net
}

# ---- Pipelines -----------------------------------------------------------------------------------

# yaml EXPRESSION FILE: prints the value, found in the parsed file `it`.
yaml() {
	python "$EXAMPLES/$2" "$1" <<-'END'
		import sys, yaml
		it = yaml.safe_load(open(sys.argv[1]))
		print(eval(sys.argv[2]))
	END
}

# A deployment script: it deploys, labelled, and waits for one that is under way.
check_deployment() { # SCRIPT LABEL
	stub deploy 'dlock status --json deploy-production >seen; test ! -e slow || sleep 1'
	stub make
	: >slow
	start one sh -eu "$1"
	wait_until is_held deploy-production
	try sh -eu "$1"
	assert_equal "$status $err" '0 '
	assert_equal "$out" "$(grep -q '^make' "$1" && echo 'make '; echo 'deploy production')"
	finish one
	assert_equal "$status" 0
	assert_match "$(<seen)" "\"label\": ?\"$2\""
	assert is_free deploy-production
}

@test "GitLab CI" {
	local names
	names=$(yaml 'sorted(it["stages"] + [k for k in it if k != "stages"])' gitlab-ci.yml)
	assert_equal "$names" "['build', 'build', 'deploy', 'deploy', 'smoke-test', 'test']"
	yaml '"\n".join(it["deploy"]["script"])' gitlab-ci.yml >job
	CI_PROJECT_PATH=shop/web CI_JOB_ID=4711 check_deployment job 'shop/web job 4711'

	stub smoke-test
	yaml '"\n".join(it["smoke-test"]["script"])' gitlab-ci.yml >job
	try sh -eu job
	expect 0 'smoke-test production'
	begin_holder other smoke-test
	try sh -eu job
	assert_equal "$status" "$(yaml 'it["smoke-test"]["allow_failure"]["exit_codes"][0]' gitlab-ci.yml)"
	let_go other

	# Each has a database of its own.
	stub make 'echo $PGDATABASE'
	yaml '"\n".join(it["test"]["script"])' gitlab-ci.yml >job
	begin_holder first test-database --permits 3
	try sh -eu job
	expect 0 $'make check\ntest1'
	let_go first
	try sh -eu job
	expect 0 $'make check\ntest0'
}

@test "GitHub Actions" {
	assert_equal "$(yaml 'sorted(map(str, it))' github-actions.yml)" "['True', 'jobs', 'name']" # "on" is a yes
	yaml 'it["jobs"]["deploy"]["steps"][-1]["run"]' github-actions.yml >job
	GITHUB_REPOSITORY=shop/web GITHUB_RUN_ID=4711 check_deployment job 'shop/web run 4711'
	assert_equal "$(yaml 'it["jobs"]["deploy"]["env"]["DLOCK_SERVER"]' github-actions.yml)" \
		'${{ vars.DLOCK_SERVER }}'
}

@test "Jenkins" {
	local file=$EXAMPLES/Jenkinsfile
	assert_equal "$(grep -o '{' "$file" | wc -l)" "$(grep -o '}' "$file" | wc -l)"
	sed -nE "s/^ *sh '(.*)'\$/\1/p" "$file" >job
	assert_equal "$(wc -l <job)" "$(grep -cE "^ *sh " "$file")"
	JOB_NAME=web BUILD_NUMBER=4711 check_deployment job 'web 4711'
	# An aborted build: TERM to the step's shell and what is below it.
	stub deploy 'echo up >running; exec sleep 60'
	rm -f running
	start one env JOB_NAME=web BUILD_NUMBER=1 sh -c 'trap : TERM; . ./job; exit'
	wait_until is_file running
	kill -TERM -- -$one_pid
	finish one
	assert_equal "$status" 143
	assert is_free deploy-production
}

# ---- The resource's side: PostgreSQL -------------------------------------------------------------

# fenced TOKEN FILE: as the example has it, without dlock.
fenced() {
	psql -qAt -1 -v ON_ERROR_STOP=1 -v resource=orders -v token="$1" -f fence.sql -f "$2"
}

@test "PostgreSQL: a stale token is refused with its work, an equal and a newer one pass" {
	database_begin
	cp "$EXAMPLES/fence.sql" .
	psql -qc "$(grep -oE 'CREATE TABLE fence .*' fence.sql)" -c 'CREATE TABLE work (token bigint)'
	echo 'INSERT INTO work VALUES (:token);' >work.sql

	try fenced 41 work.sql
	expect 0 41
	try fenced 41 work.sql
	expect 0 41
	try fenced 42 work.sql
	expect 0 42
	try fenced 41 work.sql
	assert_equal "$status $out" '3 '
	assert_match "$err" "$(sed -nE 's/^--\tinvalid/invalid/p' fence.sql)"
	try fenced 9223372036854775807 work.sql
	expect 0 9223372036854775807
	assert_equal "$(psql -qAtc 'SELECT * FROM work' | paste -sd' ')" '41 41 42 9223372036854775807'

	# Work that fails takes its token back with it.
	psql -qc 'TRUNCATE fence'
	echo 'SELECT 1/0;' >fails.sql
	try fenced 50 fails.sql
	assert_equal "$status" 3
	assert_equal "$(psql -qAtc 'SELECT count(*) FROM fence')" 0
	# Another resource's tokens are another matter.
	try fenced 5 work.sql
	expect 0 5
}

@test "PostgreSQL: as its comment has it, under a lock" {
	database_begin
	cp "$EXAMPLES/fence.sql" .
	psql -qc "$(grep -oE 'CREATE TABLE fence .*' fence.sql)" -c 'CREATE TABLE work (token bigint)'
	echo 'INSERT INTO work VALUES (:token);' >work.sql
	shown fence.sql 1
	try sh -eu shown
	assert_equal "$status $err" '0 '
	try sh -eu shown
	assert_equal "$status $err" '0 '
	assert_equal "$(psql -qAtc 'SELECT count(*) FROM work, fence WHERE work.token <= fence.token')" 2
}

@test "migrate: two at once, each file once, in order; failures again; a stale token refused" {
	database_begin
	cp "$EXAMPLES/fence.sql" "$EXAMPLES/migrate" .
	mkdir migrations
	echo 'CREATE TABLE done (n int); INSERT INTO done VALUES (1);' >migrations/01.sql
	echo 'INSERT INTO done VALUES (2); SELECT pg_sleep(0.3);' >migrations/02.sql
	printf '%s\n' '-- no transaction' 'CREATE INDEX CONCURRENTLY IF NOT EXISTS i ON done (n);' >migrations/03.sql
	echo 'INSERT INTO done VALUES (4); SELECT 1/0;' >migrations/04.sql
	export DATABASE_URL="postgres://tester@/postgres?host=$database"
	shown migrate 1
	start a sh -eu shown
	try sh -eu shown
	assert_equal "$status" 3
	finish a
	assert_equal "$status" 3
	assert_equal "$(psql -qAtc 'SELECT n FROM done ORDER BY ctid' | paste -sd' ')" '1 2'
	assert_equal "$(psql -qAtc 'SELECT name FROM migration ORDER BY at' | paste -sd' ')" '01.sql 02.sql 03.sql'
	sed -i 's/ SELECT.*//' migrations/04.sql
	try sh -eu shown
	expect 0 'migrate: 04.sql'
	try sh -eu shown
	expect 0 ''
	echo 'INSERT INTO done VALUES (5);' >migrations/05.sql
	try env DLOCK_FENCE=1 ./migrate migrations
	assert_equal "$status" 3
	assert_match "$err" 'the fencing token 1 is stale'
	assert_equal "$(psql -qAtc 'SELECT n FROM done ORDER BY ctid' | paste -sd' ')" '1 2 4'
}

@test "PostgreSQL: between the statement and the commit others wait, then each gets its due" {
	database_begin
	cp "$EXAMPLES/fence.sql" .
	psql -qc "$(grep -oE 'CREATE TABLE fence .*' fence.sql)" \
		-c 'CREATE TABLE work (id serial, token bigint)'
	echo 'INSERT INTO work (token) VALUES (:token); SELECT pg_sleep(0.02) \g /dev/null' >work.sql
	local token pids=() passed=0 stale=0
	for token in $(seq 1 30 | shuf); do
		fenced "$token" work.sql >/dev/null 2>>err.txt 3>&- 4>&- &
		pids+=($!)
	done
	for token in "${pids[@]}"; do
		status=0
		wait "$token" || status=$?
		case $status in
		0) passed=$((passed + 1)) ;;
		3) stale=$((stale + 1)) ;;
		*) fail "status $status: $(<err.txt)" ;;
		esac
	done
	assert_equal "$((passed + stale)) $(grep -c 'is stale' err.txt || true)" "30 $stale"
	psql -qAtc 'SELECT token FROM work ORDER BY id' >tokens
	assert_equal "$(wc -l <tokens)" "$passed"
	sort -nc tokens
	assert_equal "$(tail -n 1 tokens)" 30
}

# ---- The resource's side: ssh --------------------------------------------------------------------

# ssh to this very machine, in the folder `remote`, which the paths of the examples become: as sshd
# would, it gives the command to a shell, or to the forced command in the file `forced`.
ssh_begin() {
	mkdir remote
	cat >stubs/ssh <<-END
		#!/bin/sh
		while [ "\$1" = -l ]; do shift 2; done
		[ "\$1" = www@web1 ] || [ "\$1" = web1 ] || exit 255
		shift
		unset DLOCK_FENCE DLOCK_SERVER
		export HOME=$PWD/remote
		cd
		[ -e $PWD/forced ] || exec sh -c "\$*"
		export SSH_ORIGINAL_COMMAND="\$*"
		exec sh -c "\$(cat $PWD/forced)"
	END
	chmod +x stubs/ssh
	mkdir site
	echo one >site/page
	sed "s#/srv/site#$PWD/remote/site#g; s#/usr/local/bin/##" shown >here
}

@test "publish: rsync over ssh, which the web server guards" {
	cp "$EXAMPLES/publish" .
	shown publish 1
	ssh_begin
	try sh -eu here
	expect 0
	assert_file remote/site/page one
	local first
	read -r first _ <remote/site.fence

	echo "two, of another length" >site/page # rsync goes by size and second
	: >site/more
	try sh -eu here
	expect 0
	assert_file remote/site/page "two, of another length"
	rm site/more
	try sh -eu here
	expect 0
	refute_file remote/site/more

	echo late >site/page
	try env DLOCK_FENCE="$first" ./publish site/ "www@web1:$PWD/remote/site"
	refute_match "$status" '^0$'
	assert_match "$err" "fencing token $first is stale"
	assert_file remote/site/page "two, of another length"
	try ./publish site/ "www@web1:$PWD/remote/site"
	assert_match "$status $err" '^[1-9].*run me under dlock'
	mkdir 'remote/a b'
	try env DLOCK_FENCE=1 ./publish site/ "www@web1:$PWD/remote/a b/"
	expect 0
	assert_file 'remote/a b/page' late
	assert is_file 'remote/a b.fence'
}

@test "receive: a forced command, which knows its place" {
	cp "$EXAMPLES/receive" stubs/
	shown receive 1
	sed -n 's/.*command="\([^"]*\)".*/\1/p' shown | sed "s#/srv/site#$PWD/remote/site#; s#/usr/local/bin/##" >forced
	assert is_file forced
	shown receive 2
	ssh_begin
	try sh -eu here
	expect 0
	assert_file remote/site/page one
	local first
	read -r first _ <remote/site.fence
	echo two >site/page
	try sh -eu here
	expect 0
	assert_file remote/site/page two

	echo late >site/page
	sed "s/\"\$DLOCK_FENCE\"/$first/" here >late
	try sh -eu late
	assert_equal "$status" 82
	assert_match "$err" 'stale'
	local bad
	for bad in '' nonsense '1; touch remote/broken' '--help'; do
		tar -C site -cf - . >site.tar
		try ssh www@web1 "$bad" <site.tar
		assert_equal "$status" 64
	done
	refute_file remote/broken
	assert_file remote/site/page two
	# The link, its target, the state file, and no leftovers.
	assert_equal "$(ls remote | wc -l)" 3
}

# ---- The resource's side: HTTP -------------------------------------------------------------------

@test "HTTP: the answers of the convention" {
	mkdir files
	start service "$PYTHON" "$EXAMPLES/http_fence.py" files 0
	wait_until file_has service.out 'port [0-9]'
	local port
	port=$(grep -oE '[0-9]+$' service.out)
	put() { # STATUS NAME TEXT [HEADER]...
		local wanted=$1 name=$2 text=$3 header options=()
		shift 3
		for header; do options+=(-H "$header"); done
		printf %s "$text" >upload
		assert_equal "$(curl -sS --path-as-is -o body -w '%{http_code}' -T upload "${options[@]}" \
			"http://127.0.0.1:$port/$name")" "$wanted" "$name ${options[*]}"
	}
	put 204 prices one 'Fencing-Token: 41'
	assert_file files/prices one
	put 204 prices two 'Fencing-Token: 41'
	put 204 prices three 'Fencing-Token: 42'
	put 412 prices late 'Fencing-Token: 41'
	assert_match "$(<body)" '41 is stale'
	put 428 prices late
	put 400 prices late 'Fencing-Token: nonsense'
	put 400 prices late 'Fencing-Token: -1'
	put 400 prices late 'Fencing-Token: 0'
	put 400 prices late 'Fencing-Token: 9223372036854775808'
	put 400 prices late 'Fencing-Token: 99999999999999999999'
	put 204 prices four 'fencing-token: 9223372036854775807'
	assert_file files/prices four
	put 204 other one 'Fencing-Token: 1'
	put 404 ../prices late 'Fencing-Token: 43'
	put 404 .prices.fence late 'Fencing-Token: 43'
	assert_equal "$(find files -name '.put-*')" ''

	shown http-fence.md 1
	sed "s#127.0.0.1:8080#127.0.0.1:$port#" shown >here
	echo five >prices.csv
	try sh -eu here
	assert_equal "$status $out$err" '0 '
	assert_file files/prices.csv five
	kill $service_pid
	finish service
}

@test "HTTP: thirty at once, and the file is the newest token's" {
	mkdir files
	start service "$PYTHON" "$EXAMPLES/http_fence.py" files 0
	wait_until file_has service.out 'port [0-9]'
	local port token pids=()
	port=$(grep -oE '[0-9]+$' service.out)
	for token in $(seq 1 30 | shuf); do
		echo "$token" >"upload.$token"
		curl -sS -o /dev/null -w '%{http_code}\n' -T "upload.$token" -H "Fencing-Token: $token" \
			"http://127.0.0.1:$port/file" >"answer.$token" 3>&- 4>&- &
		pids+=($!)
	done
	for token in "${pids[@]}"; do wait "$token"; done
	assert_equal "$(sort -u answer.* | grep -vx -e 204 -e 412 || true)" ''
	assert_file answer.30 204
	assert_file files/file 30
	kill $service_pid
	finish service
}
