# Some of the runs in which a system call fails or takes its time: ./faults says how, and is asked for
# all of them by `make faults`.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }

@test "a system call fails or takes its time, in front, keeper or renewal: no overlap, no orphan" {
	needs trace
	local said failed=0
	said=$(PATH=$BIN:$PATH unleaked "$PYTHON" "$BATS_TEST_DIRNAME/../faults" --seconds 60 --slow "$TEST_PATIENCE" \
		--dlock "$(realpath "$BIN/dlock")" 2>&1 3>&- 4>&-) || failed=1
	echo "$said"
	echo "# ${said%%$'\n'*}" >&3
	return $failed
}
