# The manuals of section 1: every one of their examples, run.

load ../lib/helper
load ../lib/manual

setup_file() { file_begin; }
setup() {
	test_begin
	mkdir stubs
	PATH=$PWD/stubs:$PATH
}
teardown() { test_end; }
teardown_file() { file_end; }

@test "every example is run here" {
	local kind name
	sed -n 's/^\.\\" example: //p' $(pages 1) >listed
	assert_between "$(wc -l <listed)" 15 100
	assert_equal "$(sed -n '/^\.Sh EXAMPLES/,/^\.Sh/p' $(pages 1) | grep -c '^\.Bd')" "$(wc -l <listed)"
	while read -r kind name; do
		grep -qE "^	(run_example|example) $name( |\$)" "$BATS_TEST_FILENAME" || fail "$name is not run"
	done <listed
}

@test "example: crontab, of many hosts one runs the job" {
	stub backup 'sleep 1'
	example night >example
	sed -n 's/^DLOCK_SERVER=/export &/p; s/^0 3 \* \* \* //p' example >job
	assert_equal "$(wc -l <job)" 2
	local host
	for host in a b c; do
		start "$host" sh job
	done
	for host in a b c; do
		finish "$host"
		assert_equal "$status" 0
		assert_equal "$err" ""
	done
	assert_equal "$(cat [abc].out)" "backup --all"
}

@test "example: a script that waits" {
	stub deploy
	run_example wait
	expect 0 "deploy production"

	stub deploy 'exit 3'
	run_example wait
	expect 1 "deploy production" "not deployed"
}

@test "example: a pipeline's step, labelled" {
	stub make 'dlock status --json -S "$SERVER_URL" >seen'
	example step >example
	SERVER_URL=$(grep -o 'redis://[^ ]*' example) CI_JOB_ID=4711 try sh -eu example
	expect 0 "make migrate"
	assert_match "$(<seen)" '"label": ?"4711"'
}

@test "example: shell syntax under the lock" {
	stub make
	run_example shell
	expect 0
	assert_file report "make report"
}

@test "example: a busy lock and a failed command told apart" {
	stub import
	run_example busy
	expect 0 $'import \nimported'

	stub import 'exit 1'
	example busy >example
	try sh example
	expect 0 $'import \nthe import failed'

	begin_holder other import
	try sh example
	assert_equal "$status $out" "0 another host imports just now"
	assert_match "$err" '^dlock: import: .*held by '
	let_go other
}

@test "example: holders and what they hold" {
	begin_holder one backup
	begin_holder two deploy-web
	run_example look
	assert_equal "$status $err" "0 "
	assert_match "$out" 'NAME.*backup.*"name": ?"deploy-web".*a backup is running$'
	let_go one
	let_go two
}

@test "example: a shorter TTL, another stop signal" {
	stub batch
	run_example short-ttl
	expect 0 "batch "
}

@test "example: once a day, for an hour at most" {
	stub import
	run_example once
	expect 0 "import "
	run_example once
	expect 0
	cli DEL "lock:{lock:import}:once:$(date +%F)" >/dev/null
}

@test "example: the outcome rather than the exit code" {
	stub nightly 'exit 3'
	example outcome >example
	try sh example
	expect 0 $'nightly \ndone'
	begin_holder other nightly
	try sh example
	assert_equal "$status $out" "0 still at it elsewhere"
	let_go other
	rm nightly
	try sh example
	assert_equal "$status $out" "0 look into it"
}

@test "example: the resource's side, which an old token does not pass" {
	stub ssh 'shift; exec "$@"'
	stub publish
	run_example resource
	local fence
	read -r fence _ <site.fence
	expect 0 "ssh www dlock guard --fence $fence site.fence ./publish"$'\npublish '

	try dlock guard --fence 1 site.fence ./publish
	expect_failure 82 'site.fence'
}

@test "example: the steps of a pipeline" {
	stub migrate 'echo "$DLOCK_FENCE" >fence; dlock -n staging true || echo busy'
	export CI_JOB_ID=4711
	run_example pipeline-first
	expect 0
	local token fence
	read -r token fence <staging.lock
	assert owner_is staging "$token"
	run_example pipeline-next
	assert_equal "$status $out" $'0 migrate \nbusy'
	assert_file fence "$fence"
	run_example pipeline-last
	expect 0
	assert is_free staging
	run_example pipeline-next
	assert_equal "$status $out" '1 '
}

@test "example: a lock is released by force" {
	dlock acquire staging >staging.lock
	run_example force
	assert_equal "$status" 0
	assert_match "$out" 'staging .*\(detached\)'
	assert_match "$err" '^dlock: staging: released by force: held by '
	assert is_free staging
}

@test "example: a limit of rate" {
	stub call 'echo "$DLOCK_FENCE" >>calls'
	example rate >example
	local i
	for i in {1..6}; do
		try sh -eu example
		expect 0 'call '
	done
	# Fences are the moments of the grants, in us.
	(($(sed -n 6p calls) - $(sed -n 1p calls) > 999000)) || fail "$(<calls)"
	wait_until is_free api
}

@test "example: the rest of a script" {
	stub collect 'dlock status -q nightly && echo held'
	stub report
	run_example script
	expect 0 $'collect \nheld\nreport '
	wait_until is_free nightly

	begin_holder other nightly
	run_example script
	assert_equal "$status $out" '1 '
	assert_match "$err" '^dlock: nightly: busy: held by '
	let_go other
}

@test "example: a part of a script" {
	stub publish 'dlock status -q publish && echo held'
	stub announce 'dlock status -q publish || echo free'
	run_example script-part
	assert_equal "$status" 0
	assert_match "$out" $'^publish --fence [0-9]{16}\nheld\nannounce \nfree$'
}

@test "example: a script whose trap runs once, though TERM comes to it and to its keeper" {
	stub next-part
	stub move-part 'echo $$ >moving; exec sleep 300'
	# The second one is still under way, or comes just now.
	stub put-back 'echo >>put; kill -TERM "$PPID"; dlock status -q mover && echo held'
	example script-trap >script-trap
	local keeper i
	for i in {1..5}; do
		rm -f moving put
		start script sh -eu script-trap
		wait_until is_file moving
		for keeper in $(marked_pids); do
			[[ $(proc_status "$keeper" Name) != "dlock hold" ]] || break
		done
		kill -TERM "$script_pid" "$keeper" "$(<moving)"
		finish script
		assert_match "$status $out" $'^0 next-part \nmove-part \nput-back \nheld$'
		assert_equal "$(wc -l <put)" 1
		wait_until is_free mover
	done
}

@test "example: a server is looked at before it gets a lock" {
	run_example check
	assert_match "$status" '^[01]$'
	assert_match "$out" 'scripts +ok '
}
