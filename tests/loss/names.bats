# The server's name cannot be looked up any more.

load ../lib/helper

setup_file() { file_begin; }
setup() { test_begin; }
teardown() { test_end; }
teardown_file() { file_end; }

# ./with_names COMMAND...: what ./hosts names is there; and no name server is.
names_begin() {
	cat >with_names <<-'END'
		#!/bin/sh
		exec in_mounts sh -c 'mount --bind hosts /etc/hosts && mount --bind resolv.conf /etc/resolv.conf && exec "$@"' sh "$@"
	END
	chmod +x with_names
	echo 'nameserver 127.0.0.1' >resolv.conf
	echo '127.0.0.1 lockhost' >hosts
}

@test "a name that cannot be looked up any more is where it was: the job goes on" {
	needs mount
	names_begin
	export DLOCK_SERVER=redis://lockhost:$(<"$SERVER/port")
	start one ./with_names dlock -t $((3 * TEST_PATIENCE)) x sh -c 'touch began; until [ -e end ]; do sleep 0.05; done; exit 5'
	wait_until test -e began
	local token
	token=$(cli GET lock:x)
	: >hosts
	try ./with_names dlock -n x true
	expect_failure 69 'cannot look up lockhost'
	cli CLIENT KILL TYPE normal >/dev/null || true
	stays $((6000 * TEST_PATIENCE)) owner_is x "$token"
	touch end
	finish one
	assert_equal "$status" 5
}

@test "a password that stands for a user's name, for want of a colon, is not repeated" {
	own_server secret --requirepass hunter2
	local url
	for url in redis://hunter2@127.0.0.1:$(<secret/port) unix://hunter2@$PWD/secret/socket; do
		try dlock -v -S "$url" -n x true
		assert_equal "$status" 77
		assert_match "$err" 'has a colon before it: redis://:PASSWORD@HOST'
		refute_match "$err" hunter2
	done
	try dlock -S "redis://hunter2@127.0.0.1:0" -n x true
	assert_equal "$status" 64
	refute_match "$err" hunter2
	try dlock -S "redis://:hunter2@127.0.0.1:$(<secret/port)" -n x echo ran
	expect 0 ran
	# With a password from elsewhere it is a user's name.
	DLOCK_PASSWORD=hunter2 try dlock -v -S "redis://default@127.0.0.1:$(<secret/port)" -n x true
	assert_equal "$status" 0
	assert_match "$err" 'redis://default@127.0.0.1'
}
