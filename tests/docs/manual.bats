# The manual: its markup, its options against --help, its exit codes against the source, and every
# one of its examples, run.

load ../lib/helper

setup_file() {
	file_begin
	export MANUAL=$BATS_TEST_DIRNAME/../../man/dlock.1
}
setup() {
	test_begin
	mkdir stubs
	PATH=$PWD/stubs:$PATH
}
teardown() { test_end; }
teardown_file() { file_end; }

# stub NAME [TEXT]: a program that an example calls; says how it was called, then does TEXT.
stub() {
	mkdir -p "$(dirname "stubs/$1")"
	printf '#!/bin/sh\necho "%s $*"\n%s\n' "$1" "${2:-}" >"stubs/$1"
	chmod +x "stubs/$1"
	ln -sf "stubs/$1" "$1"
}

# examples: the number of literal displays in EXAMPLES.
examples() { sed -n '/^\.Sh EXAMPLES/,/^\.Sh COMPAT/p' "$MANUAL" | grep -c '^\.Bd'; }

# example KIND N: writes the Nth display, which must be of KIND, to the file `example`.
example() {
	awk -v kind="$1" -v n="$2" '
		/^\.Sh /           { inside = ($2 == "EXAMPLES") }
		!inside            { next }
		/^\.\\" example: / { marked = $3; next }
		/^\.Bd -literal/   { if (++seen == n && marked == kind) copying = 1; marked = ""; next }
		/^\.Ed/            { copying = 0; next }
		copying            { print }' "$MANUAL" >example
	[[ -s example ]] || fail "example $2 is not of kind $1"
	refute grep -q '\\' example # nothing that roff would change
	sed -i "s#redis://redis.example.net#redis://127.0.0.1:$(<"$SERVER/port")#" example
}

# The Nth example as a script of its own.
run_example() {
	example sh "$1"
	try sh -eu example
}

@test "mandoc finds nothing to complain about" {
	# Whether another manual is installed here is not ours to say.
	try mandoc -Tlint "$MANUAL"
	assert_equal "$(grep -v 'referenced manual not found' try.out || true)" ""
}

# options_of COMMAND...: the options that its --help lists, one a line.
options_of() {
	"$@" --help | grep -oE -- '(^|[ ,])--?[[:alpha:]][[:alpha:]-]*' | tr -d ' ,'
}

@test "it has every option of --help, and no other that dlock does not know" {
	sed -n 's/^\.It Fl //p' "$MANUAL" | sed 's/ , /\n/g' | sed -E 's/^(Fl )?(-?[^ ]+).*/-\2/' |
		sort -u >in_manual
	local command
	for command in run $(dlock --help | sed -nE '/^Commands/,/^$/s/^  ([a-z]+) .*/\1/p'); do
		options_of dlock "$command"
	done | sort -u >in_help
	assert_between "$(wc -l <in_help)" 35 200
	assert grep -qx -e --fence in_help
	assert grep -qx -e --json in_help
	assert_equal "$(comm -13 in_manual in_help)" "" "not in the manual"

	# --help has one long name of each option; the manual has them all.
	local option
	for option in $(comm -23 in_manual in_help); do
		try dlock "$option" 1
		refute_match "$err" "unknown|unrecognized|no such option" "$option"
	done
	try dlock --no-such-option 1
	assert_match "$err" "unknown|unrecognized|no such option"
}

@test "its exit codes are those of the source" {
	local source=$BATS_TEST_DIRNAME/../../src/base/exitcode.h code
	sed -n '/^\.Sh EXIT STATUS/,/^\.Sh EXAMPLES/s/^\.It \([0-9]*\)$/\1/p' "$MANUAL" >codes
	assert_between "$(wc -l <codes)" 12 20
	for code in $(<codes); do
		grep -qE "= $code,|EXIT_BUSY = $code" "$source" || fail "$code is not in exitcode.h"
	done
}

@test "its exit codes are all that there are, its environment all that is read" {
	local one
	for one in $(sed -nE 's/^[[:space:]]*EXIT_[A-Z_]+ = ([1-9][0-9]*),.*/\1/p' "$BATS_TEST_DIRNAME/../../src/base/exitcode.h"); do
		sed -n '/^\.Sh EXIT STATUS/,/^\.Sh EXAMPLES/p' "$MANUAL" | grep -qwE -- "$one" || fail "$one is not in the manual"
	done
	grep -rhoE 'getenv\("[A-Z_]+"\)|"(DLOCK|REDISCLI)_[A-Z]+"' "$BATS_TEST_DIRNAME"/../../src --include=*.c |
		grep -oE '[A-Z]+(_[A-Z]+)*' | sort -u >read
	assert_between "$(wc -l <read)" 12 30
	for one in $(<read); do
		sed -n '/^\.Sh ENVIRONMENT/,/^\.Sh FILES/p' "$MANUAL" | grep -qE "^\.It Ev (.* )?$one( |\$)" ||
			fail "$one is not in the manual"
	done
}

@test "every example is run here" {
	local n count
	count=$(examples)
	assert_between "$count" 8 100
	assert_equal "$(grep -c '^\.\\" example: ' "$MANUAL")" "$count"
	for ((n = 1; n <= count; n++)); do
		grep -qE "^	(run_example|example (sh|crontab)) $n\$" "$BATS_TEST_FILENAME" || fail "example $n is not run"
	done
}

@test "the README shows the manual's examples" {
	local line
	sed -n '/^\.Sh EXAMPLES/,/^\.Sh COMPAT/p' "$MANUAL" >examples
	sed '1,/^## Using it/d' "$BATS_TEST_DIRNAME/../../README.md" |
		sed -n 's/ || exit$//; s/^    \(0 3\|dlock\)/\1/p' >lines
	assert_between "$(wc -l <lines)" 6 20
	while IFS= read -r line; do
		grep -qF -- "$line" examples || fail "not in the manual: $line"
	done <lines
}

@test "example: crontab, of many hosts one runs the job" {
	stub backup 'sleep 1'
	example crontab 1
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
	run_example 2
	expect 0 "deploy production"

	stub deploy 'exit 3'
	run_example 2
	expect 1 "deploy production" "not deployed"
}

@test "example: a pipeline's step, labelled" {
	stub make 'dlock status --json -S "$SERVER_URL" >seen'
	example sh 3
	SERVER_URL=$(grep -o 'redis://[^ ]*' example) CI_JOB_ID=4711 try sh -eu example
	expect 0 "make migrate"
	assert_match "$(<seen)" '"label": ?"4711"'
}

@test "example: shell syntax under the lock" {
	stub make
	run_example 4
	expect 0
	assert_file report "make report"
}

@test "example: a busy lock and a failed command told apart" {
	stub import
	run_example 5
	expect 0 $'import \nimported'

	stub import 'exit 1'
	example sh 5
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
	run_example 6
	assert_equal "$status $err" "0 "
	assert_match "$out" 'NAME.*backup.*"name": ?"deploy-web".*a backup is running$'
	let_go one
	let_go two
}

@test "example: a shorter TTL, another stop signal" {
	stub batch
	run_example 7
	expect 0 "batch "
}

@test "example: once a day, for an hour at most" {
	stub import
	run_example 8
	expect 0 "import "
	run_example 8
	expect 0
	cli DEL "lock:{lock:import}:once:$(date +%F)" >/dev/null
}

@test "example: the outcome rather than the exit code" {
	stub nightly 'exit 3'
	example sh 9
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
	run_example 10
	local fence
	read -r fence _ <site.fence
	expect 0 "ssh www dlock guard --fence $fence site.fence ./publish"$'\npublish '

	try dlock guard --fence 1 site.fence ./publish
	expect_failure 82 'site.fence'
}

@test "example: the steps of a pipeline" {
	stub migrate 'echo "$DLOCK_FENCE" >fence; dlock -n staging true || echo busy'
	export CI_JOB_ID=4711
	run_example 11
	expect 0
	local token fence
	read -r token fence <staging.lock
	assert owner_is staging "$token"
	run_example 12
	assert_equal "$status $out" $'0 migrate \nbusy'
	assert_file fence "$fence"
	run_example 13
	expect 0
	assert is_free staging
	run_example 12
	assert_equal "$status $out" '1 '
}

@test "example: a lock is released by force" {
	dlock acquire staging >staging.lock
	run_example 14
	assert_equal "$status" 0
	assert_match "$out" 'staging .*\(detached\)'
	assert_match "$err" '^dlock: staging: released by force: held by '
	assert is_free staging
}

@test "example: a limit of rate" {
	stub call 'echo "$DLOCK_FENCE" >>calls'
	example sh 15
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
	run_example 16
	expect 0 $'collect \nheld\nreport '
	wait_until is_free nightly

	begin_holder other nightly
	run_example 16
	assert_equal "$status $out" '1 '
	assert_match "$err" '^dlock: nightly: busy: held by '
	let_go other
}

@test "example: a part of a script" {
	stub publish 'dlock status -q publish && echo held'
	stub announce 'dlock status -q publish || echo free'
	run_example 17
	assert_equal "$status" 0
	assert_match "$out" $'^publish --fence [0-9]{16}\nheld\nannounce \nfree$'
}
