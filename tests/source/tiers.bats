# tests/all and its table of tiers, on a small tree of tests.

load ../lib/helper

setup() {
	export LC_ALL=C.UTF-8
	cd "$BATS_TEST_TMPDIR"
	mkdir -p tests/unit tests/x build/tests/bin
	cp "$BATS_TEST_DIRNAME"/../{all,one,pace} tests/
	printf '%s\n' 'quick tests/unit' 'all tests/lint' >tests/tiers
	printf '#!/bin/sh\n' >tests/lint
	printf '#!/bin/sh\necho 1..1; echo ok 1 - parts\n' >build/tests/part_test
	mkdir build/tests/unit
	mv build/tests/part_test build/tests/unit/
	: >tests/unit/part_test.c
	chmod +x tests/lint build/tests/unit/part_test
}

# file TIER NAME [LINE]... [-- WORD]: tests/x/NAME.bats, with one test that consists of these lines, in that tier.
file() {
	local tier=$1 name=$2 lines=()
	shift 2
	while [[ $# != 0 && $1 != -- ]]; do
		lines+=("$1")
		shift
	done
	printf '@test "%s works" {\n\techo "%s" >>"%s/ran"\n' "$name" "$name" "$PWD" >"tests/x/$name.bats"
	printf '\t%s\n' "${lines[@]:-true}" '}' >>"tests/x/$name.bats"
	sed -i 's/\t}$/}/' "tests/x/$name.bats"
	echo "$tier tests/x/$name.bats ${2:-}" >>tests/tiers
}

# all [VARIABLE=VALUE]... [-- ARG...]: the small tree's tests/all, in an environment of its own; sets last.
all() {
	local settings=()
	while [[ $# != 0 && $1 != -- ]]; do
		settings+=("$1")
		shift
	done
	try env -i PATH="${PATH//"$BATS_LIBEXEC:"/}" HOME="$HOME" JOBS=2 SAMPLES=1 builddir="$PWD/build" "${settings[@]}" \
		sh tests/all "${@:2}" </dev/null
	last=${out##*$'\n'}
}

ran() { assert_equal "$(sort ran | uniq -c | awk '{ print $1 $2 }' | paste -sd' ')" "$1" 'what ran'; }

# Fails at its first N runs.
fails_first() { echo "[[ \$(grep -cx $1 '$PWD/ran') -gt $2 ]]"; }

@test "each tier runs what it lists and what the tiers below it list" {
	file quick a
	file behaviours b
	file all c
	all -- --quick
	assert_equal "$status $last" '0 2 passed, 0 failed'
	ran 1a
	all
	assert_equal "$status $last" '0 3 passed, 0 failed'
	ran '2a 1b'
	all -- --all
	assert_equal "$status $last" '0 5 passed, 0 failed'
	ran '3a 2b 1c'
}

@test "a file in no tier is an error, and one that is listed twice or missing; nothing runs" {
	file quick a
	cp tests/x/a.bats tests/x/new.bats
	all -- --quick
	assert_equal "$status$out" 1
	assert_equal "$err" 'tests/x/new.bats is in no tier: it needs a line in tests/tiers'
	echo 'all tests/x/new.bats' >>tests/tiers
	echo 'quick tests/x/a.bats' >>tests/tiers
	all -- --quick
	assert_equal "$status $err" '1 tests/x/a.bats is in tests/tiers twice or without need'
	sed -i '$d' tests/tiers
	rm tests/x/new.bats
	all
	assert_equal "$status $err" '1 tests/x/new.bats is in tests/tiers twice or without need'
	refute_file ran
}

@test "each test file of this tree is in one tier" {
	cd "$BATS_TEST_DIRNAME/../.."
	assert_equal "$(awk '/^[^#]/ && ($1 !~ /^(quick|behaviours|all)$/ || NF > 3 || NF > 2 && $3 != "chance")' tests/tiers)" '' \
		'lines of tests/tiers'
	awk '/^[^#]/ { print $2 }' tests/tiers | sort >"$BATS_TEST_TMPDIR/listed"
	{
		printf '%s\n' tests/lint tests/unit
		find tests -name '*.bats' ! -path tests/service/conformance.bats
	} | sort | diff - "$BATS_TEST_TMPDIR/listed"
}

@test "titles are of at most 90 characters" {
	cd "$BATS_TEST_DIRNAME/.."
	assert_equal "$(sed -nE 's/^@test .(.*). \{.*/\1/p' */*.bats | grep -E '^.{91}' | sort -u)" ''
}

@test "a file that failed once is run again three times, passes, and is named as unsteady" {
	file quick good
	file quick odd "$(fails_first odd 1)"
	all -- --quick
	assert_equal "$status $last" '0 3 passed, 0 failed'
	assert grep -qx 'unsteady: tests/x/odd.bats: odd works' try.out
	refute grep -q '^failed:' try.out
	ran '1good 4odd'
	# By itself, when the others are done.
	assert_equal "$(tail -n 3 ran | sort -u)" odd
}

@test "a file that fails again is failed, once more and at the third time" {
	file quick good
	file quick bad false
	file quick late 'n=$(grep -cx late '"'$PWD/ran'"'); [[ $n == 2 || $n == 3 ]]'
	all -- --quick
	assert_equal "$status $last" '1 2 passed, 2 failed'
	assert grep -qx 'failed: tests/x/bad.bats: bad works' try.out
	assert grep -qx 'failed: tests/x/late.bats: late works' try.out
	refute grep -q '^unsteady:' try.out
	ran '2bad 1good 4late'
}

@test "what a search or a sanitizer found stands, whether or not it is found again" {
	file quick search "$(fails_first search 1)" -- chance
	file quick race "$(fails_first race 1) || { echo '--- a finding of a sanitizer'; false; }"
	all -- --quick
	assert_equal "$status $last" '1 1 passed, 2 failed'
	ran '1race 1search'
}

@test "files that are named are run once; AGAIN says otherwise" {
	file quick odd "$(fails_first odd 1)"
	all -- tests/x/odd.bats
	assert_equal "$status $last" '1 0 passed, 1 failed'
	ran 1odd
	rm ran
	all AGAIN=2 -- tests/x
	assert_equal "$status $last" '0 1 passed, 0 failed'
	ran 3odd
}

@test "a file that does not come to its end, or does not begin, has failed with all its tests" {
	file quick good
	file quick killed 'kill -KILL $PPID $$'
	file quick unset
	printf 'setup_file() { false; }\n@test "another" { true; }\n' >>tests/x/unset.bats
	printf '#!/bin/sh\necho 1..3; echo ok 1; exit 3\n' >build/tests/unit/part_test
	all
	assert_equal "$status" 1
	assert grep -qx 'failed: tests/unit/part_test: did not come to its end' try.out
	assert grep -qx 'failed: tests/x/unset.bats: setup_file failed' try.out
	assert grep -q '^failed: tests/x/killed.bats: ' try.out
	assert_equal "$last" '2 passed, 5 failed'
	rm build/tests/unit/part_test
	all -- tests/unit
	assert_equal "$status $last" '1 0 passed, 1 failed'
}

@test "lint is a test of its own, and says what it found" {
	printf '#!/bin/sh\necho "a.c:1: odd"; exit 1\n' >tests/lint
	all AGAIN=0 -- --all
	assert_equal "$status $last" '1 1 passed, 1 failed'
	assert grep -qx '# a.c:1: odd' try.out
	assert grep -qx 'failed: tests/lint: lint finds nothing' try.out
}

@test "what is skipped fails with CI set, and is named as left out without it" {
	file quick poor 'echo "left out: poor: needs money" >>"$LEFT_OUT"; skip "needs money"'
	all -- --quick
	assert_equal "$status $last" '0 2 passed, 0 failed'
	assert grep -qx 'left out: poor: needs money' try.out
	assert grep -q '^Left out: 1 tests' try.out
	all CI=true AGAIN=1 -- --quick
	assert_equal "$status $last" '1 1 passed, 1 failed'
	assert grep -q '^failed: tests/x/poor.bats: poor works' try.out
}

# patience <<LINES: where a run of `true` takes so many microseconds as all begins, and so many as the file begins, and so
# much patience is given, a test has so much.
patience() {
	local first later given told
	file quick tells "echo \$TEST_PATIENCE >'$PWD/patience'"
	while read -r first later given told; do
		printf '#!/bin/sh\n[ $2 = 1 ] && echo %s || echo %s\n' "$later" "$first" >tests/pace
		all TEST_PATIENCE="$given" -- tests/x
		assert_file patience "$told"
	done
}

@test "a slow machine stretches the limits, four times at most; a given patience is the least" {
	patience <<-'END'
		1000   900  1  1
		1250   900  1  1
		1350   900  1  2
		2600   900  1  3
		49500  900  1  4
		1000   900  4  4
		49500  900  8  8
	END
}

@test "a machine that becomes busy stretches the limits of the files that begin then" {
	patience <<-'END'
		1000  2700   1  1
		1000  2750   1  2
		1000  2750   3  3
		1000  49500  1  4
	END
	assert grep -q '^# tests/x/tells.bats: .*TEST_PATIENCE=4$' try.out
}

@test "a run of true is measured: as many microseconds as they took, by their number" {
	mkdir slow
	printf '#!/bin/sh\nif [ -e began ]; then echo 40000000; else : >began; echo 0; fi\n' >slow/date
	chmod +x slow/date
	try env PATH="$PWD/slow:$PATH" tests/pace 20 3
	expect 0 2000
}

@test "a failure shows the test's own line, and the functions below it with their lines" {
	ln -s "$(realpath "$BATS_TEST_DIRNAME/../lib")" tests/lib
	cat >tests/x/fails.bats <<-'END'
		load ../lib/helper
		setup() { BIN=$PATH environment_begin; }
		is_two() { assert_equal "$1" 2; }
		%test "by functions" {
		  true
		  is_two 1
		}
		%test "by itself" {
		  true
		  [[ 1 == 2 ]]
		  true
		}
		%test "by a condition that never comes true" {
		  TEST_PATIENCE=0 wait_until is_two 3
		}
	END
	sed -i 's/^%test/@test/' tests/x/fails.bats
	try env -i PATH="${PATH//"$BATS_LIBEXEC:"/}" HOME="$HOME" bats --tap tests/x/fails.bats
	assert_equal "$status" 1
	printf '%s\n' "$out" | sed -E 's/(helper.bash line) .*/\1 N/' | grep -E '^not|line|failed' >seen
	assert_file seen "$(
		cat <<-'END'
			not ok 1 by functions
			# (in test file tests/x/fails.bats, line 6)
			#   `is_two 1' failed
			#   by assert_equal, helper.bash line N
			#   by is_two, fails.bats line 3
			not ok 2 by itself
			# (in test file tests/x/fails.bats, line 10)
			#   `[[ 1 == 2 ]]' failed
			not ok 3 by a condition that never comes true
			# (in test file tests/x/fails.bats, line 14)
			#   `TEST_PATIENCE=0 wait_until is_two 3' failed
			#   by assert_equal, helper.bash line N
			#   by is_two, fails.bats line 3
			#   by wait_until, helper.bash line N
			#   by wait_until, helper.bash line N
		END
	)"
}

@test "a process to be ended whose number is another's by now: that one lives on" {
	local pid
	sleep 60 3>&- 4>&- &
	remember $! one
	cp one two
	echo 1 >two.born
	end_remembered two
	recall one
	assert is_alive "$pid"
	end_remembered one
	assert is_gone "$pid"
	refute_file one.born
}
