# dlock status: the holders and waiters, for people and for scripts.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

# shape <JSON: fails unless it is exactly the frozen form; prints a line per lock.
shape() {
	PYTHONPATH=$BATS_TEST_DIRNAME/../programs PYTHONDONTWRITEBYTECODE=1 "$PYTHON" "$BATS_TEST_DIRNAME/../programs/status_shape.py"
}

@test "nothing is held: an empty table, an empty array, exit 0" {
	try dlock status
	assert_equal "$status$err" 0
	refute_match "$out" $'\n'
	try dlock status --json
	expect 0 '[]'
}

@test "one lock in the table: name, mode, holder, times, fence, waiters" {
	begin_holder one deploy -t 30 --label 'make all'
	try dlock status
	assert_equal "$status$err" 0
	local head row
	{
		read -r head
		read -r row
	} <<<"$out"
	assert_match "$head" '^NAME +MODE +HOLDER +HELD +TTL +FENCE +WAITING *$'
	assert_match "$row" "^deploy +exclusive +$(hostname):$one_pid tester make all +[0-9.]+m?s +[0-9.]+m?s +[0-9]{16} +0 *\$"
	assert_equal "$(wc -l <try.out)" 2
	local column
	# Aligned: each heading begins where its column does.
	for column in MODE:exclusive HOLDER:$(hostname):; do
		local before_head=${head%%"${column%%:*}"*} before_row=${row%%"${column#*:}"*}
		assert_equal "${#before_head}" "${#before_row}" "where $column begins"
	done
	let_go one
}

@test "--json has the frozen shape, and its values are true" {
	local before after
	before=$(now_ms)
	begin_holder one deploy -t 30 --label 'a "quoted" label'
	after=$(now_ms)
	try dlock status --json
	assert_equal "$status$err" 0
	shape <try.out >/dev/null
	python try.out "$(hostname)" "$one_pid" "$before" "$after" "$(cli HGET "$(meta_of deploy)" fence)" <<-'END'
		import datetime, json, sys

		path, host, pid, before, after, fence = sys.argv[1:]
		[lock] = json.load(open(path))
		assert lock["name"] == "deploy" and lock["key"] == "lock:deploy", lock
		assert lock["mode"] == "exclusive", lock
		assert lock["fence"] == int(fence), lock
		assert 15000 < lock["ttl_ms"] <= 30000, lock
		assert lock["waiting"] == 0 and lock["waiters"] == [], lock
		[holder] = lock["holders"]
		assert holder["host"] == host and holder["pid"] == int(pid), holder
		assert holder["user"] == "tester" and holder["label"] == 'a "quoted" label', holder
		assert holder["detached"] is False, holder
		since = datetime.datetime.fromisoformat(holder["since"].replace("Z", "+00:00")).timestamp() * 1000
		assert int(before) - 50 <= since <= int(after) + 50, (before, since, after)
		assert 0 <= holder["held_ms"] < 60000, holder
		assert 15000 < holder["ttl_ms"] <= 30000, holder
	END
	let_go one
	try dlock status --json
	expect 0 '[]'
}

@test "held_ms grows, from the grant and not from the last renewal" {
	begin_holder one x -t $((2 * TEST_PATIENCE))
	stays $((3500 * TEST_PATIENCE)) is_held x
	try dlock status --json x
	assert_equal "$status" 0
	local held
	held=$(sed -E 's/.*"held_ms": ?([0-9]+).*/\1/' <<<"$out")
	assert_between "$held" $((3500 * TEST_PATIENCE)) $((20000 * TEST_PATIENCE)) held_ms
	let_go one
}

@test "one NAME: 0 when it is held, 1 when it is free; -q prints nothing" {
	begin_holder one x
	try dlock status x
	assert_equal "$status" 0
	assert_match "$out" "$(hostname):$one_pid"
	try dlock status -q x
	expect 0
	try dlock -q status x
	expect 0
	try dlock status -q y
	expect 1
	try dlock status y
	assert_equal "$status$err" 1
	try dlock status --json y
	expect 1 '[]'
	try dlock status --json x
	assert_equal "$status" 0
	shape <try.out >/dev/null
	let_go one
	try dlock status -q x
	expect 1
}

@test "names and globs choose; a lock that two of them match is shown once" {
	begin_holder a deploy-web
	begin_holder b deploy-db
	begin_holder c backup
	names() { shape | sort | paste -sd ' '; }
	assert_equal "$(dlock status --json | names)" 'backup deploy-db deploy-web'
	assert_equal "$(dlock status --json 'deploy*' | names)" 'deploy-db deploy-web'
	assert_equal "$(dlock status --json 'deploy-?b' | names)" 'deploy-db'
	assert_equal "$(dlock status --json '[bd]*' 'deploy*' backup | names)" 'backup deploy-db deploy-web'
	assert_equal "$(dlock status --json backup deploy-db | names)" 'backup deploy-db'
	assert_equal "$(dlock status --json backup backup | names)" backup
	assert_equal "$(dlock status --json 'eploy*' | names)" ''
	try dlock status 'none*'
	assert_equal "$status" 0 'a glob that matches nothing'
	let_go a
	let_go b
	let_go c
}

@test "a name with odd characters is looked up as it is" {
	local name
	for name in 'a b' '{x}' 'é%s' 'back\slash' "it's"; do
		begin_holder one "$name"
		try dlock status --json -- "$name"
		assert_equal "$status$err" 0
		assert_equal "$(shape <try.out)" "$name"
		let_go one
		rm one.count
	done
	begin_holder one 'a*b'
	try dlock status --json 'a\*b'
	assert_equal "$(shape <try.out)" 'a*b'
	try dlock status --json 'a[*]b'
	assert_equal "$(shape <try.out)" 'a*b'
	let_go one
}

@test "another client's lock is shown as foreign, with no holders" {
	cli SET lock:theirs "some token" PX 60000 >/dev/null
	cli SET lock:eternal "some token" >/dev/null
	try dlock status --json theirs
	assert_equal "$status$err" 0
	shape <try.out >/dev/null
	assert_match "$out" '"mode": ?"foreign"'
	assert_match "$out" '"holders": ?\[ *\]'
	try dlock status
	assert_equal "$status$err" 0
	assert_match "$out" 'theirs +foreign'
	assert_match "$out" 'eternal +foreign'
	try dlock status -q theirs
	expect 0
	refute_match "$(dlock status; dlock status --json)" 'some token'
	cli DEL lock:theirs lock:eternal >/dev/null
}

@test "keys that are no locks are not shown: companions, other types, other prefixes" {
	begin_holder one x
	cli HSET lock:hash a b >/dev/null
	cli RPUSH lock:list a >/dev/null
	cli SET other:key a >/dev/null
	cli SET '{lock:x}:once:id' a >/dev/null
	cli SET 'lock:{lock:x}:once:id' a >/dev/null
	cli SET 'lock:{lock:x}:who:token' a >/dev/null
	assert_equal "$(dlock status --json | shape)" x
	try dlock status
	assert_equal "$(wc -l <try.out)" 2
	cli DEL lock:hash lock:list other:key '{lock:x}:once:id' 'lock:{lock:x}:once:id' 'lock:{lock:x}:who:token' >/dev/null
	let_go one
}

@test "a NAME whose key is of another type: 76" {
	cli HSET lock:h a b >/dev/null
	try dlock status h
	expect_failure 76 ''
	cli DEL lock:h >/dev/null
}

@test "--prefix looks elsewhere, also a prefix with the glob's own characters" {
	begin_holder one x --prefix 'a*b[c]?:'
	assert_equal "$(dlock status --json --prefix 'a*b[c]?:' | shape)" x
	assert_equal "$(dlock status --json --prefix 'a*b[c]?:' x | shape)" x
	cli SET 'aXb[c]?:wrong' v PX 60000 >/dev/null
	assert_equal "$(dlock status --json --prefix 'a*b[c]?:' | shape)" x
	assert_equal "$(dlock status --json)" '[]'
	cli DEL 'aXb[c]?:wrong' >/dev/null
	let_go one
}

@test "control characters from anywhere never reach the terminal, and JSON stays JSON" {
	cli SET $'lock:bad\e[31m\a\nname\x7f' v PX 60000 >/dev/null
	cli SET $'lock:raw\xff\xfe' v PX 60000 >/dev/null
	cli SET $'lock:c1\xc2\x9b31m' $'\e]0;title\a' PX 60000 >/dev/null
	local option
	for option in '' --json 'bad*' 'raw*' '--json c1*'; do
		try dlock status $option
		assert_equal "$status$err" 0
		# C1 in UTF-8 is c2 80 to c2 9f
		LC_ALL=C refute grep -qaP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' try.out
	done
	try dlock status --json
	shape <try.out | grep -q bad
	assert_equal "$(wc -l < <(dlock status))" 4 'lines of the table'
	cli FLUSHALL >/dev/null
	start one dlock --label $'evil\e[31m\nlabel' x sh -c 'echo >running; while [ ! -e end ]; do sleep 0.05; done'
	wait_until is_file running
	try dlock status
	LC_ALL=C refute grep -qaP '[\x00-\x09\x0b-\x1f\x7f]' try.out
	assert_equal "$(wc -l <try.out)" 2
	try dlock -n x true
	expect_failure 1 'evil'
	refute_match "$err" $'[\e\a]'
	touch end
	finish one
}

@test "what somebody wrote into dlock's records does no harm" {
	begin_holder one x
	local who value
	who=$(cli --scan | grep who: || true)
	assert test -n "$who"
	for value in '' x '|' 'X|' 'X||' 'X|1|{"host":"\u001b[31m"}' "X|1|$(printf 'a%.0s' {1..100000})" \
		$'X|1|host=\e[31m\tpid=99999999999999999999\tuser=\xff' 'X|x|pid=-1'; do
		cli SET "$who" "$value" KEEPTTL >/dev/null
		try dlock status
		assert_equal "$status$err" 0 "with $(printf %q "${value:0:50}")"
		LC_ALL=C refute grep -qaP '[\x00-\x09\x0b-\x1f\x7f]' try.out
		try dlock status --json
		assert_equal "$status" 0
		shape <try.out >/dev/null
		try dlock -n x true
		expect_failure 1 ''
		LC_ALL=C refute grep -qaP '[\x00-\x09\x0b-\x1f\x7f]' try.err
	done
	let_go one
	assert_equal "$status" 0
}

@test "a server's clock that was set back: nobody has held or waited for less than no time" {
	begin_holder one x
	start two dlock x true
	wait_until queued x 1
	local who value
	for who in $(cli --scan | grep who:); do
		value=$(cli GET "$who")
		cli SET "$who" "${value%%|*}|$((${EPOCHREALTIME/[.,]/} + 3600000000))|${value#*|*|}" KEEPTTL >/dev/null
	done
	try dlock status --json
	shape <try.out
	assert_equal "$(jq -c '.[0] | [.holders[0].held_ms, .waiters[0].waited_ms]' try.out)" '[0,0]'
	try dlock status
	assert_match "$out" ' 0s +[0-9.]+m?s +[0-9]{16} +1 *$'
	let_go one
	finish two
}

# foreign COUNT: so many locks of another client.
foreign() {
	cli EVAL 'for i = 1, ARGV[1] do redis.call("SET", "lock:n" .. i, 1, "PX", 600000) end' 0 "$1" >/dev/null
}

@test "a server that is far away is asked as long as it answers" {
	foreign 600
	proxy "$SERVER/socket" 1.1
	local began
	began=$(now_ms)
	DLOCK_SERVER=unix://$PWD/proxy.socket try dlock status
	assert_equal "$status$err" 0
	assert_equal "$(wc -l <try.out)" 601
	assert_between "$(($(now_ms) - began))" 5000 1000000 'ms, or this shows nothing'
	cli FLUSHALL >/dev/null
}

@test "answers to one write that outlast the patience: each in its time, over one connection" {
	foreign 40
	proxy "$SERVER/socket" 0.25 128
	local began
	began=$(now_ms)
	DLOCK_SERVER=unix://$PWD/proxy.socket try dlock status --json
	assert_equal "$status$err" 0
	assert_equal "$(shape <try.out | sort -u | wc -l)" 40
	assert_equal "$(shape <try.out | wc -l)" 40
	assert_between "$(($(now_ms) - began))" 8000 1000000 'ms, or this shows nothing'
	turns >/dev/null
	assert_equal "$(grep -c connect turns)" 1
	cli FLUSHALL >/dev/null
}

@test "100 locks in three round trips, 600 in five" {
	foreign 100
	dlock status >/dev/null
	proxy "$SERVER/socket"
	export DLOCK_SERVER=unix://$PWD/proxy.socket
	try dlock status
	assert_equal "$status$err$(wc -l <try.out)" 0101
	assert_equal "$(turns)" 'connect > < > < > < end'
	foreign 600
	: >turns
	try dlock status
	assert_equal "$status$err$(wc -l <try.out)" 0601
	assert_equal "$(turns)" 'connect > < > < > < > < > < end'
	cli FLUSHALL >/dev/null
}

@test "what is no lock, and a script that is forgotten, among others in one write" {
	foreign 50
	cli RPUSH lock:list 1 >/dev/null
	cli SCRIPT FLUSH >/dev/null
	assert_equal "$(dlock status --json | shape | sort -u | wc -l)" 50
	try dlock status --json n1 list n2
	expect_failure 76 "the key 'lock:list' holds other data than a lock"
	cli DEL lock:list >/dev/null
	cli FLUSHALL >/dev/null
}

@test "200 locks among 3000 other keys, found by SCAN and each shown once" {
	cli EVAL '
		for i = 1, 3000 do redis.call("SET", "other:" .. i, 1) end
		for i = 1, 200 do redis.call("SET", "lock:n" .. i, 1, "PX", 60000) end' 0 >/dev/null
	cli CONFIG RESETSTAT >/dev/null
	assert_equal "$(dlock status --json | shape | sort -u | wc -l)" 200
	assert_equal "$(dlock status --json | shape | wc -l)" 200
	refute_match "$(cli INFO commandstats)" 'cmdstat_keys:'
	assert_match "$(cli INFO commandstats)" 'cmdstat_scan:'
	cli FLUSHALL >/dev/null
}

@test "status changes nothing on the server" {
	begin_holder one x
	local before
	before=$(cli --scan | sort)
	cli CONFIG RESETSTAT >/dev/null
	dlock status >/dev/null
	dlock status --json x 'x*' >/dev/null
	assert_equal "$(cli --scan | sort)" "$before"
	refute_match "$(cli INFO commandstats)" 'cmdstat_(set|del|hset|pexpire|expire|zadd|zrem|rpush|incr|unlink|publish|script\|flush)[:|]'
	let_go one
}
