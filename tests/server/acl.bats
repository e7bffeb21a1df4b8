# The access rule of the manual: it is enough, and none of it can be left out.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }

setup() {
	test_begin
	needs acl
	RULE=$(sed -n '/^\.\\" rule:/,/^\.Ed/p' "$BATS_TEST_DIRNAME/../../man/dlock-redis.7" | grep -oE '\+[a-z]+')
	grant $RULE
	export DLOCK_SERVER=unix://lock:pw@$SERVER/socket
}

teardown() {
	cli ACL DELUSER lock >/dev/null
	test_end
}

grant() { # RULE...: to the user, and nothing else
	cli ACL SETUSER lock reset on '>pw' '~lock:*' "$@" >/dev/null
	cli ACL LOG RESET >/dev/null
}

# What the server refused, by the name of the command. status asks whether it is a Cluster, where it may.
refused() {
	cli ACL LOG | sed -n '/^object$/{n;p}' | tr a-z A-Z | grep -vx 'CLUSTER|SLOTS' | sort -u |
		paste -sd ' '
}

# ---- What a lock is used for: each fails, or leaves its mark in the server's log of refusals ----

quietly() { # COMMAND...: succeeds, and says nothing
	try "$@"
	[[ $status == 0 && -z $err ]]
}

plain() { cli SCRIPT FLUSH >/dev/null && quietly dlock x true; }
database() { quietly dlock -S "$DLOCK_SERVER?db=1" x true; }
settling() { quietly dlock --settle 1 x true; }
shared() { quietly dlock -s x dlock -s --label other x true; }
records() { quietly dlock --once id x true && quietly dlock --once id x false; }
looking() { quietly dlock -s x dlock status; }

take_turns() { # COMMAND...: while one holds the lock and another waits for it
	local good=0
	rm -f holder.count # begin_holder() finds COMMAND by what it wrote last time
	begin_holder holder x
	start waiter dlock x true
	wait_until waits_or_is_gone
	"$@" || good=1
	let_go holder
	[[ $status == 0 && -z $err ]] || good=1
	signal_waiters CONT $waiter_pid 2>/dev/null || true
	wait_until is_gone_or_missed
	kill -TERM $waiter_pid 2>/dev/null || true
	finish waiter
	[[ $status == 0 && -z $err && $good == 0 ]]
}

is_gone_or_missed() { is_gone $waiter_pid || [[ -n $(refused) ]]; }
waits_or_is_gone() { is_gone $waiter_pid || [[ $(cli INFO clients) == *blocked_clients:1* ]]; }

waiting() { take_turns quietly dlock status; }

# The next waiter does not take it.
passing() { take_turns eval 'signal_waiters STOP $waiter_pid'; }

# Two that wait for each other.
circle() {
	rm -f a b
	start one sh -c 'dlock a sh -c "touch a; until [ -e b ]; do sleep 0.02; done; dlock b true"'
	start two sh -c 'dlock b sh -c "touch b; until [ -e a ]; do sleep 0.02; done; dlock a true"'
	wait_until circle_is_over
	kill -TERM -- -$one_pid -$two_pid 2>/dev/null || true
	finish one && finish two
}

circle_is_over() { file_has one.err deadlock || file_has two.err deadlock || [[ -n $(refused) ]]; }

@test "the manual's rule is all that run, status and a wait take" {
	local use
	wait_until server_is_up
	for use in plain database settling shared records looking waiting passing circle; do
		$use || fail "$use: $tried: $status $err" "refused: $(refused)"
		assert_equal "$(refused)" '' "$use: refused"
	done
	assert grep -q deadlock one.err two.err
	DLOCK_FENCE=1 try dlock guard state echo ran
	expect 0 ran
	cli FLUSHALL >/dev/null
}

# Long enough for settling.
server_is_up() { [[ $(cli INFO server) == *uptime_in_seconds:[1-9]* ]]; }

@test "without any of its commands something is refused, and the message names it" {
	local case use name
	for case in plain:{del,eval,evalsha,get,hmget,hset,pexpire,set,time,zcard,zrange} database:select settling:info \
		shared:{pexpireat,zadd,zrem,zremrangebyscore,zrevrange,zscore} looking:{pttl,scan,zrangebyscore} \
		waiting:{blpop,mget,rpush,zrank} passing:lindex; do
		use=${case%:*} name=${case#*:}
		echo "$name" >>tried
		grant $(grep -vx "+$name" <<<"$RULE")
		$use >/dev/null 2>&1 || true
		# The keeper may still be at work when the front has ended.
		wait_until -t 3 eval '[[ " $(refused) " == *" ${name^^} "* ]]' || fail "$case was not missed" "refused: $(refused)"
		[[ $status != 77 || ${err^^} == *"${name^^}"* ]] || fail "$case: $err"
		grant $RULE
		cli FLUSHALL >/dev/null
	done
	assert_equal "$(sort tried | sed 's/^/+/')" "$(sort <<<"$RULE")" 'all of the rule'
}

@test "whatever a script calls is in the rule" {
	local name
	for name in $(grep -ohE "call\('[A-Z]+'" "$BATS_TEST_DIRNAME"/../../src/redis/script/lua/*.lua | sed "s/call('//; s/'//" | sort -u); do
		grep -qx "+${name,,}" <<<"$RULE" || fail "$name is not in the manual's rule"
	done
}

@test "keys outside of the prefix: 77, and what it takes" {
	try dlock --prefix other: x touch ran
	expect_failure 77 '~PREFIX\*'
	try dlock status --prefix other: x
	expect_failure 77 '~PREFIX\*'
	grant $RULE resetkeys '~lock:x'
	try dlock x touch ran
	expect_failure 77 '~PREFIX\*'
	refute_file ran
}
