# Bad input: its exit code, one line on stderr that names what was wrong, and nothing left behind. What is bad is
# in the tables of ../unit; here is what dlock does then.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

# bad CODE REGEX [ARG]...: collects what is wrong, so that one run shows all of it.
bad() {
	local code=$1 regex=$2
	shift 2
	try dlock "$@"
	if ! (expect_failure "$code" "$regex") 2>>findings; then
		echo "  given:$(printf ' %q' "$@")" >>findings
	fi
	if [[ -e ran || $(cli DBSIZE) != 0 || $(find . -name 'core*') ]]; then
		echo "left behind by:$(printf ' %q' "$@")" >>findings
		rm -f ran
		cli FLUSHALL >/dev/null
	fi
}

no_findings() {
	[[ ! -e findings || ! -s findings ]] || fail "$(<findings)"
}

@test "a bad command line: 64, one line that says why, nothing run and nothing left" {
	local unknown
	unknown=--$(printf 'p%.0s' {1..300})
	bad 64 '' -n
	bad 64 'x' x
	bad 64 'nothing may follow' x -c 'touch ran' more
	bad 64 "unknown option '-Z'" -Z x touch ran
	bad 64 "^dlock: unknown option '$unknown'$" "$unknown" x touch ran
	bad 64 "^dlock: unknown option '--timout'; did you mean --timeout[?]$" --timout 5 x touch ran
	bad 64 "^dlock: ambiguous option '--re': several begin like this$" --re x touch ran
	bad 64 'nonblock' --nonblock=1 x touch ran
	bad 64 'json' --json x touch ran
	bad 64 '-Z' status -Z
	bad 64 'dlock release' -nu x touch ran
	bad 64 'dlock run list' -n list -c 'touch ran'
	bad 64 'soonish' -w soonish x touch ran
	bad 64 '256' -E 256 -n x touch ran
	bad 64 'soonish' --stop-signal soonish x touch ran
	bad 64 'soonish' --on-lost=soonish x touch ran
	bad 64 'grace' -t 3 --grace 1001ms x touch ran
	bad 64 '[{]' --prefix '{' x touch ran
	bad 64 'redis://h:0' -S redis://h:0 x touch ran
	bad 64 'redis://h:0' status -S redis://h:0
	DLOCK_SERVER=redis://h:0 bad 64 'DLOCK_SERVER' x touch ran
	DLOCK_SERVER='' bad 78 '-S.*DLOCK_SERVER.*dlock\.conf' x touch ran
	no_findings
}

@test "words that are commands are no bare NAME: they are what they say" {
	local word
	for word in hold acquire guard check; do
		bad 64 '' $word touch ran
	done
	for word in renew release; do
		bad 1 'token' $word touch ran
	done
	no_findings
}

@test "a bad configuration: 78 with file and line, or what the file is" {
	printf '# a comment\n\nttl = soonish\n' >config/dlock.conf
	bad 78 "dlock\.conf:3: ttl: 'soonish'" x touch ran
	rm config/dlock.conf
	mkdir config/dlock.conf
	bad 78 'dlock\.conf' x touch ran
	no_findings
}

@test "a password in a bad URL is in no message" {
	local url
	for url in 'redis://u:s3cret@h:0' 'http://u:s3cret@h' 'redis://h?password=s3cret' 'redis://u:%zzs3cret@h'; do
		try dlock -S "$url" x touch ran
		assert_equal "$status" 64 "$url"
		refute_match "$err" s3cret "$url"
		DLOCK_SERVER=$url try dlock x touch ran
		refute_match "$err" s3cret "$url"
	done
	refute_file ran
}

@test "control characters in what is quoted do not reach the terminal" {
	local value=$'bad\e[31m\a\nsecond line'
	bad 64 'bad' -w "$value" x touch ran
	bad 64 'bad' -S "$value" x touch ran
	bad 64 'bad' --stop-signal "$value" x touch ran
	bad 64 'bad' --on-lost "$value" x touch ran
	bad 127 'bad' x "$value"
	no_findings
	try dlock -w "$value" x touch ran
	refute_match "$err" $'[\e\a]'
}

@test "bad usage is found before the server is asked" {
	export DLOCK_SERVER=unix://$PWD/none
	bad 64 '' -w soonish x touch ran
	bad 64 '' -t 0 x touch ran
	bad 64 '' $'a\nb' touch ran
	bad 127 '' x /no/such/thing
	no_findings
}

@test "stderr closed or full does not change the exit code" {
	status=0
	dlock -w soonish x touch ran 2>&- || status=$?
	assert_equal "$status" 64
	status=0
	dlock -w soonish x touch ran 2>/dev/full || status=$?
	assert_equal "$status" 64
	refute_file ran
}

@test "a stderr that may not grow does not change what happens; COMMAND may die of its own" {
	local size
	skip_where_files_must_grow
	for size in 0 1; do
		truncate -s $((size * 1024)) full
		status=0
		(ulimit -S -f $size && exec dlock -v x sh -c 'ulimit -S -f unlimited; echo ran >ran; exit 5') 2>>full || status=$?
		assert_equal "$status" 5
		assert_file ran ran
		assert_equal "$(stat -c %s full)" $((size * 1024))
	done
	(ulimit -f 1 && exec dlock x sh -c 'head -c 4096 /dev/zero >big; [ $? = 153 ]')
}

@test "a stderr that nobody reads keeps neither a wait nor a lock from ending" {
	cat >stuck.py <<-'END'
		import os, subprocess, sys

		reader, writer = os.pipe()
		os.set_blocking(writer, False)
		for size in (4096, 1):
		    try:
		        while True:
		            os.write(writer, b"x" * size)
		    except BlockingIOError:
		        pass
		os.set_blocking(writer, True)
		limit = 20 * float(os.environ.get("TEST_PATIENCE", "1"))
		sys.exit(subprocess.run(sys.argv[1:], stderr=writer, timeout=limit).returncode)
	END
	begin_holder one x
	try "$PYTHON" stuck.py dlock -v -w 3 x true
	assert_equal "$status" 1
	let_go one
	# That the lock was set again is worth a message.
	try "$PYTHON" stuck.py dlock -t 3 x sh -c '
		redis-cli -s "$0" DEL lock:x
		until [ "$(redis-cli -s "$0" EXISTS lock:x)" = 1 ]; do sleep 0.05; done
		exit 9' "$SERVER/socket"
	assert_equal "$status" 9
}

@test "--help to a full disk is a failure" {
	status=0
	dlock --help >/dev/full 2>err || status=$?
	refute [ "$status" = 0 ]
	status=0
	dlock status --json >/dev/full 2>err || status=$?
	refute [ "$status" = 0 ]
}
