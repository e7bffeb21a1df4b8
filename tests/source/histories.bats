# The checker of histories (../check-history): it accepts what may be, and names the two lines of what cannot be.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

judge() { "$BATS_TEST_DIRNAME/../check-history" "$@"; }

# contradicted NAME LINES CLAIM: the only thing that is wrong in docs/verification/NAME.history.
contradicted() {
	local file=$BATS_TEST_DIRNAME/../../docs/verification/$1.history
	try judge "$file"
	expect 1 "$file: $(grep -c began "$file") grants, 1 contradictions"$'\n'"$file: lines $2: $3"
}

@test "history: a good one is accepted" {
	try judge "$BATS_TEST_DIRNAME/../../docs/verification/redis.history"
	assert_equal "$status" 0
	assert_match "$out" ': [0-9]{2,} grants, 0 contradictions$'
}

@test "history: each contradiction is named by its two lines" {
	contradicted overlap '3 and 5' 'commands overlap'
	contradicted twins '4 and 5' 'two grants have one fence'
	contradicted release '7 and 8' 'released, but not granted'
	contradicted order '5 and 10' 'a waiter was overtaken'
	contradicted orphan '4 and 6' 'a command outlived its killed front or keeper, and the lease'
	contradicted left '3 and 4' 'a command is still there at the end'
}

@test "history: permits: one too many is named beside each that it overlaps" {
	try judge "$BATS_TEST_DIRNAME/../../docs/verification/permits.history"
	assert_equal "$status" 1
	assert_match "$out" 'lines 5 and 7: commands overlap'
	assert_match "$out" 'lines 6 and 7: commands overlap'
}

@test "history: a fence that goes back is named beside the one that it is below" {
	local file=$BATS_TEST_DIRNAME/../../docs/verification/fence.history
	try judge "$file"
	assert_equal "$status" 1
	assert_match "$out" 'lines 3 and 8: a fence is not above one granted before it was asked for'
	assert_match "$out" 'lines 3 and 8: a fence goes back'
}

@test "history: a waiter may be overtaken while the server is hurt, and until it is mended" {
	local file=$BATS_TEST_DIRNAME/../../docs/verification/order.history before
	for before in 4 5 9; do
		sed "$before"'a 1.0 - fault what=restart-server' "$file" >hurt
		judge hurt
	done
	sed '4a 1.0 - fault what=restart-server\n1.0 - mended' "$file" >mended
	try judge mended
	expect 1 "mended: $(grep -c began "$file") grants, 1 contradictions"$'\n''mended: lines 7 and 12: a waiter was overtaken'
}

@test "history: flock(2) is believed where the lines say nothing" {
	sed 's/flock=free/flock=held/' "$BATS_TEST_DIRNAME/../../docs/verification/left.history" >held
	try judge held
	assert_match "$out" 'lines 2 and 3: commands overlap, by flock\(2\)'
}

@test "history: what is none ends with 2, and no file with 2" {
	local text
	for text in '' 'a line' '# dlock history 2 ttl=1 order=no' '# dlock history 1 order=no'; do
		echo "$text" >none
		try judge none
		assert_equal "$status" 2
		assert_match "$err" '^check-history: '
	done
	printf '%s\n' '# dlock history 1 ttl=1 order=no' '1.0 a.1 asked lock=x mode=x priority=0' '1.1 a.1 dances' >none
	try judge none
	assert_equal "$status" 2
	try judge
	assert_equal "$status" 2
}

# soak_of MUTANT CLAIM [OPTION]...: its history has that contradiction, or that of another soak, as chance has a part in it.
soak_of() {
	local mutant=$1 claim=$2 tries=5
	make -s -C "${builddir:-$BATS_TEST_DIRNAME/../..}" mutant NAME="$mutant" DIR="$PWD/$mutant" >made 2>&1 || fail "$(<made)"
	until
		try "$PYTHON" "$BATS_TEST_DIRNAME/../soak" --seconds 8 --slow 100 --history "$mutant.history" "${@:3}" \
			--dlock "$PWD/$mutant/dlock" --oracle "$(realpath "$BIN/oracle")"
		try judge "$mutant.history"
		[[ $status == 1 && $out =~ $claim ]]
	do
		((--tries > 0)) || fail "$mutant: $status, $out"
	done
}

@test "history: a dlock broken on purpose contradicts itself: fences, overlap, order" {
	soak_of fence-repeats 'lines [0-9]+ and [0-9]+: two grants have one fence'
	soak_of no-front 'lines [0-9]+ and [0-9]+: commands overlap'
	mkdir folder
	soak_of file-newcomers-overtake 'lines [0-9]+ and [0-9]+: a waiter was overtaken' \
		--url "file:$PWD/folder" --no-priority --modes x
}
