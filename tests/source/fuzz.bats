# Each fuzzer over its corpus, and over some thousand changed inputs: the same ones each time. For more
# than that there is `make fuzz`.

load ../lib/helper

setup() {
	export LC_ALL=C.UTF-8
	FUZZ=$BATS_TEST_DIRNAME/../fuzz
	PROGRAMS=${builddir:-$BATS_TEST_DIRNAME/../..}/tests/fuzz
	cd "$BATS_TEST_TMPDIR"
}

# fuzz NAME RUNS: a tenth of them under valgrind (tests/memcheck).
fuzz() {
	local files=("$FUZZ/corpus/$1"/*) runs=$2
	[[ -z ${VALGRIND:-} ]] || runs=$((runs / 10))
	# shellcheck disable=SC2086 # words
	try ${VALGRIND:+$VALGRIND --error-exitcode=99} "$PROGRAMS/fuzz_$1" $runs "${files[@]}"
	[[ $status == 0 ]] || fail "$1: status $status, on $(od -An -c failed-input | head -n 40)" "$err"
	assert_equal "${err##*$'\n'}" "${#files[@]} files, $runs changed"
}

@test "a configuration file may hold anything" { fuzz config 4000; }

@test "a duration may be anything" { fuzz duration 20000; }

@test "a NAME, a PREFIX, an ID and a record may be anything" { fuzz name 10000; }

@test "a command line may be anything" { fuzz options 4000; }

@test "a server's URL may be anything, and its password is never shown" { fuzz server 10000; }

@test "a server may answer anything" { fuzz reply 6000; }

@test "and so may the nodes of a Cluster, Sentinels, a quorum, whatever is asked" { fuzz servers 6000; }

@test "and so may whoever is at the other end of TLS" { fuzz tls 2000; }

@test "a fuzzer that finds something fails, and leaves the input" {
	printf 'redis://h' >harmless
	local program=$PROGRAMS/fuzz_server
	try "$program" 1 harmless
	assert_equal "$status" 0
	# Of an input that cannot be read it says so, and fails.
	try "$program" 1 missing
	assert_equal "$status" 134
	assert_match "$err" 'driver.c:.*not so'
	assert test -e failed-input
}

@test "each fuzzer has a corpus, and is run" {
	local file name
	for file in "$FUZZ"/fuzz_*.c; do
		name=$(basename "$file" .c)
		name=${name#fuzz_}
		assert test -d "$FUZZ/corpus/$name"
		assert grep -qE "\\{ fuzz $name [0-9]+; \\}" "$BATS_TEST_FILENAME"
	done
}
