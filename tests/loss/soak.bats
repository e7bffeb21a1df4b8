# A minute of many contenders under random kills, stops and restarts, judged by flock(2): ./soak says
# what is done and how often at least. For hours: make soak SECONDS=3600

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }

# soak [OPTION]...
soak() {
	local said failed=0
	said=$("$PYTHON" "$BATS_TEST_DIRNAME/../soak" "$@" --slow "$TEST_PATIENCE" \
		--dlock "$(realpath "$BIN/dlock")" --oracle "$(realpath "$BIN/oracle")" 2>&1 3>&- 4>&-) ||
		failed=1
	echo "$said"
	echo "# ${said%%$'\n'*}" >&3
	return $failed
}

@test "a minute of random kills, stops and restarts: no command outlives the proof of its lock" {
	soak --seconds 60
}

@test "the same with a server that forgets, and contenders that let it settle" {
	soak --seconds 45 --forget
}
