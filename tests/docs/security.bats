# What SECURITY says and no other file tests.

load ../lib/helper

setup_file() { file_begin; }
setup() { test_begin; }
teardown() { test_end; }
teardown_file() { file_end; }

@test "a report replaces a regular file and leaves its other names alone" {
	echo precious >old
	ln old other
	try dlock --report old x true
	assert_equal "$status $err" "0 "
	assert_match "$(<old)" '^\{"outcome":"ran"'
	assert_file other precious
}

@test "a report in the place of a symbolic link is one line more where that leads" {
	echo first >target
	ln -s target link
	try dlock --report link x true
	assert_equal "$status $err" "0 "
	assert test -L link
	assert_equal "$(head -n 1 target)" first
	assert_equal "$(wc -l <target)" 2
	assert_match "$(tail -n 1 target)" '^\{"outcome":"ran"'
}

@test "a server that says whatever it likes does not reach the terminal by it" {
	fake_server error
	try dlock -S "redis://127.0.0.1:$(<error/port)" -w 2 x true
	refute_match "$status" '^(0|1[3-9][0-9])$'
	refute_match "$err" '[[:cntrl:]]'
}

@test "what SECURITY says can be run is there" {
	local target
	for target in fuzz lint memcheck; do
		assert grep -q "make $target" "$BATS_TEST_DIRNAME/../../SECURITY"
		assert grep -q "^$target:" "$BATS_TEST_DIRNAME/../../Makefile.am"
	done
}
