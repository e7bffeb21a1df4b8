# redis+quorum:// on five real servers, which are killed, stopped and restarted empty.

load ../lib/helper
load ../lib/quorum
load ../lib/work
load ../lib/scripts

# --- Taking and giving back ---

@test "a lock on five servers: on all of them, by one token" {
	begin_holder a x -t 3
	local token
	token=$(variable DLOCK_TOKEN)
	assert_match "$token" '^[^:]+:[0-9]+:[0-9a-f]{32}$'
	wait_until eval '[[ $(count_owned '"$token"') == 5 ]]'
	assert_match "$(variable DLOCK_FENCE)" '^[0-9]{16}$'
	let_go a
	expect 0
}

@test "the fence is above all counters of the majority, and a majority knows it" {
	local i known=0
	for i in 1 2 3; do
		on $i HSET "$(meta_of x)" fence 900000000000${i}000 size 5 >/dev/null
	done
	freeze 4 5
	begin_holder a x -w 4
	thaw 4 5
	assert_equal "$(variable DLOCK_FENCE)" 9000000000003001
	for i in 1 2 3; do
		[[ $(fence_on $i) != 9000000000003001 ]] || ((++known))
	done
	assert_equal "$known" 3 'servers that know the fence'
	let_go a
	expect 0
}

@test "a confirmation counts only where the lock is ours, and the token is news" {
	confirmed() ( # FENCE
		cli() { on 1 "$@"; }
		confirm x me "$1"
		echo "${reply[0]}"
	)
	on 1 SET lock:x other PX 60000 >/dev/null
	assert_equal "$(confirmed 1000)" stale
	on 1 SET lock:x me PX 1000 >/dev/null
	assert_equal "$(confirmed 1000)" confirmed
	assert_equal "$(confirmed 1000)" confirmed
	assert_between "$(on 1 PTTL lock:x)" 5000 60000 'ms until it expires'
	assert_equal "$(confirmed 999)" stale
	on 1 HSET "$(meta_of x)" token other >/dev/null
	assert_equal "$(confirmed 1000)" stale
	on 1 FLUSHALL >/dev/null
}

# The first three, each of them that much slower each way.
slow_url() { # MS
	local i list=
	for i in 1 2 3; do
		fake_server "delay-$1:$(port_of $i)"
		list+=,127.0.0.1:$(<"delay-$1:$(port_of $i)/port")
	done
	echo "redis+quorum://${list:1}"
}

@test "another that comes between the request and its confirmation has it" {
	local i
	export DLOCK_SERVER
	DLOCK_SERVER=$(slow_url 500)
	try dlock -S "$(url 1 2 3)" x true # the scripts are known there
	start a dlock -n x touch ran
	wait_until is_owned_on 1
	wait_until is_owned_on 2
	on 1 SET lock:x other PX 60000 >/dev/null
	on 2 SET lock:x other PX 60000 >/dev/null
	finish a
	assert_equal "$status" 1 'exit code'
	refute_file ran
	assert_equal "$(owner 1)$(owner 2)" otherother
	wait_until is_free_on 3
	for i in 1 2; do
		on $i DEL lock:x >/dev/null
	done
}

@test "the lock counts from before the first request left, however long the servers took" {
	local pids
	pids="$(<"$(dir_of 1)/pid") $(<"$(dir_of 2)/pid") $(<"$(dir_of 3)/pid")"
	DLOCK_SERVER=$(slow_url 300)
	try dlock -S "$(url 1 2 3)" x true # the scripts are known there
	local began
	began=$(now_ms)
	try dlock -t 4 --grace 0.5 x bash -c "trap ': >ended; exit' TERM; kill -STOP $pids; while sleep 0.02; do :; done"
	assert_equal "$status" 80
	# Counted from the answer, which is 1200 ms later, it would be as much longer.
	assert_between $(($(date -r ended +%s%3N) - began)) 1200 $((3450 + 200 * (TEST_PATIENCE - 1))) 'ms from the request to the end of COMMAND'
	thaw 1 2 3
	local i
	for i in 1 2 3; do
		on $i FLUSHALL >/dev/null
	done
}

@test "busy: 1, and the holder by name" {
	begin_holder a x
	try dlock -n x true
	expect_failure 1 "^dlock: x: busy: held by [^ ]+:$a_pid \(tester, witness\) for "
	try dlock -w "$TEST_PATIENCE" x true
	expect_failure 1 "^dlock: x: busy after ${TEST_PATIENCE}s: held by [^ ]+:$a_pid "
	let_go a
	expect 0
	try dlock -n x true
	expect 0
}

@test "a waiter is woken by the release, not by a clock" {
	begin_holder a x
	start b dlock x echo b
	wait_until queued 1 1
	wait_until queued 5 1
	local began
	began=$(now_ms)
	let_go a
	finish b
	expect 0 b
	assert_between $(($(now_ms) - began)) 0 $((900 * TEST_PATIENCE)) 'ms'
	assert queued 1 0
}

@test "a waiter that is ended leaves no place behind; one that is killed holds up nobody" {
	begin_holder a x
	start b dlock x true
	wait_until queued 3 1
	kill -TERM "$b_pid"
	finish b
	assert_equal "$status" 143
	wait_until queued 3 0
	start c dlock x true
	wait_until queued 3 1
	start d dlock x echo d
	wait_until queued 3 2
	signal_waiters KILL "$c_pid"
	let_go a
	local began
	began=$(now_ms)
	finish d
	expect 0 d
	assert_between $(($(now_ms) - began)) 0 $((2500 * TEST_PATIENCE)) 'ms'
	ends_by_itself 1 2 3 4 5 # what a dead waiter leaves
}

@test "a waiter costs each server next to nothing" {
	begin_holder a x
	start b dlock x true
	wait_until queued 2 1
	sleep 0.3
	local before
	before=$(evalshas 2)
	sleep 2
	assert_equal "$(evalshas 2)" "$before" 'scripts'
	let_go a
	finish b
	expect 0
}

# --- Dead and silent servers, before ---

@test "any two of five dead, or silent, or empty: the lock is granted, and held by all others" {
	local pair one other what
	for pair in 1,2 1,5 2,4 3,4 4,5; do
		one=${pair%,*} other=${pair#*,}
		for what in freeze slay; do
			$what "$one" "$other"
			try dlock -n x sh -c 'echo $DLOCK_FENCE >>fences'
			expect 0
			assert_between "$took" 0 $((1000 * TEST_PATIENCE)) "ms with $pair after $what"
			[[ $what == freeze ]] && thaw "$one" "$other" || revive "$one" "$other"
		done
	done
	assert_equal "$(sort -n fences)" "$(<fences)" 'fences'
	assert_equal "$(sort -n fences | uniq | wc -l)" 10
}

@test "three of five dead: 69 at once; silent: 69 after five seconds, and nothing is left" {
	slay 2 3 4
	try dlock x true
	expect_failure 69 "^dlock: x: only 2 of the quorum's 5 servers answer \(cannot reach 127\.0\.0\.1:[0-9]+: Connection refused\)"
	assert_between "$took" 0 $((2000 * TEST_PATIENCE)) 'ms'
	revive 2 3 4
	freeze 2 3 4
	try dlock -w 1 x true
	expect_failure 69 "only 2 of the quorum's 5 servers answer"
	thaw 2 3 4
	local i
	for i in 1 2 3 4 5; do
		wait_until is_clean $i
	done
	try dlock -n x true
	expect 0
}

@test "a server that is silent while the lock is taken and released has nothing of it afterwards" {
	freeze 4 5
	try dlock -t 60 x true
	expect 0
	thaw 4 5
	# It was granted there, late, and released behind that.
	wait_until eval '[[ -n $(on 4 HGET "$(meta_of x)" ended) ]]'
	wait_until is_clean 4
	wait_until is_clean 5
}

@test "a lock that is granted late is confirmed there too: the counter is not left behind" {
	try dlock other true # the scripts are known there
	freeze 4 5
	begin_holder a x
	thaw 4 5
	wait_until is_owned_on 4
	wait_until eval '[[ $(fence_on 4) == "$(fence_on 1)" ]]'
	# A renewal would bring the counter as well, but later, and is no grant.
	assert_equal "$(on 4 HGET "$(meta_of x)" granted)" 1 'grants that it was told of'
	let_go a
	expect 0
}

# --- During the hold ---

@test "a server that forgets its promise before it is confirmed gets the lock again soon" {
	local slow
	slow=delay-$((300 * TEST_PATIENCE)):$(port_of 5)
	fake_server "$slow"
	begin_holder a x -t $((60 * TEST_PATIENCE)) -S "$(url 1 2 3 4),127.0.0.1:$(<"$slow/port")"
	wait_until is_owned_on 5
	on 5 FLUSHALL >/dev/null # the promise is still on its way to the holder
	wait_until -t 10 is_owned_on 5
	let_go a
	expect 0
}

@test "two of five killed during the hold: it goes on, and they get the lock again" {
	begin_holder a x -t 4
	local token
	token=$(variable DLOCK_TOKEN)
	slay 1 2
	sleep 4.5
	assert is_alive "$a_command"
	revive 1 2
	wait_until eval '[[ $(count_owned '"$token"') == 5 ]]'
	assert_equal "$(fence_on 1)" "$(fence_on 5)" 'the fence set again'
	let_go a
	expect 0 '' "$err"
}

@test "two of five silent during the hold, beyond the TTL: it goes on, and they get it again" {
	begin_holder a x -t 4
	freeze 2 5
	sleep 4.5
	assert is_alive "$a_command"
	thaw 2 5
	wait_until is_owned_on 2
	wait_until is_owned_on 5
	assert_equal "$(owner 2)" "$(owner 3)"
	let_go a
	expect 0 '' "$err"
}

@test "one after the other restarts empty during the hold: it goes on" {
	begin_holder a x -t 4
	local token i
	token=$(variable DLOCK_TOKEN)
	for i in 1 2 3 4 5; do
		slay $i
		revive $i
		wait_until eval '[[ $(owner '$i') == '"$token"' ]]'
		try dlock -n x true
		assert_equal "$status" 1 'exit code of another one'
	done
	let_go a
	assert_equal "$status" 0
}

@test "three of five dead during the hold: COMMAND is stopped in time, 80" {
	begin_holder a x -t 2
	slay 1 3 5
	finish a
	assert_equal "$status" 80
	assert is_gone "$a_command"
	assert_match "$err" 'cannot be proved any longer'
	revive 1 3 5
	wait_until is_free_on 2
}

@test "somebody else took it on three of five: lost, 80" {
	begin_holder a x -t 2
	local i
	for i in 1 2 3; do
		on $i SET lock:x thief PX 60000 >/dev/null
	done
	finish a
	assert_equal "$status" 80
	assert_match "$err" 'the lock was lost'
	for i in 1 2 3; do
		assert_equal "$(owner $i)" thief
		on $i DEL lock:x >/dev/null
	done
}

@test "somebody else took it on two of five: nothing of that matters" {
	begin_holder a x -t 4
	on 1 SET lock:x thief PX 60000 >/dev/null
	on 2 SET lock:x thief PX 60000 >/dev/null
	sleep 4.4
	assert is_alive "$a_command"
	let_go a
	expect 0
	on 1 DEL lock:x >/dev/null
	on 2 DEL lock:x >/dev/null
}

@test "another Redlock client that holds three of five keeps us out, and is waited for" {
	local i
	for i in 1 2 3; do
		on $i SET lock:x foreign PX 60000 >/dev/null
	done
	try dlock -n x true
	assert_equal "$status" 1
	start b dlock x echo b
	wait_until queued 2 1
	for i in 1 2 3; do
		on $i DEL lock:x >/dev/null
	done
	finish b
	expect 0 b
}

has_fence_of() { [[ $(fence_on "$2") == "$(variable DLOCK_FENCE)" ]]; } # NAME NUMBER

@test "a server that has forgotten the scripts and stands still at the release: freed later" {
	local tries
	# One that is slower than the majority has it with the first renewal only.
	for tries in 1 2 3 4 5; do
		begin_holder a x -t 10m # not to expire while we wait
		! wait_until -t 2 has_fence_of a 3 || break
		let_go a
	done
	assert has_fence_of a 3
	on 3 SCRIPT FLUSH >/dev/null
	freeze 3
	let_go a
	assert_equal "$status" 0
	thaw 3
	wait_until is_free_on 3
}

# --- Processes ---

@test "the keeper is killed: COMMAND dies, and no server keeps the lock" {
	begin_holder a x
	kill -KILL "$a_keeper"
	finish a
	assert_equal "$status" 70
	local i
	for i in 1 2 3 4 5; do
		wait_until is_free_on $i
	done
}

# parts NAME STEP...: COMMAND ends while three of five stand still: the release is on its way. Then the step comes.
# A release is given up after two seconds: if the machine has taken longer than that, nothing is shown, and it tries again.
parts() {
	local command=${1}_command front=${1}_pid began
	for _ in {1..10}; do
		begin_holder "$1" x -t 10m # not to expire while we wait
		freeze 3 4 5
		began=$(now_ms)
		kill -RTMIN "${!command}"
		wait_until is_gone "${!command}"
		stays 200 is_alive "${!front}" || (($(now_ms) - began >= 1500)) || return 1
		"${@:2}"
		began=$(($(now_ms) - began))
		finish "$1"
		((began >= 1500)) || return 0
		wait_until is_free_on_all
	done
	fail "$began ms from the end of COMMAND to ${*:2}"
}

restart_two() {
	slay 4 5
	revive 4 5
	thaw 3
}

is_free_on_all() {
	local i
	for i in 1 2 3 4 5; do
		is_free_on $i || return
	done
}

# A front whose keeper awaits the server which stands still waits for the keeper, for half a second.
leaves_at_once() {
	local keeper began
	start b dlock x touch ran
	wait_until queued 1 1
	keeper=$(keeper_of "$b_pid")
	began=$(now_ms)
	kill -TERM "$b_pid"
	finish b
	expect 143 || return
	wait_until is_gone "$keeper"
	(($(now_ms) - began < 400))
}

@test "one of five stands still: a waiter leaves the others at once, and has nothing to warn of" {
	begin_holder a x -t $((20 * TEST_PATIENCE))
	freeze 5
	try dlock -w 1 x touch ran
	expect_failure 1 '^dlock: x: busy after 1s: held by [^;]*$'
	# Four servers that starve may be late.
	local tries
	for ((tries = 1; tries < 6; tries++)); do
		! leaves_at_once || break
	done
	((tries < 6)) || fail 'the waiter awaits the one that stands still'
	thaw 5
	wait_until -t 5 queued 5 0
	refute_file ran
	let_go a
}

@test "a release on its way is awaited, and outlives the front, the keeper, scripts, and servers" {
	dlock x true
	parts a thaw 3 4 5
	assert_equal "$status$err" 0
	assert is_free_on_all
	parts b eval 'kill -KILL "$b_pid"; wait_until is_gone "$b_pid"; thaw 3 4 5'
	wait_until is_free_on_all
	# The front asks over connections of its own.
	parts c eval 'kill -KILL "$c_keeper"; thaw 3 4 5'
	assert_equal "$status" 70
	wait_until is_free_on_all
	# One has forgotten the scripts, or three have.
	local i one
	for i in 5 4 3; do
		begin_holder d x -t 10m
		for ((one = i; one <= 5; one++)); do
			on $one SCRIPT FLUSH >/dev/null
		done
		let_go d
		assert_equal "$status$err" 0
		wait_until is_free_on_all
	done
	# They end with the release in them: it is sent again, over other connections.
	parts e restart_two
	assert_equal "$status$err" 0
	assert is_free_on_all
}

@test "the front is killed: COMMAND is stopped, and no server keeps the lock" {
	begin_holder a x -t 3
	kill -KILL "$a_pid"
	wait_until is_gone "$a_command"
	local i
	for i in 1 2 3 4 5; do
		wait_until is_free_on $i
	done
}

@test "a signal while too few servers answer: dlock dies of it, and nothing is left later" {
	freeze 1 2 3
	start a dlock x true
	wait_until is_owned_on 4
	kill -TERM "$a_pid"
	finish a
	assert_equal "$status" 143
	thaw 1 2 3
	local i
	for i in 1 2 3 4 5; do
		wait_until is_free_on $i
	done
}

# --- Other commands ---

@test "status: what the majority says, and which servers say otherwise" {
	local token
	begin_holder a x -t 15
	token=$(variable DLOCK_TOKEN)
	wait_until eval '[[ $(count_owned "$token") == 5 ]]' # or b queues on fewer of them
	start b dlock x true
	wait_until queued 1 1
	wait_until queued 5 1
	on 3 DEL lock:x >/dev/null
	try dlock status x
	assert_equal "$status" 0
	assert_match "$out" "x +exclusive +[^ ]+:$a_pid tester witness .* 1\$"
	assert_match "$err" "^dlock: x: 127.0.0.1:$(port_of 3) says that it is free\$"
	slay 5
	try dlock status x
	assert_equal "$status" 0
	assert_match "$err" "127.0.0.1:$(port_of 5) does not answer\$"
	try dlock status --json x
	assert_equal "$(jq -r '.[0] | "\(.name) \(.holders[0].pid) \(.waiting)"' <<<"$out")" "x $a_pid 1"
	let_go a
	finish b
	expect 0
	try dlock status x
	assert_equal "$status" 1
	slay 4 3
	try dlock status x
	expect_failure 69 "only 2 of the quorum's 5 servers answer"
}

@test "a detached lock, which nobody renews, is also on a server that is slower than the majority" {
	fake_server "delay-10:$(port_of 3)"
	export DLOCK_SERVER
	DLOCK_SERVER=$(url 1 2 4 5)
	freeze 5
	try dlock acquire -t 20 -S "$DLOCK_SERVER,127.0.0.1:$(<"delay-10:$(port_of 3)/port")" x
	assert_equal "$status" 0
	wait_until is_owned_on 3
	# A promise that is not confirmed is for 5 s.
	assert_between "$(on 3 PTTL lock:x)" 10000 20000 'ms until it expires'
	thaw 5
	local i
	for i in 1 2 3 4 5; do
		on $i FLUSHALL >/dev/null
	done
}

@test "a detached lock: acquired, renewed and released by its token, on a majority" {
	local i
	for i in 3 5; do # they know acquire.lua, not confirm.lua
		on $i SCRIPT FLUSH >/dev/null
		try dlock -S "redis://127.0.0.1:$(port_of $i)" x true
		expect 0
	done
	freeze 3 5
	try dlock acquire -t 20 x
	thaw 3 5
	assert_equal "$status" 0
	local token=${out% *}
	# The server asked first may be the one to fail: those that were slow have the lock as well.
	wait_until eval '[[ $(fence_on 3) == "$(fence_on 1)" && $(fence_on 5) == "$(fence_on 1)" ]]'
	slay 4
	try dlock renew x "$token"
	expect 0
	try dlock -n x true
	assert_equal "$status" 1
	try dlock release x other:1:00112233445566778899aabbccddeeff
	expect_failure 1 'not held with this token'
	try dlock release x "$token"
	expect 0
	try dlock -n x true
	expect 0
	try dlock release x "$token"
	expect_failure 1 'not held with this token'
}

@test "release --force breaks it, on all servers; its holder is stopped, a waiter gets it" {
	begin_holder a x -t 2
	start b dlock x echo b
	wait_until queued 1 1
	try dlock release --force x
	assert_equal "$status" 0
	assert_match "$err" "released by force: held by [^ ]+:$a_pid"
	finish a
	assert_equal "$status" 80
	finish b
	expect 0 b
}

# up_for SECONDS SERVER...
up_for() {
	local i
	for i in "${@:2}"; do
		(($(on "$i" INFO server | sed -n 's/^uptime_in_seconds:\([0-9]*\).*/\1/p') >= $1)) || return 1
	done
}

@test "a server that came up lately does not count with --settle" {
	wait_until up_for 3 3 4 5
	slay 1 2
	revive 1 2
	try dlock -n --settle 1 x true
	expect 0
	try dlock -w 300ms --settle 1h x true
	expect_failure 1 'the server started [0-9.]+m?s ago; waiting (1h|5[0-9]m)[0-9.ms]* for holders to return'
}

@test "taken again inside its holder: at once, under the outer lock" {
	try dlock x sh -c 'dlock x sh -c "echo \$DLOCK_FENCE"; echo $DLOCK_FENCE'
	assert_equal "$status" 0
	assert_match "$out" '^([0-9]+)'$'\n''([0-9]+)$'
	assert_equal "${out%$'\n'*}" "${out#*$'\n'}" 'both fences'
}

@test "what runs inside keeps the lock when the outer has ended, with two of five dead as well" {
	write_work
	begin_holder a x -t $((3 * TEST_PATIENCE))
	DLOCK_TOKEN=$(variable DLOCK_TOKEN) start job dlock -t $((3 * TEST_PATIENCE)) x ./work job
	wait_until has_begun job
	let_go a
	assert_equal "$status" 0
	assert_match "$err" 'the lock stays with the dlocks that hold it inside this one: [0-9]+$'
	start other dlock x ./work other
	slay 2 4
	stays $((4000 * TEST_PATIENCE)) is_alive "$job_pid"
	refute has_begun other
	revive 2 4
	wait_until is_owned_on 2
	wait_until is_owned_on 4
	: >job.go
	wait_until has_begun other
	after job other
	finish job
	assert_equal "$status" 0
	all_end other
}

@test "what runs inside on a quorum is stopped by --force; an ended token is no holder" {
	write_work
	begin_holder a x -t $((3 * TEST_PATIENCE))
	DLOCK_TOKEN=$(variable DLOCK_TOKEN) start job dlock -t $((3 * TEST_PATIENCE)) x ./work job
	wait_until has_begun job
	let_go a
	dlock release --force x 2>broken
	finish job
	assert_equal "$status" 80
	rm spans
	begin_holder a x --at-least $((1000 * TEST_PATIENCE))ms
	local token
	token=$(variable DLOCK_TOKEN)
	let_go a
	DLOCK_TOKEN=$token start again dlock x ./work again
	start other dlock x ./work other
	stays $((2000 * TEST_PATIENCE)) is_one_at_most
	all_end again other
	one_by_one again other
}

@test "skipped when it has succeeded: --cooldown, --once" {
	try dlock --once a x touch one
	expect 0
	slay 1 2
	try dlock --once a x touch two
	expect 0
	try dlock --cooldown 1h x touch two
	expect 0
	refute_file two
	assert test -e one
	local i
	for i in 3 4 5; do
		on $i FLUSHALL >/dev/null # the record of --once lives for days
	done
}

# --- What cannot be ---

@test "shares, permits, --also, --priority and --wait-replicas are refused" {
	try dlock -s x true
	expect_failure 64 '--shared cannot be had from a quorum'
	try dlock --permits 3 x true
	expect_failure 64 '--permits cannot be had from a quorum'
	try dlock --priority 3 x true
	expect_failure 64 '--priority cannot be had from a quorum'
	try dlock --wait-replicas 1 x true
	expect_failure 64 '--wait-replicas cannot be had from a quorum'
	try dlock --also y x true
	expect_failure 64 '--also cannot be had from a quorum'
}

@test "fewer than three servers, one of them twice: 64" {
	try dlock -S "$(url 1 2)" x true
	expect_failure 64 'fewer than the three servers'
	try dlock -S "$(url 1 2 3)$(printf ',h%d' {1..62})" x true
	expect_failure 64 'more than 64 servers in the server URL'
	try dlock -S "$(url 1 2 1)" x true
	expect_failure 64 'named twice'
	# Its second name answers before a majority has promised.
	fake_server "delay-300:$(port_of 2)"
	try dlock -S "$(url 1),localhost:$(port_of 1),127.0.0.1:$(<"delay-300:$(port_of 2)/port")" x touch ran
	expect_failure 64 'is also one of the other servers .*: each may be listed once'
	refute_file ran
}

# Two names of one server are one vote: with its second name silent the other server decides.
@test "a server listed twice, and the other one dead: no lock, and none that is held is renewed" {
	local list
	list="$(url 1 2),localhost:$(port_of 1)"
	slay 2
	try dlock -w 2 -S "$list" x touch ran
	((status == 64 || status == 69)) || fail "status: $status"
	refute_file ran
	revive 2
	# Here the second name is too slow to be in the way of the grant.
	fake_server "delay-100:$(port_of 1)"
	begin_holder a x -t 2 -S "$(url 1 2),127.0.0.1:$(<"delay-100:$(port_of 1)/port")"
	slay 2
	finish a
	assert_equal "$status" 80
	revive 2
}

@test "an even number is advised against, and works" {
	try dlock -S "$(url 1 2 3 4)" x echo ran
	expect 0 ran "dlock: x: of the quorum's 4 servers only 1 may fail, as of 3; list an odd number"
	try dlock acquire -S "$(url 1 2 3 4)" x
	assert_equal "$status $err" "0 dlock: x: of the quorum's 4 servers only 1 may fail, as of 3; list an odd number"
	try dlock release -S "$(url 1 2 3 4)" x "${out% *}"
	assert_equal "$status" 0
}

@test "another number of servers than is on record: 78" {
	try dlock x true
	expect 0
	try dlock -S "$(url 1 2 3)" x touch ran
	expect_failure 78 'has a quorum of 5 servers on record for this lock'
	try dlock -S "redis://127.0.0.1:$(port_of 1)" x touch ran
	expect_failure 78 'has a quorum of 5 servers on record for this lock'
	refute_file ran
}

@test "a key of another type on one server does not count, on three it is 76; none is touched" {
	local i
	on 1 LPUSH lock:x theirs >/dev/null
	try dlock x true
	expect 0
	for i in 2 3; do
		on $i LPUSH lock:x theirs >/dev/null
	done
	try dlock x true
	expect_failure 76 "^dlock: x: 127[^ ]*: the key 'lock:x' holds other data than a lock and was left alone; use another NAME or --prefix"
	for i in 1 2 3; do
		assert_equal "$(on $i LRANGE lock:x 0 -1)" theirs
		on $i DEL lock:x >/dev/null
	done
}

# --- Servers that are none, and slow ones ---

@test "two of five are no Redis, in each way: the lock is granted all the same" {
	local mode
	for mode in silent garbage close close-late one-byte-and-close half ok error; do
		fake_server $mode
		try dlock -n -S "redis+quorum://127.0.0.1:$(<$mode/port),localhost:$(<$mode/port),$(url 3 4 5 | cut -c16-)" \
			x true
		expect 0
		assert_between "$took" 0 $((2000 * TEST_PATIENCE)) "ms beside $mode"
	done
}

@test "three of five are no Redis: 76" {
	fake_server garbage
	local port
	port=$(<garbage/port)
	try dlock -S "redis+quorum://127.0.0.1:$port,localhost:$port,[::ffff:127.0.0.1]:$port,$(url 4 5 | cut -c16-)" x true
	expect_failure 76 'does not speak the Redis protocol'
}

# When the first renewal came to a server, in ms: the first script is acquire, the second confirm.
renewed_at() { grep '"EVALSHA"' "monitor$1" | sed -n '3s/\([0-9]*\)\.\([0-9]\{3\}\).*/\1\2/p'; } # SERVER
is_renewed_on() { [[ -n $(renewed_at "$1") ]]; }
is_monitored() { file_has "monitor$1" OK; }

@test "renewing on five servers costs one round trip, at once with all" {
	local i servers='' first='' last=''
	try dlock x true # they know the scripts
	expect 0
	for i in 1 2 3 4 5; do
		fake_server "delay-300:$(port_of "$i")"
		servers+=,127.0.0.1:$(<"delay-300:$(port_of "$i")/port")
		start "monitor_of_$i" redis-cli -s "$(dir_of "$i")/socket" MONITOR
		ln -s "monitor_of_$i.out" "monitor$i"
		wait_until is_monitored "$i"
	done
	DLOCK_SERVER=redis+quorum://${servers:1}
	begin_holder a x -t 6
	for i in 1 2 3 4 5; do
		wait_until is_renewed_on "$i"
		first=$(printf '%s\n' $first "$(renewed_at "$i")" | sort -n | head -n 1)
		last=$(printf '%s\n' $last "$(renewed_at "$i")" | sort -n | tail -n 1)
	done
	let_go a
	expect 0
	# One after the other the last would be four round trips of 600 ms behind the first.
	assert_between $((last - first)) 0 $((300 * TEST_PATIENCE)) 'ms from the first to the last'
	for i in 1 2 3 4 5; do
		local pid=monitor_of_${i}_pid
		kill "${!pid}"
		finish "monitor_of_$i"
	done
}

@test "a server that is slower than twice the TTL: no late grant stays on it" {
	fake_server delay-2500:"$(port_of 1)"
	local slow
	slow=127.0.0.1:$(<"delay-2500:$(port_of 1)/port")
	export DLOCK_SERVER=redis+quorum://$slow,$(url 2 3 4 5 | cut -c16-)
	begin_holder a x -t 1.2
	try dlock -n x true
	assert_equal "$status" 1
	let_go a
	expect 0
	try dlock -n x true
	expect 0
	# What was written has come there, in order, though dlock has ended long ago.
	wait_until eval '[[ $(on 1 HGET "$(meta_of x)" ended | wc -w) == 3 ]]'
	stays 1000 is_free_on 1
}

@test "servers that have answered and closed cost no processor time while another is awaited" {
	fake_server error-and-close
	local port wall user system
	port=$(<error-and-close/port)
	freeze 1
	{
		TIMEFORMAT='%3R %3U %3S'
		time dlock -S "redis+quorum://127.0.0.1:$port,localhost:$port,$(url 1 | cut -c16-)" -w 2 x true 2>said || true
	} 2>spent
	thaw 1
	assert_match "$(<said)" 'gave an answer that makes no sense'
	read -r wall user system <spent
	assert_between "$(awk -v wall="$wall" -v busy="$user $system" \
		'BEGIN { split(busy, part, " "); print int(100 * (part[1] + part[2]) / wall) }')" 0 12 '% of its time'
}

@test "servers that refuse are believed: renew, release, --force and run say why and ask no more" {
	needs acl
	local i act token=here:7:00112233445566778899aabbccddeeff calls
	for i in 1 2 3 4 5; do
		on $i ACL SETUSER weak on nopass '~*' +ping >/dev/null
	done
	for act in "renew x $token" "release x $token" 'release --force x' '-w 5 x true'; do
		try dlock -S "${DLOCK_SERVER/:\/\//://weak:w@}" $act
		expect_failure 77 'does not give this user the rights'
		try dlock -S "$DLOCK_SERVER/99" $act
		expect_failure 64 'has no such database'
	done
	for i in 1 2 3 4 5; do
		calls=$(on $i INFO errorstats | sed -n 's/^errorstat_NOPERM:count=\([0-9]*\).*/\1/p')
		assert_between "$calls" 1 16 "refusals of server $i"
		on $i ACL DELUSER weak >/dev/null
	done
}
