# Each fuzzer over its corpus, and over some thousand changed inputs: the same ones each time. For more
# than that there is `make fuzz`.

load ../lib/helper

setup() {
	export LC_ALL=C.UTF-8
	FUZZ=$BATS_TEST_DIRNAME/../fuzz
	PROGRAMS=${builddir:-$BATS_TEST_DIRNAME/../..}/tests/fuzz
	cd "$BATS_TEST_TMPDIR"
}

# fuzz NAME RUNS
fuzz() {
	"$FUZZ/pack" -x corpus "$1"
	local files=(corpus/"$1"/*)
	assert_between ${#files[@]} 2 10000 'inputs'
	try "$PROGRAMS/fuzz_$1" "$2" "${files[@]}"
	[[ $status == 0 ]] || fail "$1: status $status, on $(od -An -c failed-input | head -n 40)" "$err"
	assert_equal "${err##*$'\n'}" "${#files[@]} files, $2 changed"
}

@test "a configuration file may hold anything" { fuzz config 4000; }

@test "a duration may be anything" { fuzz duration 20000; }

@test "a NAME, a PREFIX, an ID and a record may be anything" { fuzz name 10000; }

@test "a command line may be anything" { fuzz options 4000; }

@test "a server's URL may be anything, and its password is never shown" { fuzz server 10000; }

@test "a server may answer anything" { fuzz reply 6000; }

@test "and so may the nodes of a Cluster, Sentinels, a quorum, whatever is asked" { fuzz servers 6000; }

@test "and so may the other end of TLS" { fuzz tls 2000; }

@test "a lock's keys in etcd may be and hold anything" { fuzz etcd 6000; }

@test "a lock's nodes in ZooKeeper may be and hold anything" { fuzz zookeeper 6000; }

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
		assert test -s "$FUZZ/corpus/$name"
		assert grep -qE "\\{ fuzz $name [0-9]+; \\}" "$BATS_TEST_FILENAME"
	done
}

# A copy of the script works on the corpus beside it.
@test "an input that is added to a corpus comes out again as it was, whatever it holds" {
	local file all=
	cp "$FUZZ/pack" .
	mkdir corpus in
	printf -v all '\\x%02x' {0..255}
	printf "$all$all" >in/all
	printf ' \n\t# \\x41 \r\n\n ' >in/blanks
	printf '%4096s' '' >in/long
	: >in/none
	cp "$FUZZ/corpus/name" corpus/
	./pack name in/*
	assert_equal "$(LC_ALL=C grep -cE '[^[:graph:]]$' corpus/name)" 0 'lines that end with a blank'
	assert_equal "$(LC_ALL=C grep -cE '[^[:print:][:space:]]' corpus/name)" 0 'lines that are no text'
	./pack -x out name
	for file in in/*; do
		assert cmp "$file" "out/name/${file#in/}"
	done
	./pack -d name all blanks long none
	assert cmp corpus/name "$FUZZ/corpus/name"
	echo 'odd	\x4' >>corpus/name
	try ./pack -x out name
	assert_equal "$status" 1
	assert_match "$err" "name:[0-9]+: .* is neither text nor an escape"
}
