# Stalls at any step of a hold, a handoff and a take-over, in simulated time (../simulate): none is waited for.

load ../lib/helper

setup_file() {
	BATS_TEST_TIMEOUT=$((240 * TEST_PATIENCE))
	export BATS_TEST_TIMEOUT
	file_begin
}
teardown_file() { file_end; }

# simulate [OPTION]...
simulate() {
	"$PYTHON" "$BATS_TEST_DIRNAME/../simulate" --programs "$TEST_BIN/../sim" --patience $((60 * TEST_PATIENCE)) "$@" 2>&1 3>&- 4>&-
}

# contradicts MUTANT CASE WHAT: with a dlock that is broken on purpose this case must not go well.
contradicts() {
	local folder=$BATS_TEST_TMPDIR/$1 said
	mkdir "$folder"
	make -s -C "${builddir:-$BATS_TEST_DIRNAME/../..}" mutant NAME="$1" DIR="$folder" SIMULATED=1 >"$folder/made" 2>&1
	said=$(simulate --dlock "$folder/dlock" --one "$2") || true
	assert_match "$said" "$3"
}

@test "a stall at a random step of a hold, a handoff, a take-over: no overlap, fences grow" {
	local said failed=0
	said=$(simulate --runs 30) || failed=1
	echo "$said"
	echo "# ${said##*$'\n'}" >&3
	assert_equal "$failed" 0
}

@test "simulated: a dlock that is broken on purpose is caught" {
	contradicts no-keeper A.front:front-killed:99:0.1 "B's command began beside another"
}
