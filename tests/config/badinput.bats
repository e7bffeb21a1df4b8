# Bad input: its exit code, one line on stderr that names what was wrong, and nothing left behind.

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

@test "too little, too much" {
	bad 64 '' -n
	bad 64 'x' x
	bad 64 '' -n x
	bad 64 '' x --
	bad 64 '' -w
	bad 64 '' -S
	bad 64 '' -c
	bad 64 '' x -c
	bad 64 '' -c 'touch ran'
	bad 64 '' x -c 'touch ran' more
	bad 64 '' -c 'touch ran' x more
	bad 64 '' -c 'touch ran' x -c 'touch ran'
	bad 64 '' run
	bad 64 '' run x
	no_findings
}

@test "options that do not exist" {
	bad 64 'Z' -Z x touch ran
	bad 64 'no-such' --no-such x touch ran
	bad 64 "^dlock: unknown option '--timout'; did you mean --timeout[?]$" --timout 5 x touch ran
	bad 64 "^dlock: unknown option '--intervall'$" --intervall 5 x touch ran
	bad 64 "^dlock: unknown option '--intervall'; did you mean --interval[?]$" status --intervall 5
	bad 64 "^dlock: unknown option '--$(printf 'p%.0s' {1..300})'$" "--$(printf 'p%.0s' {1..300})" x touch ran
	bad 64 "^dlock: ambiguous option '--re': several begin like this$" --re x touch ran
	bad 64 'no-such' --no-such=1 x touch ran
	bad 64 'nonblock' --nonblock=1 x touch ran
	bad 64 'Z' status -Z
	bad 64 'no-such' status --no-such
	bad 64 'Z' run -Z x touch ran
	bad 64 'json' --json x touch ran
	bad 64 '' status -w 1
	bad 64 '' status -c 'touch ran'
	no_findings
}

@test "options of flock that have another way here, which is named" {
	bad 64 'dlock release' -u x touch ran
	bad 64 'dlock release' -nu x touch ran
	local option
	for option in -F --fd=9 --fcntl --start=0 --length=1; do
		bad 64 "${option%%=*}" $option x touch ran
	done
	bad 64 'dlock hold' -n 9
	bad 64 'dlock hold' 9
	bad 64 'dlock hold' -w 5 200
	no_findings
}

@test "words that are commands, or will be, are no bare NAME" {
	local word
	for word in help version list watch break config completion; do
		bad 64 "dlock run.*" $word touch ran
		bad 64 "dlock run.*" -n $word touch ran
		bad 64 "dlock run.*" $word -c 'touch ran'
	done
	for word in hold acquire guard check; do
		bad 64 '' $word touch ran
	done
	for word in renew release; do
		bad 1 'token' $word touch ran
	done
	no_findings
}

@test "durations" {
	local value
	for value in '' ' ' abc -1 -0.5 1x 1e3 0x10 ' 1' '1 ' '1 s' 1s1 s 1.2.3 . 1,5 nan inf 1ss 1us 1ms5 \
		--5 5- 1y 99999999999999999999999 1000000000d '1m 30s' 1m30 $'1\n' ٣; do
		bad 64 "'?${value//[^0-9a-z]/.}'?" -w "$value" x touch ran
		bad 64 '' -t "$value" x touch ran
		bad 64 '' --grace "$value" x touch ran
	done
	no_findings
}

@test "the value at fault is quoted" {
	bad 64 'soonish' -w soonish x touch ran
	bad 64 'soonish' -t soonish x touch ran
	bad 64 'soonish' --grace=soonish x touch ran
	bad 64 'soonish' -E soonish x touch ran
	bad 64 'soonish' --stop-signal soonish x touch ran
	bad 64 'soonish' --on-lost soonish x touch ran
	bad 64 'soonish' -S soonish x touch ran
	no_findings
}

@test "a TTL that is too short, a grace that does not fit into it" {
	bad 64 '' -t 0 x touch ran
	bad 64 '' -t 999ms x touch ran
	bad 64 '' -t 0.5 x touch ran
	bad 64 '' --grace 11s x touch ran
	bad 64 '' -t 3 --grace 1001ms x touch ran
	bad 64 '' --grace 1001ms -t 3 x touch ran
	bad 64 '' -t 1h --grace 10.1 x touch ran
	no_findings
	local fits
	for fits in '-t 1' '-t 3 --grace 1s' '--grace 10s' '--grace 0' '-t 1h --grace 10'; do
		try dlock $fits x true
		expect 0
	done
}

@test "numbers, words" {
	local value
	for value in '' -1 256 1000 99999999999999999999 1.5 abc 0x1 ' 1' '1 ' 1s; do
		bad 64 '' -E "$value" -n x touch ran
	done
	for value in '' 0 -1 65 9999 FOO SIGFOO SIG 'TERM ' TERMX 1.5; do
		bad 64 '' --stop-signal "$value" x touch ran
	done
	for value in '' Stop stopp 'stop ' kill 1; do
		bad 64 '' --on-lost "$value" x touch ran
	done
	no_findings
}

@test "prefixes" {
	local value
	for value in $'a\nb' $'\e' $'\xff' '{' 'a{b' '{}' 'a{}:' "$(printf 'a%.0s' {1..129})"; do
		bad 64 '' --prefix "$value" x touch ran
	done
	no_findings
	for value in '{app}:' 'a{b}c:' "$(printf 'a%.0s' {1..128})" 'é '; do
		try dlock --prefix "$value" x true
		expect 0
	done
}

@test "servers" {
	local url
	for url in '' ' ' localhost localhost:6379 /tmp/socket http://localhost redis: redis:/ redis:// \
		redis:///0 redis://:6379 redis://h:0 redis://h:65536 redis://h:99999999999 redis://h:abc redis://h:-1 \
		redis://h:6379/x redis://h/-1 redis://h/99999999999 redis://h/1/2 redis://h/1x \
		'redis://h?x=1' 'redis://h/0?db=1' redis://@ redis://u@ 'redis://[::1' 'redis://[]' \
		'redis://[::1]x' 'redis://h h' $'redis://h\n' $'redis://\e[1mh' 'redis://u:%zz@h' 'redis://u:%@h' \
		'redis://u:%00@h' unix: unix:// unix:/tmp/socket unix://relative 'unix:///s?db=x' 'unix:///s?db=-1' 'unix:///s?x=1' \
		'unix:///s?db=' "unix:///$(printf 'a%.0s' {1..200})" REDIS//x ftp://h ://h; do
		bad 64 '' -S "$url" x touch ran
		bad 64 '' status -S "$url"
	done
	no_findings
}

@test "a server that DLOCK_SERVER names badly" {
	local url
	for url in localhost http://localhost redis://h:0 unix://relative; do
		DLOCK_SERVER=$url try dlock x touch ran
		[[ $status == 64 || $status == 78 ]] || fail "$url: exit $status"
		expect_failure "$status" 'DLOCK_SERVER|localhost|h:0|relative'
	done
	refute_file ran
}

@test "no server named: 78, and the three ways to name one" {
	unset DLOCK_SERVER
	bad 78 '-S.*DLOCK_SERVER.*dlock\.conf' x touch ran
	bad 78 '-S.*DLOCK_SERVER.*dlock\.conf' status
	DLOCK_SERVER='' bad 78 'DLOCK_SERVER' x touch ran
	no_findings
}

@test "a bad configuration: 78 with file and line" {
	local line
	for line in 'no-such-key = 1' 'ttl = soonish' 'ttl =' 'garbage' 'wait = -1' 'server = nonsense' \
		'[unclosed' '= 1' 'on-lost = maybe' 'nonblock = maybe' 'grace = 1h'; do
		printf '# a comment\n\n%s\n' "$line" >config/dlock.conf
		try dlock x touch ran
		expect_failure 78 'dlock\.conf' || fail "line: $line"
		[[ $line == 'grace = 1h' ]] || assert_match "$err" 'dlock\.conf(:3|.*line 3)' "line: $line"
	done
	rm config/dlock.conf
	mkdir config/dlock.conf
	try dlock x touch ran
	expect_failure 78 'dlock\.conf'
	refute_file ran
	assert_equal "$(cli DBSIZE)" 0 'keys'
}

@test "a password in a bad URL is in no message" {
	local url
	for url in 'redis://u:s3cret@h:0' 'redis://u:s3cret@' 'redis://:s3cret@h/x' 'http://u:s3cret@h' \
		'redis://u:s3cret@[::1' 'redis://u:s3cret@h?x=s3cret' 'redis://h?password=s3cret' \
		'redis://u:%zzs3cret@h'; do
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
