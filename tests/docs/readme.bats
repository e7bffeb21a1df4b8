# README.md: what it shows is what dlock does, and what it names is there.

load ../lib/helper
load ../lib/document

setup_file() {
	file_begin
	export DOCUMENT=$BATS_TEST_DIRNAME/../../README.md
}
setup() { test_begin; }
teardown() { test_end; }
teardown_file() { file_end; }

@test "the session: a run, a busy lock, a table, a lock that is broken" {
	echo 'ttl = 3s' >>config/dlock.conf # so that the loss is seen soon
	printf '#!/bin/sh\necho copying\nexec sleep 60\n' >backup
	chmod +x backup
	run_sessions "redis://redis.example.net=$DLOCK_SERVER"
}

@test "the lines for cron: one host of three does the first; a busy second is silent" {
	stub backup
	stub fetch 'until test -e fetched; do sleep 0.02; done'
	shown crontab >crontab
	cron_job 1
	local host
	for host in a b c; do
		start "$host" sh job
	done
	for host in a b c; do
		finish "$host"
		assert_equal "$status$err" 0
	done
	assert_equal "$(cat [abc].out)" 'backup --all'

	cron_job 2
	start one sh job
	wait_until file_has one.out fetch
	try sh job
	expect 0
	: >fetched
	finish one
	expect 0 'fetch '
}

@test "the lines for cron: without a server each says one line, and ends with 69" {
	stub backup
	stub fetch
	local n
	shown crontab | sed 's#^DLOCK_SERVER=.*#DLOCK_SERVER=redis://127.0.0.1:1#' >crontab
	for n in 1 2; do
		cron_job $n
		try sh job
		expect_failure 69 'cannot reach redis://127.0.0.1:1: '
	done
}

@test "the token: three lines of shell let the same and a later holder in, and no earlier one" {
	shown sh fence >fence
	local token
	for token in 7 7 9; do
		DLOCK_FENCE=$token try sh fence
		expect 0
	done
	DLOCK_FENCE=8 try sh fence
	expect 82
	assert_file seen 9
}

@test "every display is run here, and every link leads to a file" {
	every_block_is_run
	every_link_leads
}

@test "its ten answers stand on two screens, the whole on three" {
	assert_equal "$(grep -cE '^\*\*[0-9]+\. .*\?\*\* ' "$DOCUMENT")" 10
	assert_between "$(sed -n '/^## Ten quick/,/^## The place/p' "$DOCUMENT" | wc -l)" 20 80 'lines of answers'
	assert_between "$(wc -l <"$DOCUMENT")" 60 155 lines
}

@test "the options and programs that it names are there" {
	local option
	dlock run --help >help
	grep -oE -- '`[^`]*`' "$DOCUMENT" | grep -oE -- ' --?[a-zA-Z][a-z-]*|`--?[a-zA-Z][a-z-]*' | tr -d '` ' | sort -u |
		grep -vxE -- '--force|--install|--save|--quick|--all|-e' >named
	assert_between "$(wc -l <named)" 8 30
	while read -r option; do
		grep -qE -- "(^| )$option(,| |\$)" help || [[ $option == -nq ]] || fail "dlock has no $option"
	done <named
	cd "$BATS_TEST_DIRNAME/../.."
	assert test -x demo -a -x check -a -x bench/run
}

@test "the lines for a unit of systemd are lines that systemd takes" {
	grep -oE '`(ExecStart|KillMode)=[^`]*`' "$DOCUMENT" | tr -d '`' >lines
	assert_equal "$(wc -l <lines)" 2
	{
		printf '[Service]\nType=exec\n'
		sed 's#/usr/bin/dlock#/bin/true#; s#/usr/local/bin/[a-z-]*#/bin/true#' lines
	} >readme.service
	try systemd-analyze verify --man=no ./readme.service
	expect 0
	stub backup
	sed -n 's#^ExecStart=/usr/bin/##p' lines | sed 's#/usr/local/bin/##' >job
	try sh job
	expect 0 'backup --all'
}
