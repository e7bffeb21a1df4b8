# Clocks jump: this host's, and the server's. Where a second holder is possible, oracle judges by
# flock(2) (programs/oracle.c).

load ../lib/helper
load ../lib/deaf

setup_file() {
	file_begin
	cc -std=c17 -D_GNU_SOURCE -O1 -shared -fPIC -o "$BATS_FILE_TMPDIR/clock.so" \
		"$BATS_TEST_DIRNAME/../programs/clock.c"
}

teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

# with_clock COMMAND...: the wall clock that it sees is off by what set_clock says.
with_clock() {
	PATH=$LOADING:$PATH TEST_CLOCK=$PWD/clock LD_PRELOAD=$BATS_FILE_TMPDIR/clock.so "$@"
}

set_clock() { printf '%-8s' "$1" 1<>clock; }

# One hour either way: for the host, nothing happens.
clock_jumps() {
	local by=$1 token
	set_clock 0
	with_clock launch default setsid dlock -t $((2 * TEST_PATIENCE)) x \
		sh -c 'date +%s >seen; echo $$ >command; until [ -e end ]; do date +%s >seen; sleep 0.05; done; exit 5' \
		>one.out 2>one.err </dev/null 3>&- 4>&- &
	one_pid=$!
	wait_until is_file command
	token=$(cli GET lock:x)
	set_clock "$by"
	# It has really jumped, for dlock's own kind of program.
	local here
	here=$(date +%s)
	wait_until far_from "$here"
	stays $((3000 * TEST_PATIENCE)) owner_is x "$token"
	touch end
	finish one
	assert_equal "$status" 5 status
	assert_equal "$err" '' 'messages'
	assert is_free x
}

far_from() {
	local seen
	seen=$(<seen)
	[[ -n $seen ]] && ((seen > $1 + 3000 || seen < $1 - 3000))
}

@test "wall clock jumps forward by an hour: nothing happens" { clock_jumps +3600; }

@test "wall clock jumps back by an hour: nothing happens" { clock_jumps -3600; }

@test "the server's clock steps back: the lock lives longer, and COMMAND goes on" {
	set_clock +0
	server_end "$SERVER"
	with_clock server_again "$SERVER"
	begin_holder one x -t $((2 * TEST_PATIENCE))
	local token
	token=$(cli GET lock:x)
	set_clock -3600
	wait_until server_time_is_off
	stays $((2500 * TEST_PATIENCE)) owner_is x "$token"
	set_clock +0
	let_go one
	assert_equal "$status" 0
	server_end "$SERVER"
}

@test "the server's clock steps forward: set again where nobody came, else exit 80; fences grow" {
	set_clock +0
	server_end "$SERVER"
	with_clock server_again "$SERVER"
	start_deaf one -t 3 --grace 0
	local fence
	fence=$(cli HGET "$(meta_of x)" fence)
	set_clock +3600
	wait_until server_time_is_off
	# The first that comes may have it: the manual says so. But it has a greater token.
	try dlock -n x sh -c 'echo $DLOCK_FENCE'
	if [[ $status == 0 ]]; then
		((out > fence)) || fail "fence $out after $fence"
		finish one
		assert_equal "$status" 80
		is_gone $one_command
	else
		assert_equal "$status" 1
		kill -KILL $one_command
		finish one
		assert_equal "$status" 137
	fi
	server_end "$SERVER"
}

server_time_is_off() {
	local there here
	there=$(cli TIME | head -1)
	here=$(date +%s)
	((there > here + 3000 || there < here - 3000))
}
