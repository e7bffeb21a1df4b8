# acquire, renew, release: a lock that lives without a process; and release --force, which ends any.

load ../lib/helper
load ../lib/waiters

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

# take NAME [ARG]...: dlock acquire; sets NAME_token and NAME_fence.
take() {
	local name=$1
	shift
	try dlock acquire "$@"
	assert_equal "$status$err" 0 "acquire $*"
	read -r "${name}_token" "${name}_fence" <try.out
}

# give LOCK TOKEN: releases, and wants that to do.
give() {
	try dlock release "$1" "$2"
	expect 0
}

who() { echo "lock:{lock:$1}:who:$2"; }
counter() { cli HGET "$(meta_of "$1")" "$2"; }

# All that the server holds: keys, values, and when each expires.
everything() {
	cli EVAL "$EXPIRY"'
		local all = {}
		for _, key in ipairs(redis.call("KEYS", "*")) do
			all[#all + 1] = key .. " " .. expiry_of(key) .. " " .. redis.sha1hex(redis.call("DUMP", key))
		end
		table.sort(all)
		return all' 0
}

# denied STATUS REGEX ARG...: dlock ARG... fails so, with one line, and nothing has changed.
denied() {
	local code=$1 regex=$2 before
	shift 2
	before=$(everything)
	try dlock "$@"
	expect_failure "$code" "$regex"
	assert_equal "$(everything)" "$before" "what the server holds after dlock $*"
}

# The dlocks of this test that still run.
running() {
	local pid
	for pid in $(marked_pids); do
		! is_dlock "$pid" || echo "$pid"
	done
}

# ---- acquire -------------------------------------------------------------------------------------

@test "acquire prints token and fence, and leaves the lock and nothing else" {
	try dlock acquire -t 30 x
	assert_equal "$status$err" 0
	assert_match "$out" "^$(hostname):[0-9]+:[0-9a-f]{32} [0-9]{16}\$"
	assert_equal "$(running)" '' 'what still runs'
	assert owner_is x "${out% *}"
	assert_equal "$(counter x fence)" "${out#* }"
	assert_between "$(cli PTTL lock:x)" 15000 30000
	assert_equal "$(cli EVAL '
		local immortal = {}
		for _, key in ipairs(redis.call("KEYS", "*")) do
			if redis.call("PTTL", key) == -1 then immortal[#immortal + 1] = key end
		end
		return immortal' 0)" ''
	try dlock -n x true
	expect_failure 1 'busy: held by .*\(tester, acquire\)'
	try dlock acquire -n x
	expect_failure 1 'busy: held by'
	try dlock acquire -w 0.1 -E 9 x
	expect_failure 9 'busy after 100ms: held by'
	give x "$(cut -d' ' -f1 <<<"$(cli GET lock:x)")"
	try dlock -n x echo free
	expect 0 free
}

@test "nobody renews it: it ends with its TTL, and the next in the queue gets it then" {
	take one -t $((3 * TEST_PATIENCE)) x
	enqueue a
	finish_all a
	assert_file order a
}

@test "status shows it as detached, and a run not" {
	take one x --label 'step 1'
	begin_holder two y
	try dlock status
	assert_match "$out" "x +exclusive +$(hostname):[0-9]+ tester step 1 \(detached\) "
	refute_match "$out" 'y .*detached'
	try dlock status --json
	PYTHONPATH=$BATS_TEST_DIRNAME/../programs PYTHONDONTWRITEBYTECODE=1 "$PYTHON" \
		"$BATS_TEST_DIRNAME/../programs/status_shape.py" <try.out >/dev/null
	python try.out <<-'END'
		import json, sys

		x, y = json.load(open(sys.argv[1]))
		assert x["holders"][0]["detached"] is True, x
		assert x["holders"][0]["label"] == "step 1", x
		assert y["holders"][0]["detached"] is False, y
	END
	try dlock status -q x
	expect 0
	let_go two
	give x "$one_token"
	try dlock status -q x
	expect 1
}

@test "the options of a lock count: -s, --permits, --per-host, --prefix, --priority" {
	take one -s x
	take two --shared x
	try dlock acquire -n x
	assert_equal "$status" 1
	give x "$one_token"
	give x "$two_token"

	take one --permits 2 y
	take two --permits 2 y
	try dlock acquire -n --permits 2 y
	assert_equal "$status" 1
	take three --permits 3 y
	give y "$two_token"
	give y "$one_token"
	give y "$three_token"

	take one --per-host x
	assert owner_is "$(hostname)/x" "$one_token"
	try dlock renew --per-host x "$one_token"
	expect 0
	try dlock release --per-host x "$one_token"
	expect 0

	take one --prefix other: x
	assert_equal "$(cli GET other:x)" "$one_token"
	try dlock release --prefix other: x "$one_token"
	expect 0
	cli DEL 'other:{other:x}:meta' >/dev/null

	take one x
	enqueue low
	start high dlock acquire --priority 5 x
	wait_until queued x 2
	give x "$one_token"
	finish high
	assert_equal "$status" 0
	queued x 1
	give x "${out% *}"
	finish_all low
}

@test "what makes no sense is refused" {
	denied 64 'cooldown' acquire --cooldown 1h x
	denied 64 'also' acquire --also y x
	denied 64 'report' acquire --report file x
	denied 64 "nothing may follow here: 'true'" acquire x true
	denied 64 'no lock NAME' acquire
	denied 64 'no TOKEN' renew x
	denied 1 'no dlock hold' release x
	denied 64 'TOKEN is empty' release x ''
	denied 64 'TOKEN holds a blank' release x 'h:1:a 17 18'
	denied 64 'too long' release x "$(printf 'x%.0s' {1..120})"
	denied 64 'nonblock' release -n x h:1:a
	denied 64 'nothing may follow' release --force x h:1:a
	denied 64 'force' --force x true
}

@test "below a dlock that holds it: 81; with a detached lock's DLOCK_TOKEN, too" {
	try dlock x dlock acquire x
	expect_failure 81 'would deadlock'
	try dlock x env -u DLOCK_TOKEN dlock acquire x
	expect_failure 81 'would deadlock'

	take one x
	DLOCK_TOKEN=$one_token try dlock -n x true
	expect_failure 81 'would deadlock: .* does not answer here .*or the lock is detached'
	give x "$one_token"
}

# ---- The token must get out ----------------------------------------------------------------------

@test "standard output closed, or open for reading only: nothing is asked for" {
	try sh -c 'dlock acquire x >&-'
	expect_failure 71 'cannot print the token'
	try sh -c 'dlock acquire x 1<try.err'
	expect_failure 71 'cannot print the token'
	assert_equal "$(cli DBSIZE)" 0
}

@test "a full disk, a reader gone: the lock is released, and the next one gets it" {
	begin_holder one x
	start full sh -c 'dlock acquire x >/dev/full'
	wait_until queued x 1
	enqueue next
	let_go one
	finish full
	expect_failure 71 'cannot print the token: No space left'
	finish_all next
	assert is_free x

	python >code <<-'END'
		import os, subprocess

		read_end, write_end = os.pipe()
		os.close(read_end)
		print(subprocess.run(["dlock", "acquire", "x"], stdout=write_end, stderr=subprocess.DEVNULL).returncode)
	END
	assert_file code 71
	assert is_free x
}

@test "a reader that does not read is waited for, and a signal ends that" {
	python >code <<-'END'
		import fcntl, os, signal, subprocess, time

		read_end, write_end = os.pipe()
		fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
		os.write(write_end, b"x" * 4096)
		ps = subprocess.Popen(["dlock", "acquire", "x"], stdout=write_end)
		while subprocess.run(["dlock", "status", "-q", "x"]).returncode != 0:
		    time.sleep(0.02)
		ps.send_signal(signal.SIGTERM)
		print(ps.wait(), subprocess.run(["dlock", "status", "-q", "x"]).returncode)

		ps = subprocess.Popen(["dlock", "acquire", "x"], stdout=write_end)
		while subprocess.run(["dlock", "status", "-q", "x"]).returncode != 0:
		    time.sleep(0.02)
		os.read(read_end, 4096)
		print(ps.wait())
		token = os.read(read_end, 4096).decode().split()[0]
		print(subprocess.run(["dlock", "release", "x", token]).returncode)
	END
	assert_file code "-15 1"$'\n0\n0'
}

@test "a reader that is gone, and a server: says that the lock frees itself" {
	mkfifo pipe
	sleep 60 <pipe &
	local reader=$!
	start a sh -c 'exec >pipe; head -c 65536 /dev/zero; exec dlock acquire x'
	wait_until is_held x
	wait_until is_quiet "$a_pid"
	server_stop
	kill -KILL $reader
	wait $reader || true
	finish a
	assert_equal "$status$out" 71
	assert_match "$err" 'x: the lock could not be released; it frees itself'
	assert_match "$err" 'x: cannot print the token: Broken pipe'
	server_continue
	wait_until is_free x
}

@test "a signal ends the wait, gives the place back, and dlock dies of it" {
	take one x
	local sig
	for sig in INT TERM HUP QUIT; do
		start a dlock acquire x
		wait_until queued x 1
		kill -$sig "$a_pid"
		finish a
		assert_equal "$status$out" $((128 + $(kill -l $sig)))
		assert queued x 0
		assert_equal "$(cli --raw KEYS 'lock:{lock:x}:w*' | grep -c ":$a_pid:" || true)" 0 'keys of a'
	done
	assert owner_is x "$one_token"
	give x "$one_token"
}

@test "a signal while the grant is under way leaves nothing behind" {
	dlock x true
	local sig
	for sig in INT TERM; do
		server_stop
		start a dlock acquire x
		wait_until is_quiet "$a_pid"
		kill -$sig "$a_pid"
		finish a
		assert_equal "$status$out" $((128 + $(kill -l $sig)))
		server_continue
		wait_until is_free x
		assert_equal "$(cli KEYS '*')" "$(meta_of x)"
	done
}

@test "a signal that comes with the grant: the lock is released" {
	server_stop
	start a dlock acquire x
	wait_until is_quiet "$a_pid"
	kill -STOP "$a_pid"
	wait_until is_stopped "$a_pid"
	kill -TERM "$a_pid"
	server_continue
	wait_until is_held x
	kill -CONT "$a_pid"
	finish a
	assert_equal "$status$out" 143
	assert is_free x
}

@test "signals at any moment: either the token is out, or the lock is free" {
	python <<-'END'
		import random, signal, subprocess, time

		got = died = 0
		for round in range(120):
		    ps = subprocess.Popen(["dlock", "acquire", "x"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
		    time.sleep(random.random() * 0.006)
		    ps.send_signal(signal.SIGTERM)
		    out, err = ps.communicate()
		    held = subprocess.run(["dlock", "status", "-q", "x"]).returncode == 0
		    assert not err, err
		    if ps.returncode == 0:
		        got += 1
		        assert held and out.endswith(b"\n"), (held, out)
		        subprocess.run(["dlock", "release", "x", out.split()[0]], check=True)
		    else:
		        died += 1
		        assert ps.returncode == -signal.SIGTERM and not out and not held, (ps.returncode, out, held)
		print(got, "got it,", died, "died")
	END
}

@test "granted so late that it is as good as expired: asked for again" {
	dlock x true
	server_stop
	start a dlock acquire -t 1 x
	wait_until is_quiet "$a_pid"
	sleep 1 # nine tenths of the TTL pass before the answer comes
	server_continue
	finish a
	assert_equal "$status$err" 0
	assert_equal "$(counter x granted)" 3
	assert_equal "$(counter x fence)" "${out#* }"
	wait_until is_free x
}

# ---- renew ---------------------------------------------------------------------------------------

@test "renew: for the TTL it was acquired with, or for -t; whatever the configuration says" {
	take one -t 20 x
	try dlock renew x "$one_token" -t 5m
	expect 0
	assert_between "$(cli PTTL lock:x)" 200000 300000
	assert_between "$(cli PTTL "$(who x "$one_token")")" 200000 300000
	echo 'ttl = 10m' >>config/dlock.conf
	try dlock renew x "$one_token"
	expect 0
	assert_between "$(cli PTTL lock:x)" 10000 20000
	assert owner_is x "$one_token"
	assert_equal "$(counter x fence)" "$one_fence"
	local before
	before=$(expiry_of lock:x)
	sleep 0.01
	try dlock -v renew x "$one_token"
	assert_equal "$status" 0
	assert_match "$err" 'renewed'
	(($(expiry_of lock:x) > before)) || fail "not extended"
	give x "$one_token"
}

@test "renew a share: its own time, and that of the lock" {
	take one -s -t 20 x
	take two -s -t 30 x
	try dlock renew x "$one_token" -t 100
	expect 0
	assert_between "$(cli PTTL lock:x)" 60000 100000
	try dlock status x --json
	python try.out <<-'END'
		import json, sys

		ttls = sorted(holder["ttl_ms"] for holder in json.load(open(sys.argv[1]))[0]["holders"])
		assert 15000 < ttls[0] <= 30000 and 60000 < ttls[1] <= 100000, ttls
	END
	give x "$one_token"
	assert_between "$(cli PTTL lock:x)" 1000 30000
	give x "$two_token"
}

@test "a wrong token: exit 1, nothing changed" {
	# Nothing expires meanwhile, and nothing is renewed.
	take other -t 1h y
	take one -t 1h x
	begin_holder run z -t 1h
	cli SET lock:foreign secret PX 3600000 >/dev/null
	local token command
	for command in renew release; do
		for token in h:1:a "$other_token" dlock:shared dlock:permits '*' '}:meta'; do
			denied 1 'x: not held with this token' $command x "$token"
		done
		denied 1 'not held with this token' $command free "$one_token"
		denied 1 'not held with this token' $command foreign secret
		denied 1 'holder that still runs and releases the lock itself; --force releases it all the same' $command z "$(cli GET lock:z)"
	done
	let_go run
	assert_equal "$status" 0
	cli DEL lock:foreign >/dev/null
	give x "$one_token"
	give y "$other_token"
	denied 1 'was released with this token before' release x "$one_token"
	denied 1 'was released with this token before' renew x "$one_token"
}

@test "a wrong token for what is shared: exit 1, nothing changed" {
	local option
	for option in --shared --permits=3; do
		take one $option x
		take two $option x
		denied 1 'not held with this token' release x dlock:shared
		denied 1 'not held with this token' renew x h:1:a
		give x "$one_token"
		denied 1 'was released' renew x "$one_token"
		give x "$two_token"
	done
}

@test "an expired token: exit 1, nothing changed, whatever has the lock by then" {
	take one -t 1 x
	take share -s -t $TEST_PATIENCE y
	take long -s -t $((50 * TEST_PATIENCE)) y
	cli PEXPIRE "$(who y "$share_token")" $((60000 * TEST_PATIENCE)) >/dev/null # no record of it shall count for more
	wait_until is_free x
	wait_until share_is_over
	denied 1 'or has expired' renew x "$one_token"
	denied 1 'or has expired' release x "$one_token"
	denied 1 'or has expired' renew y "$share_token"
	denied 1 'or has expired' release y "$share_token"
	take two x
	((two_fence > one_fence)) || fail "the fence did not grow"
	denied 1 'or has expired' renew x "$one_token"
	denied 1 'or has expired' release x "$one_token"
	assert owner_is x "$two_token"
	give x "$two_token"
	give y "$long_token"
	cli DEL "$(who y "$share_token")" >/dev/null
}

share_is_over() {
	[[ $(cli EVAL 'local t = redis.call("TIME")
		return redis.call("ZCOUNT", KEYS[1], "-inf", t[1] * 1000 + math.floor(t[2] / 1000) - 1)' \
		1 'lock:{lock:y}:holders') == 1 ]]
}

@test "renew for a shorter time: a waiter has the lock when that is over, and not later" {
	local began option
	for option in '' -s '--permits=1'; do
		take one $option x -t 10m
		enqueue a ${option/-s/}
		try dlock renew x "$one_token" -t 1
		expect 0
		began=$(now_ms)
		finish_all a
		assert_between $(($(now_ms) - began)) 0 $((6000 * TEST_PATIENCE)) ms
	done
}

@test "renew against the expiry and a contender: never both have it" {
	local i renewed=0 lost=0
	for i in {1..24}; do
		take one -t 10 x
		cli EVAL 'for _, key in ipairs(KEYS) do redis.call("PEXPIRE", key, ARGV[1]) end' \
			2 lock:x "$(who x "$one_token")" $((RANDOM % (2 * took) + 1)) >/dev/null
		dlock acquire -n -q x >contender 2>/dev/null &
		try dlock renew x "$one_token"
		local code=$status
		wait $! || true
		if ((code == 0)); then
			renewed=$((renewed + 1))
			assert owner_is x "$one_token"
			refute is_file contender
			give x "$one_token"
		else
			lost=$((lost + 1))
			denied 1 'expired' release x "$one_token"
			[[ ! -s contender ]] || give x "$(cut -d' ' -f1 contender)"
		fi
		assert is_free x
	done
	echo "renewed $renewed, lost $lost"
}

# ---- release -------------------------------------------------------------------------------------

@test "release hands the lock on, to one writer or a batch of readers" {
	take one x
	enqueue a
	enqueue b
	start r1 dlock acquire -s x
	wait_until queued x 3
	start r2 dlock acquire -s x
	wait_until queued x 4
	give x "$one_token"
	finish_all a b
	assert_equal "$(tr '\n' ' ' <order)" 'a b '
	finish r1
	assert_equal "$status" 0
	local first=${out% *} second
	finish r2
	assert_equal "$status" 0
	second=${out% *}
	enqueue w
	give x "$first"
	assert queued x 1
	give x "$second"
	finish_all w
}

@test "release of a permit lets one in" {
	take one --permits 2 x
	take two --permits 2 x
	start a dlock acquire --permits 2 x
	wait_until queued x 1
	start b dlock acquire --permits 2 x
	wait_until queued x 2
	give x "$two_token"
	finish a
	assert_equal "$status" 0
	assert queued x 1
	local third=${out% *} fourth
	give x "$one_token"
	finish b
	assert_equal "$status" 0
	fourth=${out% *}
	give x "$third"
	give x "$fourth"
	assert is_free x
}

@test "release passes over dead waiters within a moment" {
	take one x
	local name
	for name in dead1 dead2 dead3; do
		enqueue $name
	done
	enqueue alive
	kill -KILL "$dead1_pid" "$dead2_pid" "$dead3_pid"
	wait_until all_gone "$dead1_pid" "$dead2_pid" "$dead3_pid"
	give x "$one_token"
	wait_until -t 3 file_has order alive
	finish_all alive
	cli FLUSHALL >/dev/null # what the dead left ends with its lease
}

@test "--at-least outlives the release, and its token does not" {
	# As long as the lines up to the last denial may take.
	local least=$((3 * TEST_PATIENCE))
	take one -t 1 --at-least $least x
	assert_between "$(cli PTTL lock:x)" 1001 $((least * 1000))
	enqueue a
	give x "$one_token"
	assert owner_is x "$one_token ended"
	denied 1 'was released' renew x "$one_token"
	denied 1 'was released' release x "$one_token"
	finish_all a
	(($(counter x fence) - one_fence > least * 1000000)) || fail "the next one came too soon"
}

@test "of releases with one token, side by side, one does it" {
	take one x
	enqueue a
	local i names=()
	for i in {1..6}; do
		start "r$i" dlock release x "$one_token"
		names+=("r$i")
	done
	local done=0
	for i in "${names[@]}"; do
		finish "$i"
		[[ $status == 1 && $err == *'was released'* ]] || done=$((done + 1))
	done
	assert_equal "$done" 1
	finish_all a
	assert_file order a
}

@test "the token from standard input, as acquire printed it" {
	dlock acquire x >token
	try dlock renew x - <token
	expect 0
	try dlock release x - <token
	expect 0
	try dlock release x - </dev/null
	expect_failure 64 'TOKEN on standard input is empty'
	try dlock release x - <&-
	expect_failure 71 'cannot read the token'
}

@test "the answer is lost: a release is repeated, and has done its work once" {
	take one x
	enqueue a
	service "$BATS_TEST_DIRNAME/../programs/cutter.py" "$PWD/cutter" "$SERVER/socket" released
	wait_until test -S cutter
	try dlock -S "unix://$PWD/cutter" release x "$one_token"
	expect 0
	finish_all a
	assert is_free x
}

@test "no server: 69 at once; one that does not answer: after 5 s" {
	local command
	for command in 'renew x h:1:a' 'release x h:1:a' 'release --force x' 'acquire x'; do
		try dlock -S "unix://$PWD/nowhere" $command
		expect_failure 69 'cannot reach'
		((took < 3000 * TEST_PATIENCE)) || fail "$command took $took ms"
	done
	server_stop
	try dlock renew x h:1:a
	expect_failure 69 'no answer'
	server_continue
}

# ---- release --force -----------------------------------------------------------------------------

@test "--force breaks a run: its holder stops with 80, and the next one has it" {
	begin_holder one x -t 3
	enqueue next
	local fence
	fence=$(counter x fence)
	try dlock release --force x
	assert_equal "$status$out" 0
	assert_match "$err" "^dlock: x: released by force: held by $(hostname):$one_pid \(tester, witness\) for [0-9.]+m?s; its COMMAND is stopped within 3s\$"
	finish_all next
	assert_file order next
	wait_until is_gone "$one_command"
	finish one
	assert_equal "$status" 80
	assert_match "$err" 'lost'
	(($(counter x fence) > fence)) || fail "the fence did not grow"
	assert is_free x
	assert_equal "$(counter x lost)" 1
}

@test "--force ends a lock for good: a holder whose key is gone does not set it again" {
	begin_holder one x -t $((3 * TEST_PATIENCE))
	try dlock release --force x
	assert_equal "$status" 0
	finish one
	assert_equal "$status" 80
	assert is_free x

	begin_holder one x -t $((3 * TEST_PATIENCE))
	cli DEL lock:x >/dev/null
	try dlock release --force x
	expect_failure 1 'free'
	finish one
	assert_equal "$status" 80
	assert is_free x
}

@test "--force: a run that ends before it noticed has lost the lock too" {
	begin_holder one x
	try dlock release --force x
	let_go one
	assert_equal "$status" 80
	assert_equal "$(counter x lost)" 1
}

@test "--force breaks all shares, or permits, and lets a writer in" {
	local option
	for option in --shared --permits=5; do
		begin_holder one x $option -t 3
		begin_holder two x $option -t 3
		take three x $option
		enqueue writer
		try dlock release --force x
		assert_equal "$status" 0
		assert_equal "$(grep -c 'released by force: held by' try.err)" 3
		finish_all writer
		finish one
		assert_equal "$status" 80
		finish two
		assert_equal "$status" 80
		denied 1 'not held with this token' renew x "$three_token"
		assert is_free x
		assert_equal "$(cli KEYS 'lock:{lock:x}:[hqw]*')" '' 'what is left'
	done
}

@test "--force breaks a detached lock, whose token is then wrong" {
	take one x
	start a dlock acquire x
	wait_until queued x 1
	try dlock release --force x
	assert_equal "$status" 0
	assert_match "$err" 'released by force: held by .*\(tester, acquire\)'
	finish a
	assert_equal "$status" 0
	local token fence
	read -r token fence <<<"$out"
	((fence > one_fence)) || fail "the fence did not grow"
	denied 1 'not held with this token' release x "$one_token"
	denied 1 'not held with this token' renew x "$one_token"
	assert_equal "$(counter x lost)" 1
	give x "$token"
}

@test "--force breaks what another client holds, with an expiry or without" {
	cli SET lock:x secret PX 600000 >/dev/null
	enqueue a
	try dlock release --force x
	assert_equal "$status" 0
	assert_match "$err" '^dlock: x: released by force: held by another Redis client, for [0-9ms.]+ more at most$'
	finish_all a
	cli SET lock:x "$(printf 'long%.0s' {1..100})" >/dev/null
	try dlock release --force x
	assert_equal "$status" 0
	assert_match "$err" 'held by another Redis client, without an expiry'
	assert is_free x
}

@test "--force: free is exit 1, and leaves no trace of a name that was never used" {
	try dlock release --force x
	expect_failure 1 'it is free: there was nothing to release'
	assert_equal "$(cli DBSIZE)" 0
	dlock x true
	try dlock release --force x
	expect_failure 1 'it is free'
	try dlock -q release --force x
	expect_failure 1 'it is free'
}

@test "--force never touches a key of another type, nor do the others" {
	cli HSET lock:x a b >/dev/null
	denied 76 "the key 'lock:x' holds other data than a lock and was left alone; use another NAME or --prefix" release --force x
	denied 76 "the key 'lock:x' holds other data than a lock and was left alone; use another NAME or --prefix" release x h:1:a
	denied 76 "the key 'lock:x' holds other data than a lock and was left alone; use another NAME or --prefix" renew x h:1:a
	denied 76 "the key 'lock:x' holds other data than a lock and was left alone; use another NAME or --prefix" acquire x
	cli DEL lock:x >/dev/null
}

@test "--force is sent once: a waiter that got the lock by it keeps it though the answer is lost" {
	take one x
	start a dlock acquire x
	wait_until queued x 1
	service "$BATS_TEST_DIRNAME/../programs/cutter.py" "$PWD/cutter" "$SERVER/socket" broken
	wait_until test -S cutter
	try dlock -S "unix://$PWD/cutter" release --force x
	assert_equal "$status$out" 69
	finish a
	assert_equal "$status" 0
	assert owner_is x "${out% *}"
	give x "${out% *}"
}

@test "--force against one that was just handed the lock: it keeps its place" {
	take one x
	enqueue a
	signal_waiters STOP "$a_pid"
	enqueue b
	signal_waiters STOP "$b_pid" # b would have it, once the second is over in which a is to claim it
	give x "$one_token"          # handed to a, which cannot claim it
	try dlock release --force x
	assert_match "$status $err" "^0 .* held by [^ ]*:$a_pid |^1 .* it is free" # the second may be over
	signal_waiters CONT "$a_pid" "$b_pid"
	finish_all a b
	assert_equal "$(sort order | tr '\n' ' ')" 'a b '
}

# ---- All together --------------------------------------------------------------------------------

@test "counters: grants and the time held" {
	take one x
	sleep 0.05
	give x "$one_token"
	take one x
	give x "$one_token"
	try dlock status --openmetrics
	assert_match "$out" 'dlock_acquisitions_total\{name="x"\} 2'
	assert_match "$out" 'dlock_losses_total\{name="x"\} 0'
	assert_between "$(counter x held_us)" 50000 15000000
	assert_equal "$(cli KEYS '*')" "$(meta_of x)"
}

@test "twenty contenders: an exact counter, and fences that grow" {
	cat >step <<-'END'
		#!/bin/bash
		for i in 1 2 3; do
			line=$(dlock acquire -q x) || exit
			read -r token fence <<<"$line"
			read -r count <counter
			echo "$fence" >>fences
			echo $((count + 1)) >counter
			dlock release x "$token" || exit
		done
	END
	echo 0 >counter
	local i names=()
	for i in {1..20}; do
		start "p$i" bash step
		names+=("p$i")
	done
	finish_all "${names[@]}"
	assert_file counter 60
	assert_equal "$(sort -nu fences)" "$(<fences)" 'the fences, in order'
	assert_equal "$(cli KEYS '*')" "$(meta_of x)"
}

@test "permits that are kept for a while limit a rate" {
	cat >caller <<-'END'
		#!/bin/bash
		for i in 1 2 3; do
			dlock --permits 3 --at-least 500ms api sh -c 'echo "$DLOCK_FENCE" >>starts' || exit
		done
	END
	local i names=()
	for i in {1..6}; do
		start "p$i" bash caller
		names+=("p$i")
	done
	finish_all "${names[@]}"
	# A fence is the moment of its grant, in us of the server's clock.
	sort -n starts >sorted
	assert_equal "$(wc -l <sorted)" 18
	awk '{ at[NR] = $1 } END { for (i = 4; i <= NR; i++) if (at[i] - at[i - 3] < 499000) print at[i] - at[i - 3] }' \
		sorted >too_close
	assert_file too_close ''
	wait_until is_free api
}
