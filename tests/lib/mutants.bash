# Whether the tests would notice: dlock broken on purpose, in each way that has been seen elsewhere,
# must fail the test that is there for it, and for the reason that it is there for.
# Each folder that has many of these tests has a mutants.bats of its own, or several, so that none comes near the
# time that a file may take (../one).

setup_file() {
	export BATS_TEST_TIMEOUT=$((240 * TEST_PATIENCE))
	export MAKE_IN=${builddir:-$BATS_TEST_DIRNAME/../..}
}

# What a mutant's line WORD says.
told() { sed -n "s/^$1 //p" "$BATS_TEST_DIRNAME/../mutants/$2"; }

# makes MUTANT...: the dlocks that are broken so, each in its folder.
makes() {
	local folder=$BATS_TEST_TMPDIR
	mkdir "${@/#/$folder/}"
	(($# > 1)) || folder+=/$1
	make -s -C "$MAKE_IN" mutant NAME="$*" DIR="$folder" >"$BATS_TEST_TMPDIR/made" 2>&1 || {
		cat "$BATS_TEST_TMPDIR/made"
		return 1
	}
}

# run_test DLOCK FILE NAME: the tests of FILE whose names begin with NAME, in an environment of
# their own.
run_test() {
	local name=${3//[()]/.}
	env -i PATH="${PATH//"$BATS_LIBEXEC:"/}" HOME="$HOME" TEST_PATIENCE="${patience:-$TEST_PATIENCE}" DLOCK="$1" \
		TEST_BIN="${TEST_BIN:-}" DATABASE_TEMPLATE="${DATABASE_TEMPLATE:-}" bats --tap --filter "^$name" "$BATS_TEST_DIRNAME/../$2" \
		</dev/null 3>&- 4>&-
}

# caught MUTANT: once it is made, its test fails, and says what it should; if it can run here. A busy machine's
# patience (../all) would leave some of what is too late unnoticed.
caught() {
	local folder=$BATS_TEST_TMPDIR/$1 missing patience=${LEAST_PATIENCE:-$TEST_PATIENCE}
	if run_test "$folder/dlock" "$(told test "$1" | cut -d' ' -f1)" \
		"$(told test "$1" | cut -d' ' -f2-)" >"$folder/tap" 2>&1; then
		missing=$(sed -n 's/^ok 1 .* # skip //p' "$folder/tap")
		if [[ -n $missing ]]; then
			left_out "$missing" "$1"
			return
		fi
		cat "$folder/tap"
		echo "$1 was not noticed"
		return 1
	fi
	grep -qx '1\.\.1' "$folder/tap" && grep -q '^not ok' "$folder/tap" &&
		grep -qE -- "$(told says "$1")" "$folder/tap" || {
		cat "$folder/tap"
		echo "$1: the test failed for another reason"
		return 1
	}
}

# all_caught MUTANT...: side by side, as they mostly wait.
all_caught() {
	local one failed=0
	declare -A job
	makes "$@" || return
	for one; do
		caught "$one" >"$BATS_TEST_TMPDIR/$one.said" 2>&1 &
		job[$one]=$!
	done
	for one; do
		wait "${job[$one]}" || {
			failed=1
			cat "$BATS_TEST_TMPDIR/$one.said"
		}
	done
	return $failed
}

# stands VARIANT: dlock changed in some measure, as a mutant is, but not broken: its test passes.
stands() {
	local folder=$BATS_TEST_TMPDIR/$1
	makes "$1" || return
	run_test "$folder/dlock" "$(told test "$1" | cut -d' ' -f1)" "$(told test "$1" | cut -d' ' -f2-)" \
		>"$folder/tap" 2>&1 && grep -qx '1\.\.1' "$folder/tap" || {
		cat "$folder/tap"
		return 1
	}
}
