# A minute of contenders on five servers that are stopped, continued, killed and started again at
# random, at most two at a time, judged by flock(2): ./quorum-soak says what is done.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }

@test "a quorum's servers stopped and killed at random for a minute: no overlap, fences grow" {
	local said failed=0
	said=$("$PYTHON" "$BATS_TEST_DIRNAME/../quorum-soak" --seconds 60 --slow "$TEST_PATIENCE" \
		--dlock "$(realpath "$BIN/dlock")" --oracle "$(realpath "$BIN/oracle")" 2>&1 3>&- 4>&-) ||
		failed=1
	echo "$said"
	echo "# ${said%%$'\n'*}" >&3
	return $failed
}
