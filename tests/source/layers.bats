# The rule of includes (tests/layers), broken on purpose: each way of breaking it is reported by file
# and line. That the sources keep to it is said by `make lint`.

load ../lib/helper

setup() {
	export LC_ALL=C.UTF-8
	LAYERS=$BATS_TEST_DIRNAME/../layers
	cd "$BATS_TEST_TMPDIR"
}

# copy: the sources as they are, in src.
copy() { cp -r "$BATS_TEST_DIRNAME/../../src" src; }

# put FILE [INCLUDED]...: a source in src that includes these, one a line.
put() {
	local file=src/$1
	shift
	mkdir -p "${file%/*}"
	: >"$file"
	[[ $# == 0 ]] || printf '#include "%s"\n' "$@" >"$file"
}

# include FILE INCLUDED: one more line in a copy; leaves its number in line.
include() {
	printf '#include "%s"\n' "$2" >>"src/$1"
	line=$(wc -l <"src/$1")
}

@test "what keeps to the rule passes, and nothing is said" {
	put base/clock.h
	put base/clock.c base/clock.h
	put net/socket.c base/clock.h
	put lock/lock.h base/clock.h
	put lock/service.h lock/lock.h
	put lock/lock.c lock/lock.h lock/service.h lock/services.h
	put lock/services.h
	put lock/services.c lock/services.h redis/redis_service.h
	put redis/redis_service.h
	put redis/redis_service.c redis/redis_service.h lock/service.h net/socket.h
	put main.c cli/options.h
	try "$LAYERS" src
	assert_equal "$status $out$err" "0 "
}

@test "an include from a folder above fails, in each file" {
	copy
	include base/clock.c lock/lock.h
	try "$LAYERS" src
	assert_equal "$status $err" "1 "
	assert grep -qxF "src/base/clock.c:$line: base may not include \"lock/lock.h\"" <<<"$out"
	include lock/token.h cli/options.h
	include process/program.c supervise/front.h
	try "$LAYERS" src
	assert grep -qxF "src/process/program.c:$line: process may not include \"supervise/front.h\"" <<<"$out"
	assert grep -qF "lock may not include \"cli/options.h\"" <<<"$out"
}

@test "no other than the table of lock services includes from a service's folder" {
	copy
	try "$LAYERS" src
	refute grep -q ' may not include "redis/' <<<"$out"
	local file
	for file in lock/lock.c supervise/front.c commands/cmd_run.c main.c; do
		include "$file" redis/redis_service.h
		try "$LAYERS" src
		assert_equal "$status $err" "1 "
		assert grep -q "^src/$file:$line: .* may not include \"redis/redis_service.h\"" <<<"$out"
	done
}

@test "a lock service has no use for what stands above the door" {
	copy
	include redis/keys.c lock/lock_set.h
	try "$LAYERS" src
	assert grep -qxF "src/redis/keys.c:$line: redis may not include \"lock/lock_set.h\"" <<<"$out"
}

@test "two files that include each other's headers are a circle" {
	put base/a.h
	put base/a.c base/a.h base/b.h
	put base/b.h
	put base/b.c base/b.h base/c.h
	put base/c.h
	put base/c.c base/c.h
	try "$LAYERS" src
	assert_equal "$status $out$err" "0 "
	put base/c.c base/c.h base/a.h
	try "$LAYERS" src
	assert_equal "$status $err" "1 "
	assert_equal "$out" "src/base/a.c:2: in a circle: base/a includes base/b
src/base/b.c:2: in a circle: base/b includes base/c
src/base/c.c:2: in a circle: base/c includes base/a"
}

@test "and so are headers that include each other" {
	put base/a.h base/b.h
	put base/b.h base/a.h
	try "$LAYERS" src
	assert_equal "$status $out$err" "1 src/base/a.h:1: in a circle: base/a.h includes base/b.h
src/base/b.h:1: in a circle: base/b.h includes base/a.h"
}

@test "a folder without a row fails, an include without a folder, and no sources at all" {
	mkdir src
	try "$LAYERS" src
	assert_equal "$status $out$err" "1 no sources"
	put attic/old.c
	put base/a.c b.h
	try "$LAYERS" src
	assert_equal "$status $out$err" '1 src/attic/old.c:1: its folder has no row in tests/layers
src/base/a.c:1: "b.h" names no folder'
}
