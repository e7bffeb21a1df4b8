# Some of the runs in which a system call fails or takes its time: ./faults says how, and is asked for
# all of them by `make faults`.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }

# walk OPTION...
walk() {
	needs trace
	local said failed=0
	said=$(PATH=$BIN:$PATH unleaked "$PYTHON" "$BATS_TEST_DIRNAME/../faults" --slow "$TEST_PATIENCE" "$@" \
		--dlock "$(realpath "$BIN/dlock")" 2>&1 3>&- 4>&-) || failed=1
	echo "$said"
	echo "# ${said%%$'\n'*}" >&3
	return $failed
}

@test "a system call fails or takes its time, in front, keeper or renewal: no overlap, no orphan" {
	walk --seconds 60
}

@test "--also, the second is asked for: front, keeper, both killed or stopped at each call" {
	walk --only 'also asking,*,*,[KS]*,*'
}

@test "--also, the second is waited for: front, keeper, both killed or stopped at each call" {
	walk --only 'also waiting,*,*,[KS]*,*'
}

@test "--also, both are released: front, keeper, both killed or stopped at each call" {
	walk --only 'also releasing,*,*,[KS]*,*'
}
