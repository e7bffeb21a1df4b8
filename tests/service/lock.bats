# lock.h over a real server, step by step (programs/lock_probe.c).

load ../lib/helper

setup_file() {
	file_begin
	ln -s "$(realpath "${TEST_BIN:-$BATS_TEST_DIRNAME/../programs}/lock_probe")" "$BIN/lock_probe"
}
teardown_file() { file_end; }
setup() {
	test_begin
	URL=unix://$SERVER/socket
}
teardown() { test_end; }

# probe NAME [OPTION]...: one that asks for the lock x at URL and does what `tell` says.
probe() {
	local name=$1
	shift
	mkfifo "$name.in"
	start "$name" sh -c "exec lock_probe '$URL' x -l $name $* <'$PWD/$name.in'"
	exec {fd}>"$name.in"
	declare -g "${name}_fd=$fd"
}

lines() { wc -l <"$1.out"; }
has_lines() { (($(lines "$1") >= $2)); }

# tell NAME COMMAND [ARG]...: does not wait for the answer. heard NAME REGEX: waits for it.
tell() {
	local name=$1 fd=${1}_fd
	shift
	declare -g "${name}_lines=$(($(lines "$name") + 1))"
	echo "$*" >&"${!fd}"
}

heard() {
	local name=$1 lines=${1}_lines
	wait_until has_lines "$name" "${!lines}" || return 1
	line=$(sed -n "${!lines}p" "$name.out")
	assert_match "$line" "^$2" "the answer of $name"
}

say() { # NAME COMMAND REGEX
	tell "$1" "$2"
	heard "$1" "$3"
}

field() { sed -E "s/.* $1=([^ ]*).*/\\1/" <<<"$line"; }

quit() {
	local name
	for name; do
		# Its input never ends by itself: what was started after it has it open too.
		tell "$name" end
		finish "$name"
	done
}

# on_time NAME REGEX LEAST MOST [BEGAN]: the answer comes between, in ms from now, or BEGAN (now_ms). How late it is its
# file says: a busy machine looks at that seldom. It may be there already. LEAST counts from before its cause.
on_time() {
	local began=${5:-$(now_ms)}
	heard "$1" "$2"
	assert_between $(($(now_ms) - began)) "$3" 1000000 'ms until the answer was seen'
	assert_between $(($(date -r "$1.out" +%s%3N) - began)) -10000 $(($4 * TEST_PATIENCE)) 'ms until the answer'
}

listening() { [[ $(cli CLIENT LIST | grep -c 'cmd=blpop') == "$1" ]]; }
kill_clients() { cli CLIENT KILL TYPE normal SKIPME yes >/dev/null; }

# --- One after the other ---

@test "scripts are flushed between any two calls" {
	local step
	probe a
	for step in acquire renew 'release 1000' acquire 'release 1000'; do
		cli SCRIPT FLUSH >/dev/null
		say a "$step" '(granted|released)'
	done
	quit a
}

@test "the connection is killed between any two calls" {
	local step
	probe a
	for step in acquire renew renew 'release 1000'; do
		say a "$step" '(granted|released)'
		[[ $step == release* ]] && continue
		say a fd 'fd=some readable=0'
		kill_clients
		say a fd 'fd=some readable=1'
	done
	quit a
	assert_equal "$(cli HGET "$(meta_of x)" lost)" "" "losses"
}

@test "the server restarts empty in the middle of a hold" {
	probe a
	say a acquire granted
	local fence
	fence=$(field fence)
	server_end "$SERVER"
	say a 'renew 300' 'failed 69 '
	server_again "$SERVER"
	say a renew "again fence=$fence "
	say a renew "granted fence=$fence "
	assert_equal "$(cli HGET "$(meta_of x)" fence)" "$fence"
	server_end "$SERVER"
	server_again "$SERVER"
	say a 'release 1000' gone
	quit a
}

@test "a thief on the emptied server" {
	probe a
	say a acquire granted
	server_end "$SERVER"
	server_again "$SERVER"
	cli SET lock:x thief PX 60000 >/dev/null
	say a renew lost
	say a 'release 1000' lost
	assert_equal "$(cli GET lock:x)" thief
	assert_equal "$(cli HGET "$(meta_of x)" lost)" 1
	cli DEL lock:x >/dev/null
	quit a
}

@test "a token is spent once it was released" {
	probe a
	say a token .
	local first=$line
	say a acquire granted
	assert_equal "$(cli GET lock:x)" "$first"
	assert_match "$first" "^$(hostname):[0-9]+:[0-9a-f]{32}$"
	say a 'release 1000' released
	say a acquire granted
	refute_match "$(cli GET lock:x)" "^$first$"
	say a 'release 1000' released
	quit a
}

# --- A server that does not answer ---

@test "a request that is not answered is ended behind itself" {
	probe a -q
	server_stop
	local began
	began=$(now_ms)
	tell a acquire 300
	on_time a timeout 290 600 "$began"
	say a 'release 400' timeout
	server_continue
	wait_until is_free x
	stays 300 is_free x
	assert queued x 0
	say a acquire '(lost|granted)'
	say a acquire granted
	say a 'release 1000' released
	quit a
}

@test "a renewal that is not answered is bounded, and the next one mends it" {
	probe a -t 5000
	say a acquire granted
	server_stop
	local began
	began=$(now_ms)
	tell a renew 300
	on_time a timeout 290 600 "$began"
	server_continue
	say a renew granted
	server_stop
	say a 'renew 200' timeout
	tell a release 2000
	sleep 0.3
	server_continue
	heard a released
	stays 200 is_free x
	quit a
}

@test "busy with a script that hangs, then well again" {
	own_server hung --lua-time-limit 100
	is_busy() { [[ $(redis-cli -s hung/socket PING 2>&1) == BUSY* ]]; }
	start hog redis-cli -s hung/socket EVAL 'while true do end' 0
	wait_until is_busy
	URL=unix://$PWD/hung/socket
	probe a
	say a "acquire $((1000 * TEST_PATIENCE))" 'failed 69 .*busy with a script'
	tell a acquire 5000
	sleep 0.3
	redis-cli -s hung/socket SCRIPT KILL >/dev/null
	heard a granted
	say a 'release 1000' released
	quit a
	finish hog
}

@test "a replica that becomes the master" {
	own_server own --replicaof 127.0.0.1 1
	URL=unix://$PWD/own/socket
	probe a
	say a "acquire $((400 * TEST_PATIENCE))" 'failed 69 .*read-only replica'
	tell a acquire 5000
	sleep 0.3
	redis-cli -s own/socket REPLICAOF NO ONE >/dev/null
	heard a granted
	say a 'release 1000' released
	quit a
}

@test "what cannot write says why" {
	own_server own --maxmemory 1
	URL=unix://$PWD/own/socket
	probe a
	say a acquire 'failed 69 .*out of memory.*OOM'
	redis-cli -s own/socket CONFIG SET maxmemory 0 >/dev/null
	if may_minimum; then
		redis-cli -s own/socket CONFIG SET min-replicas-to-write 3 >/dev/null
		say a acquire 'failed 69 .*too few replicas'
		redis-cli -s own/socket CONFIG SET min-replicas-to-write 0 >/dev/null
	else
		left_out 'needs minimum' 'too few replicas'
	fi
	say a acquire granted
	say a 'release 1000' released
	quit a
}

@test "hosts and sockets" {
	local host
	for host in 127.0.0.1 localhost '[::1]'; do
		[[ $host != *::1* ]] || may_ipv6 >/dev/null 2>&1 || continue
		URL=redis://$host:$(<"$SERVER/port")/5
		probe a
		say a acquire granted
		assert_equal "$(cli -n 5 EXISTS lock:x)$(cli EXISTS lock:x)" 10
		say a 'release 1000' released
		quit a
		rm a.in a.out
	done
	URL=redis://127.0.0.1:1
	probe b
	tell b acquire 5000
	on_time b 'failed 69 cannot reach redis://127.0.0.1:1: Connection refused' 0 500
	quit b
	URL=unix://$PWD/nothing
	probe c
	say c acquire 'failed 69 cannot reach unix://.*/nothing: No such file'
	quit c
	URL=redis://no-such-host.invalid
	probe d
	say d 'acquire 8000' 'failed 69 cannot look up no-such-host.invalid: '
	quit d
	URL=unix://$SERVER/socket?db=99
	probe e
	say e acquire 'failed 64 .*has no such database'
	quit e
	assert_equal "$(cli DBSIZE)" 0
}

@test "passwords: none, a wrong one, one too many" {
	own_server own
	local own=$PWD/own/socket
	redis-cli -s "$own" CONFIG SET requirepass right >/dev/null
	URL=unix://$own
	probe none
	say none acquire 'failed 77 .*asks for a password'
	quit none
	URL=unix://:wrong@$own
	probe wrong
	say wrong acquire 'failed 77 .*does not accept'
	quit wrong
	URL=unix://:right@$own?db=3
	probe right
	say right acquire granted
	say right 'release 1000' released
	quit right
	redis-cli -s "$own" -a right --no-auth-warning CONFIG SET requirepass '' >/dev/null 2>&1
	for URL in "unix://:extra@$own" "unix://somebody:extra@$own" "unix://:extra@$own?db=3"; do
		probe extra -q
		say extra acquire 'failed 77 '
		say extra 'release 1000' '(released|failed 77 )' # it may have landed all the same
		assert_equal "$(redis-cli -s "$own" EXISTS lock:x 'lock:{lock:x}:queue')" 0 "kept with $URL"
		quit extra
		rm extra.in extra.out
	done
}

@test "a user with the rights that a lock takes, and with one too few" {
	needs acl
	own_server own
	local own=$PWD/own/socket
	redis-cli -s "$own" ACL SETUSER lock on '>pw' '~lock:*' +auth +select +evalsha +eval +get +set +del \
		+time +pexpire +pexpireat +pttl +exists +mget +hmget +hset +hget +zadd +zrem +zcard +zrank \
		+zscore +zrange +zrevrange +zrangebyscore +zremrangebyscore +rpush +blpop +scan >/dev/null
	URL=unix://lock:pw@$own
	probe a -q
	probe b -q
	say a acquire granted
	say a renew granted
	say b acquire busy
	tell b listen 5000
	sleep 0.2
	say a 'release 1000' released
	heard b granted
	say b acquire granted
	say a 'verify 1000' pending=0
	say b survey 'view name=x '
	wait_until has_lines b 5
	say b 'release 1000' released
	redis-cli -s "$own" ACL SETUSER lock -evalsha >/dev/null
	say a acquire "failed 77 .*rights.*'evalsha'"
	redis-cli -s "$own" ACL SETUSER lock +evalsha -hset >/dev/null
	say a acquire 'failed 77 .*scripts call.*\+HSET is missing'
	redis-cli -s "$own" ACL SETUSER lock +hset resetkeys '~other:*' >/dev/null
	say a acquire 'failed 77 .*(rights|keys)'
	quit a b
}

# --- Waiting ---

@test "a waiter is woken by a message, at once" {
	probe a
	probe b -q
	say a acquire granted
	say b acquire 'busy rank=0'
	tell b listen 20000
	wait_until listening 1
	say a 'release 1000' 'released handed=1'
	on_time b granted 0 100
	say b acquire granted
	say a 'verify 1000' pending=0
	say b 'release 1000' released
	quit a b
}

@test "listening goes on where it was" {
	probe a
	probe b -q
	say a acquire granted
	say b acquire busy
	tell b listen 200
	on_time b timeout 100 500
	tell b listen 200
	on_time b timeout 100 500
	assert listening 1
	say a 'release 1000' 'released handed=1'
	say b 'listen 1000' granted
	say b acquire granted
	say b 'release 1000' released
	quit a b
}

@test "what comes too late for a verification is not the answer to what is asked next" {
	probe a -q
	probe b -q
	say a acquire granted
	tell b wait 30000
	wait_until listening 1
	kill -STOP "$b_pid"
	say a 'release 1000' 'released handed=1'
	server_stop
	say a 'verify 100' pending=1
	server_continue
	say a acquire busy
	kill -CONT "$b_pid"
	heard b granted
	tell a wait 30000
	wait_until listening 1
	say b 'release 1000' 'released handed=1'
	heard a granted
	say a 'release 1000' released
	quit a b
}

@test "a waiter that leaves while it listens" {
	probe a
	probe b -q
	say a acquire granted
	say b acquire busy
	say b 'listen 100' timeout
	say b 'release 1000' released
	assert queued x 0
	assert_equal "$(cli HGET "$(meta_of x)" timeouts)" 1
	say a 'release 1000' 'released handed=0'
	quit a b
}

@test "dead waiters in a row cost little" {
	local name
	probe a
	say a acquire granted
	for name in b c d f g e; do
		probe $name -q
		tell $name wait 30000
		wait_until listening $((++n))
	done
	kill -KILL "$b_pid" "$c_pid" "$d_pid" "$f_pid" "$g_pid"
	wait_until listening 1
	say a 'release 1000' 'released handed=1'
	tell a verify 5000
	on_time e granted 0 800
	heard a pending=0
	say e 'release 1000' released
	quit a e
}

@test "a waiter that is stopped loses its turn after a second, and comes back to its place" {
	probe a
	probe b -q
	probe c -q
	probe d -q
	say a acquire granted
	tell b wait 30000
	wait_until listening 1
	tell c wait 30000
	wait_until listening 2
	tell d wait 30000
	wait_until listening 3
	kill -STOP "$b_pid"
	local began
	began=$(now_ms)
	say a 'release 1000' 'released handed=1'
	tell a verify 5000
	on_time c granted 990 2500 "$began"
	heard a pending=0
	kill -CONT "$b_pid"
	wait_until queued x 2
	assert_match "$(cli ZRANGE 'lock:{lock:x}:queue' 0 0)" ":$b_pid:"
	say c 'release 1000' released
	heard b granted
	say c 'verify 1000' pending=0
	say b 'release 1000' released
	heard d granted
	say d 'release 1000' released
	quit a b c d
}

@test "the giver dies with the one it gave to: a second, and a bit" {
	probe a
	probe b -q
	probe c -q
	say a acquire granted
	tell b wait 30000
	wait_until listening 1
	tell c wait 30000
	wait_until listening 2
	kill -STOP "$b_pid"
	local began
	began=$(now_ms)
	say a 'release 1000' 'released handed=1'
	kill -KILL "$a_pid" "$b_pid"
	on_time c granted 990 1500 "$began"
	say c 'release 1000' released
	quit c
	cli FLUSHALL >/dev/null
}

@test "the holder dies: the first in the queue has the lock when it expires" {
	probe a -t 1500
	probe b -q
	say a acquire granted
	tell b wait 10000
	wait_until listening 1
	kill -KILL "$a_pid"
	local began
	began=$(now_ms)
	on_time b granted "$(cli PTTL lock:x)" 1750 "$began"
	say b 'release 1000' released
	quit b
}

@test "the holder dies, and the first in the queue with it" {
	probe a -t 1500
	probe b -q
	probe c -q
	say a acquire granted
	tell b wait 10000
	wait_until listening 1
	tell c wait 10000
	wait_until listening 2
	kill -KILL "$a_pid" "$b_pid"
	local began
	began=$(now_ms)
	on_time c granted "$(cli PTTL lock:x)" 4000 "$began"
	say c 'release 1000' released
	quit c
}

@test "a foreign lock that is released is noticed within about a second" {
	cli SET lock:x stranger >/dev/null
	probe b -q
	say b acquire 'busy rank=0 foreign=1 known=0 left=-1 '
	tell b wait 20000
	wait_until listening 1
	sleep 1.5
	cli DEL lock:x >/dev/null
	on_time b granted 0 1300
	say b 'release 1000' released
	quit b
}

@test "a foreign client takes the lock between two looks" {
	probe a -t $((1500 * TEST_PATIENCE))
	probe b -q
	say a acquire granted
	tell b wait 20000
	wait_until listening 1
	assert_equal "$(cli SET lock:x stranger XX PX 60000)" OK "a's TTL was over before"
	sleep $((2 * TEST_PATIENCE))
	cli DEL lock:x >/dev/null
	on_time b granted 0 1300
	say b 'release 1000' released
	say a 'release 1000' lost
	quit a b
}

@test "a waiter whose connection is killed keeps its place" {
	probe a
	probe b -q
	probe c -q
	say a acquire granted
	tell b wait 20000
	wait_until listening 1
	tell c wait 20000
	wait_until listening 2
	kill_clients
	wait_until listening 2
	assert_match "$(cli ZRANGE 'lock:{lock:x}:queue' 0 0)" ":$b_pid:"
	assert queued x 2
	say a 'release 1000' 'released handed=1'
	heard b granted
	say b 'release 1000' 'released handed=1'
	heard c granted
	say c 'release 1000' released
	quit a b c
}

@test "the server restarts empty with a waiter: the holder comes back to its lock" {
	probe a -t 20000
	probe b -q
	say a acquire granted
	tell b wait 30000
	wait_until listening 1
	server_end "$SERVER"
	server_again "$SERVER"
	wait_until listening 1
	assert is_free x
	say a renew again
	say a 'release 1000' 'released handed=1'
	on_time b granted 0 200
	say b 'release 1000' released
	quit a b
}

@test "the server restarts empty with a waiter, and the holder is dead" {
	probe a -t 5000
	probe b -q
	say a acquire granted
	tell b wait 30000
	wait_until listening 1
	kill -KILL "$a_pid"
	server_end "$SERVER"
	server_again "$SERVER"
	wait_until listening 1 # on a busy machine some seconds are over by then
	on_time b granted 1000 5500
	say b 'release 1000' released
	quit b
}

@test "readers wait behind a writer and go in together" {
	local name ttl=$((8000 * TEST_PATIENCE))
	probe a -t $ttl
	say a acquire granted
	for name in r1 r2 r3; do
		probe $name -q -m s -t $ttl
		tell $name wait 20000
		wait_until listening $((++n))
	done
	probe w -q
	tell w wait $((ttl + 20000))
	wait_until listening 4
	probe r4 -q -m s
	tell r4 wait $((ttl + 20000))
	wait_until listening 5
	say a 'release 1000' 'released handed=3'
	for name in r1 r2 r3; do heard $name granted; done
	say a 'verify 1000' pending=0
	say r1 renew granted
	server_end "$SERVER"
	server_again "$SERVER"
	# Else the reader may come before the writer, which the server does not know any longer.
	wait_until queued x 2
	for name in r3 r1 r2; do say $name renew again; done
	for name in r1 r2 r3; do say $name 'release 1000' released; done
	# The server does not know whether these were all: the writer has it once the time is over for which
	# a share could have been held.
	heard w granted
	say w 'release 1000' released
	heard r4 granted
	say r4 'release 1000' released
	quit a r1 r2 r3 r4 w
}

@test "permits" {
	probe a -q -m p2
	probe b -q -m p2
	probe c -q -m p2
	say a acquire granted
	say b acquire granted
	tell c wait 20000
	wait_until listening 1
	say b 'release 1000' 'released handed=1'
	heard c granted
	say a renew granted
	say a 'release 1000' released
	say c 'release 1000' released
	quit a b c
}

# --- Looking ---

@test "a survey: held, waited for, foreign, shared, odd names; nothing else" {
	probe a
	probe b -q -p 3
	say a acquire granted
	say b acquire busy
	cli SET lock:foreign stranger PX 60000 >/dev/null
	cli RPUSH lock:list one >/dev/null
	cli SET 'lock:a{t}b' "$(cli GET lock:x)" PX 60000 >/dev/null
	cli SET other:x 1 PX 60000 >/dev/null
	tell a survey
	wait_until file_has a.out surveyed
	assert_equal "$(grep -v granted a.out)" "view name=a{t}b key=lock:a{t}b mode=foreign exclusive fence=0 ttl=some holders=0 waiters=0
view name=foreign key=lock:foreign mode=foreign exclusive fence=0 ttl=some holders=0 waiters=0
view name=x key=lock:x mode=exclusive fence=1 ttl=some holders=1 waiters=1 H:a W:b/3
surveyed"
	say b 'survey none' surveyed
	say b 'survey list' 'failed 76 '
	tell b 'survey [xy]'
	wait_until file_has b.out '^view name=x '
	cli DEL lock:x >/dev/null
	tell b 'survey x'
	wait_until file_has b.out 'name=x key=lock:x mode=exclusive fence=1 ttl=none holders=0 waiters=1 W:b/3'
	quit a b
	cli FLUSHALL >/dev/null
}

@test "a survey of many, and of a prefix that looks like a pattern" {
	local n
	for n in {1..3000}; do echo "SET p[*]?:n$n v PX 60000"; done | cli >/dev/null
	cli SET 'px:n' v PX 60000 >/dev/null
	probe a -P "'p[*]?:'"
	say a acquire granted
	tell a survey '"*"'
	wait_until file_has a.out surveyed
	tell a survey 10000
	assert_equal "$(grep -c 'view name=n[0-9]* key=p\[\*\]?:n' a.out)" 0
	tell a 'survey n* 20000'
	wait_until file_has a.out 'name=n3000 '
	wait_until has_lines a 3004
	assert_equal "$(grep -o 'name=n[0-9]* ' a.out | sort -u | wc -l)" 3000
	say a 'release 1000' released
	quit a
	cli FLUSHALL >/dev/null
}

@test "all keys of a lock lie in its slot, as a cluster sees it" {
	own_server cluster --cluster-enabled yes
	local names=('x' 'p}q' '{}r' '}{' 's{t}u{v}' 'é {v}' '{' '}' '{{a}}' '{}{a}' 'a b' "'\"%s" '}}}' '{lock:x}')
	local prefix name keys key
	for prefix in lock: '' '{t}:' 'pre}:'; do
		for name in "${names[@]}"; do
			mapfile -t keys < <("${TEST_BIN:-$BATS_TEST_DIRNAME/../programs}/../unit/keys_test" "$prefix" "$name")
			assert_equal "${#keys[@]}" 7
			for key in "${keys[@]:1}"; do
				assert_equal "$(redis-cli -s cluster/socket CLUSTER KEYSLOT "$key")" "${keys[0]}" "the slot of $key"
			done
		done
	done
}

@test "too few replicas: what was granted is released with the answer, and handed off" {
	probe a
	probe b -r 1 -q
	probe c -q
	say a acquire granted
	say b acquire busy
	say c acquire busy
	say a release 'released handed=1'
	say b acquire 'unreplicated 69 .*handed=1'
	say c acquire granted
	say c release released
	say b acquire 'unreplicated 69'
	assert is_free x
	quit a b c
}
