# Living with other clients on the same key: each excludes the other, and nothing foreign is harmed.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

@test "a plain SET NX PX excludes dlock" {
	cli SET lock:x mine NX PX 60000 >/dev/null
	try dlock -n x touch ran
	expect_failure 1 '^dlock: x: '
	try dlock -w 0.5 x touch ran
	expect_failure 1 '^dlock: x: '
	refute_file ran
	assert_equal "$(cli GET lock:x)" mine
	assert_between "$(cli PTTL lock:x)" 40000 59999 'its expiry, untouched'
	cli DEL lock:x >/dev/null
}

@test "dlock excludes a plain SET NX PX, and is a plain string with an expiry" {
	begin_holder one x -t 30
	assert_equal "$(cli SET lock:x mine NX PX 1000)" ''
	assert_equal "$(cli TYPE lock:x)" string
	assert_equal "$(cli GET lock:x)" "$(tr '\0' '\n' <"/proc/$one_command/environ" | sed -n 's/^DLOCK_TOKEN=//p')"
	assert_between "$(cli PTTL lock:x)" 15000 30000
	let_go one
	assert_equal "$(cli SET lock:x mine NX PX 1000)" OK
	cli DEL lock:x >/dev/null
}

@test "dlock waits for a foreign lock to expire, or to be deleted" {
	cli SET lock:x mine PX 700 >/dev/null
	try dlock -w 20 x echo ran
	expect 0 ran
	((took >= 600)) || fail "ran after $took ms"
	cli SET lock:x mine PX 60000 >/dev/null
	start one dlock x echo ran
	stays 500 is_alive $one_pid
	cli DEL lock:x >/dev/null
	finish one
	expect 0 ran
}

@test "a foreign lock without expiry is respected for ever" {
	cli SET lock:x mine >/dev/null
	try dlock -w 1 x touch ran
	expect_failure 1 ''
	assert_equal "$(cli PTTL lock:x)" -1
	refute_file ran
	cli DEL lock:x >/dev/null
}

@test "a foreign value that is empty is one: named, looked at each second, taken after its end" {
	cli SET lock:x '' >/dev/null
	try dlock -n x touch ran
	expect_failure 1 'held by another Redis client'
	start one dlock -v x touch ran
	wait_until file_has one.err 'waiting, 0 ahead; held by another Redis client'
	cli DEL lock:x >/dev/null
	wait_until -t 5 test -e ran # else after one of 18 s or more
	finish one
	assert_equal "$status" 0
}

@test "a foreign value is never mistaken for ours nor printed raw" {
	local value
	for value in '' 0 nil OK $'\e[31mred\a' "$(hostname):$$:00112233445566778899aabbccddeeff" \
		"$(printf 'x%.0s' {1..3000})" $'two\nlines' $'\xff\xfe'; do
		cli SET lock:x "$value" PX 60000 >/dev/null
		try dlock -n x touch ran
		expect_failure 1 '^dlock: x: '
		refute_match "$err" $'[\e\a]'
		refute_file ran
	done
	cli DEL lock:x >/dev/null
}

@test "the compare-and-delete of other clients releases what dlock holds by its token alone" {
	begin_holder one x -t 30
	local release='if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end'
	assert_equal "$(cli EVAL "$release" 1 lock:x wrong)" 0
	assert is_held x
	let_go one
	expect 0
}

@test "redis-py's Lock excludes dlock" {
	python "$SERVER/socket" <<-'END'
		import subprocess, sys, redis

		server = redis.Redis(unix_socket_path=sys.argv[1])
		with server.lock("lock:x", timeout=30, blocking_timeout=5):
		    done = subprocess.run(["dlock", "-n", "x", "touch", "ran"], capture_output=True, text=True)
		    assert done.returncode == 1, done
		    assert done.stderr.startswith("dlock: x: "), done
		done = subprocess.run(["dlock", "-n", "x", "echo", "ran"], capture_output=True, text=True)
		assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", ""), done
	END
	refute_file ran
}

@test "redis-py's Lock is excluded by dlock" {
	begin_holder one x
	python "$SERVER/socket" <<-'END'
		import sys, redis

		server = redis.Redis(unix_socket_path=sys.argv[1])
		lock = server.lock("lock:x", timeout=30)
		assert not lock.acquire(blocking=False)
		assert lock.locked()
		try:
		    lock.release()
		except redis.exceptions.LockError:
		    pass
		else:
		    raise AssertionError("released what it did not own")
	END
	assert is_held x
	let_go one
	expect 0
	python "$SERVER/socket" <<-'END'
		import sys, redis

		lock = redis.Redis(unix_socket_path=sys.argv[1]).lock("lock:x", timeout=30)
		assert lock.acquire(blocking=False)
		lock.release()
	END
}

@test "redis-py and dlock take turns: nobody overlaps" {
	cat >step <<-'END'
		#!/bin/bash
		exec 8>judge
		flock -n 8 || echo overlap >>violations
		read -r count <counter
		echo $((count + 1)) >counter
	END
	chmod +x step
	echo 0 >counter
	cat >ours <<-'END'
		for i in 1 2 3 4 5 6 7 8; do dlock x ./step || echo "exit $?" >>violations; done
	END
	cat >theirs.py <<-'END'
		import subprocess, sys, redis

		server = redis.Redis(unix_socket_path=sys.argv[1])
		for i in range(8):
		    with server.lock("lock:x", timeout=30, sleep=0.01):
		        subprocess.run(["./step"], check=True)
	END
	start a bash ours
	start b bash ours
	start c "$PYTHON" theirs.py "$SERVER/socket"
	start d "$PYTHON" theirs.py "$SERVER/socket"
	local name
	for name in a b c d; do
		finish $name
		expect 0
	done
	refute_file violations
	assert_file counter 32
}

@test "a key of another type is left as it is: exit 76, whatever the waiting" {
	cli HSET lock:h field value >/dev/null
	cli RPUSH lock:l a b >/dev/null
	cli SADD lock:s a >/dev/null
	cli ZADD lock:z 1 a >/dev/null
	cli XADD lock:x 1-1 a b >/dev/null
	local name option before
	for name in h l s z x; do
		before=$(cli DUMP "lock:$name" | md5sum)
		for option in -n "-w $TEST_PATIENCE" '-w 100' ''; do
			try dlock $option "$name" touch ran
			expect_failure 76 "^dlock: $name: "
		done
		assert_equal "$(cli DUMP "lock:$name" | md5sum)" "$before" "lock:$name"
	done
	refute_file ran
	assert_equal "$(cli DBSIZE)" 5 'keys'
	cli DEL lock:h lock:l lock:s lock:z lock:x >/dev/null
}

@test "a key that becomes another type during the hold is lost, and left as it is" {
	start one dlock -t 3 x sh -c 'echo >running; exec sleep 300'
	wait_until is_file running
	cli DEL lock:x >/dev/null
	cli HSET lock:x field value >/dev/null
	finish one
	assert_equal "$status" 80
	assert_equal "$(cli HGET lock:x field)" value
	cli DEL lock:x >/dev/null
}

@test "keys of another type in the companions' place: an error, not a lock without memory" {
	cli SET "$(meta_of x)" text PX 60000 >/dev/null
	try dlock -n x touch ran
	expect_failure 76 ''
	refute_file ran
	assert is_free x
	cli DEL "$(meta_of x)" >/dev/null
}
