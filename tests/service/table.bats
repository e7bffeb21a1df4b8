# That nothing vanishes silently: each row of lib/service_table has its tests, each ability and each service
# its row and its column.

load ../lib/helper

setup() {
	table=$BATS_TEST_DIRNAME/../lib/service_table
	suite=$BATS_TEST_DIRNAME/conformance.bats
	source=$BATS_TEST_DIRNAME/../../src
}

rows() { awk '!/^#/ && NF && $1 != "feature" { print $1 }' "$table"; }
columns() { awk '$1 == "feature" { for (i = 4; i <= NF; i++) print $i }' "$table"; }
cells() { awk -v feature="$1" '$1 == feature { for (i = 4; i <= NF; i++) print $i }' "$table"; } # FEATURE

# tests_of FEATURE: their text.
tests_of() { awk -v begin="@test \"$1: " 'index($0, begin) == 1, /^}/' "$suite"; }

@test "each row has a cell for each service, and each name is there once" {
	awk -v columns="$(columns | wc -l)" '
		/^#/ || !NF { next }
		NF != 3 + columns { print "not " columns " services: " $0; wrong = 1 }
		seen[$1]++ { print "twice: " $1; wrong = 1 }
		END { exit wrong || NR == 0 }' "$table"
	assert_equal "$(columns | sort | uniq -d)" ''
}

@test "each row has its tests, and each test a row" {
	local row
	for row in $(rows); do
		[[ -n $(tests_of "$row") ]] || fail "no test begins with \"$row: \""
	done
	for row in $(sed -n 's/^@test "\([^:]*\): .*/\1/p' "$suite"); do
		rows | grep -qxF -- "$row" || fail "no row: $row"
	done
	assert_equal "$(grep -c '^@test' "$suite")" "$(grep -c '^@test "[^:"]*: ' "$suite")" 'tests that name their row'
}

@test "each test heeds its row: what is not had is refused, or is said to be lacking" {
	local row
	for row in $(rows); do
		if cells "$row" | grep -qx 64; then
			tests_of "$row" | awk -v want="refuses $row" '
				/^@test/ { tests++ }
				index($0, want) { heeded++ }
				END { exit heeded != tests }' || fail "a test of $row does not want the refusal"
		fi
		if cells "$row" | grep -qx no; then
			tests_of "$row" | awk -v want="has $row || { lacks $row; return; }" '
				/^@test/ { tests++ }
				index($0, want) { heeded++ }
				END { exit heeded != tests }' || fail "a test of $row does not look into the table"
		fi
	done
}

@test "an ability that a service may lack has its row, and the option by which it is asked for" {
	local ability
	for ability in $(sed -n 's/^	LOCK_CAN_\([A-Z_]*\) = 1 << .*/\1/p' "$source/lock/service.h"); do
		awk '!/^#/ { print $2 }' "$table" | grep -qx "$ability" || fail "no row: LOCK_CAN_$ability"
	done
	for ability in $(awk '!/^#/ && NF && $1 != "feature" && $2 != "-" { print $2 }' "$table"); do
		grep -q "	LOCK_CAN_$ability = " "$source/lock/service.h" || fail "no such ability: LOCK_CAN_$ability"
	done
	awk '!/^#/ && $3 == "-" { for (i = 4; i <= NF; i++) if ($i == 64) { print "refused by no option: " $0; wrong = 1 } }
		END { exit wrong }' "$table"
}

@test "a service that is built has its column, functions and link, and no link is without them" {
	local name one functions
	for name in $(sed -n 's/^	{&\(.*\)_service,.*/\1/p' "$source/lock/services.c"); do
		columns | grep -qx "$name" || fail "no column: $name"
		[[ -e $BATS_TEST_DIRNAME/conformance_$name.bats ]] || fail "no conformance_$name.bats"
	done
	functions=$(grep -o '^service_[a-z_]*' "$BATS_TEST_DIRNAME/../lib/service_redis.bash" | sort)
	for one in "$BATS_TEST_DIRNAME"/conformance_*.bats; do
		name=${one##*/conformance_}
		name=${name%.bats}
		columns | grep -qx "$name" || fail "no column: $name"
		cmp "$one" "$suite" || fail "$one is another suite"
		assert_equal "$(grep -o '^service_[a-z_]*' "$BATS_TEST_DIRNAME/../lib/service_$name.bash" | sort)" "$functions" "what $name has"
	done
}
