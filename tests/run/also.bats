# --also: several locks, all or none.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

all_held() { [[ $(cli EXISTS "${@/#/lock:}") == "$#" ]]; }
none_held() { [[ $(cli EXISTS "${@/#/lock:}") == 0 ]]; }

@test "all are held while COMMAND runs, and all released" {
	start one dlock --also b --also 'a z' c sh -c 'until [ -e go ]; do sleep 0.02; done'
	wait_until all_held 'a z' b c
	local name
	for name in 'a z' b c; do
		try dlock -n "$name" true
		expect_failure 1 "held by $(hostname):$one_pid "
	done
	: >go
	finish one
	assert_equal "$status$err" 0
	none_held 'a z' b c
}

@test "DLOCK_FENCES has them in canonical order, DLOCK_NAME and DLOCK_FENCE are NAME's" {
	try dlock --also b --also 'a z' --also c --also b c sh -c 'echo "$DLOCK_FENCES"; echo "$DLOCK_NAME=$DLOCK_FENCE"'
	assert_match "$out" $'^a z=[0-9]+ b=[0-9]+ (c=[0-9]+)\n(.*)$'
	assert_equal "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
	try dlock c sh -c 'echo "$DLOCK_FENCES"'
	expect 0
}

@test "-n: one is busy, none is kept, and the message says which" {
	begin_holder one b
	try dlock -n --also a --also b --also z c touch ran
	expect_failure 1 "^dlock: c: busy: b is held by $(hostname):$one_pid "
	none_held a c z
	refute_file ran
	let_go one
}

@test "-w: those that were had meanwhile are released when it ends" {
	begin_holder one b
	try dlock -w 1 --also a --also b c touch ran
	expect_failure 1 'busy after 1s: b is held by'
	assert_between "$took" 1000 $((1500 * TEST_PATIENCE)) ms
	none_held a c
	refute_file ran
	let_go one
}

@test "a signal while it waits gives all back" {
	begin_holder one b
	start two dlock --also a --also b c touch ran
	wait_until queued b 1
	assert is_held a
	kill -TERM "$two_pid"
	finish two
	assert_equal "$status" 143
	none_held a c
	queued b 0
	let_go one
}

@test "a bad NAME is refused, --per-host goes for all" {
	try dlock --also '' x true
	expect_failure 64 'is empty'
	try dlock --also 'a://b' x true
	expect_failure 64 'URL'
	try dlock --per-host --also b a sh -c 'echo $DLOCK_FENCES'
	assert_match "$out" "^$(hostname)/a=[0-9]+ $(hostname)/b=[0-9]+$"
}

@test "those that are held are renewed while the next is waited for, and while COMMAND runs" {
	begin_holder one b -t $((60 * TEST_PATIENCE))
	start two dlock -t $((2 * TEST_PATIENCE)) --also a --also b c sh -c 'echo run; until [ -e end ]; do sleep 0.05; done'
	wait_until is_held a
	local token
	token=$(cli GET lock:a)
	stays $((4000 * TEST_PATIENCE)) owner_is a "$token"
	let_go one
	wait_until file_has two.out run
	stays $((2500 * TEST_PATIENCE)) all_held a b c
	touch end
	finish two
	assert_equal "$status$err" 0
}

@test "one is lost: COMMAND is stopped, the others are released" {
	start one dlock -t 3 --also b a witness count count
	wait_until file_has count '^ready'
	cli SET lock:b foreign PX 4000 >/dev/null
	finish one
	assert_equal "$status" 80
	none_held a
	assert_equal "$(cli GET lock:b)" foreign
	wait_until is_free b
}

@test "one is lost while the next is waited for: all is begun again" {
	begin_holder one b
	start two dlock -t 2 --also a b echo ran
	wait_until queued b 1
	cli SET lock:a foreign PX 1500 >/dev/null
	wait_until queued b 0
	wait_until queued b 1
	let_go one
	finish two
	expect 0 ran
}

@test "the server restarts empty: all are set again" {
	begin_holder one a --also b --also c
	local token
	token=$(cli GET lock:a)
	server_end "$SERVER"
	server_again "$SERVER"
	local name
	for name in a b c; do
		wait_until owner_is $name "$token"
	done
	let_go one
	assert_equal "$status" 0
	none_held a b c
}

@test "the front is killed, the keeper is killed: all are released" {
	begin_holder one a --also b --also c --grace 0.2
	kill -KILL $one_pid
	wait_until none_held a b c
	finish one
	rm one.count
	begin_holder one a --also b --also c
	kill -KILL $one_keeper
	finish one
	assert_equal "$status" 70
	none_held a b c
}

@test "in whatever order they are named, they never wait in a circle: 6 contenders on 3 locks" {
	cat >step <<-'END'
		#!/bin/bash
		for name in "$@"; do
			exec {fd}>"judge.$name"
			flock -n $fd || echo "overlap on $name" >>violations
		done
		echo . >>runs
	END
	chmod +x step
	cat >contender <<-'END'
		#!/bin/bash
		for i in {1..10}; do
			dlock --also "$2" --also "$3" "$1" ./step "$@" || echo "exit $?" >>violations
			dlock --also "$1" "$3" ./step "$1" "$3" || echo "exit $?" >>violations
		done
	END
	local i=0 order
	for order in 'a b c' 'a c b' 'b a c' 'b c a' 'c a b' 'c b a'; do
		start "c$((++i))" bash contender $order
	done
	for i in {1..6}; do
		wait_until -t 60 is_gone "$(eval echo "\$c${i}_pid")"
		finish "c$i"
		assert_equal "$status$err" 0
	done
	refute_file violations
	assert_equal "$(wc -l <runs)" 120
}

@test "inside: one that is held already is had, the others are taken" {
	try dlock a dlock -w 5 --also a b sh -c 'dlock -n a dlock -n b echo "$DLOCK_FENCES"'
	assert_match "$out" '^a=[0-9]+ b=[0-9]+$'
	assert_equal "$status$err" 0
	try dlock --also b a dlock -n b dlock -n a echo in
	expect 0 in
	none_held a b
}

@test "shared ones and permits" {
	begin_holder one a -s --also b
	try dlock -n -s --also b a echo shared
	expect 0 shared
	try dlock -n --also b c true
	expect_failure 1 'b is held by'
	let_go one
}

@test "dead waiters in a row for one of them are passed over when it is released" {
	begin_holder one a --also b
	local i began
	for i in 1 2 3 4; do
		start "w$i" dlock b echo had
		wait_until queued b $i
		wait_until is_quiet $(processes_of "$pid")
	done
	signal_waiters KILL $w1_pid $w2_pid $w3_pid
	began=$(now_ms)
	let_go one
	finish w4
	expect 0 had
	assert_between $(($(now_ms) - began)) 0 $((6000 * TEST_PATIENCE)) ms
	cli FLUSHALL >/dev/null # what the dead left ends with their leases
}

# ---- The front is killed before the grant ------------------------------------------------------------

# What a set that waits or asks for them leaves of these locks: nothing.
nothing_left() {
	local name
	none_held "$@" || return 1
	for name; do
		queued "$name" 0 || return 1
	done
}

# waits NAME: in the background, a dlock that has a and waits for b, which `one` holds; sets NAME_keeper.
waits() {
	start "$1" dlock --also a --also b c touch ran
	wait_until queued b 1
	declare -g "$1_keeper=$(pgrep -P "$pid" -x dlock)"
}

@test "the front is killed while it has one and waits for the next: both free within a second" {
	begin_holder one b
	waits two
	kill -KILL "$two_pid"
	wait_until -t 1 nothing_left a c
	wait_until -t 1 queued b 0
	wait_until is_gone "$two_keeper"
	assert is_held b
	refute_file ran
	let_go one
}

@test "the keeper is killed while it has one and waits for the next: both free within a second" {
	begin_holder one b
	waits two
	kill -KILL "$two_keeper"
	finish two
	assert_equal "$status" 70
	assert_match "$err" "^dlock: c: dlock's keeper was killed$"
	assert nothing_left a c
	assert queued b 0
	assert is_held b
	refute_file ran
	let_go one
}

@test "one of them was lost: begun anew with one token for all, which the front knows" {
	begin_holder one b
	start two dlock -t $((2 * TEST_PATIENCE)) --also a b sh -c 'echo run; until [ -e go ]; do sleep 0.02; done'
	wait_until queued b 1
	cli SET lock:a foreign PX $((1500 * TEST_PATIENCE)) >/dev/null
	wait_until queued b 0
	wait_until queued b 1
	kill -KILL "$(keeper_of "$two_pid")"
	finish two
	assert_equal "$status" 70
	wait_until -t 1 none_held a
	wait_until -t 1 queued b 0

	start two dlock -t $((2 * TEST_PATIENCE)) --also a b sh -c 'echo run; until [ -e go ]; do sleep 0.02; done'
	wait_until queued b 1
	cli SET lock:a foreign PX $((1500 * TEST_PATIENCE)) >/dev/null
	wait_until queued b 0
	wait_until queued b 1
	let_go one
	wait_until file_has two.out run
	assert_equal "$(cli GET lock:a)" "$(cli GET lock:b)" 'their tokens'
	: >go
	finish two
	assert_equal "$status" 0
}

@test "the front is killed after the grant: nothing is released before COMMAND has ended" {
	start two dlock --grace 2 --also a b witness count "$BATS_TEST_TMPDIR/two.count"
	wait_until file_has two.count '^ready'
	kill -KILL "$two_pid"
	stays 1500 all_held a b
	wait_until none_held a b
	wait_until is_gone "$(sed -n 's/^ready //p' two.count)"
}

# killed_after US: kills the front that long after its start; all must be free within a second. Another's
# lock, in `other`, is not.
killed_after() {
	local names=(a b c)
	start two dlock --also a --also b c sleep 60
	sleep "$(printf '0.%06d' "$1")"
	kill -KILL "$two_pid"
	wait "$two_pid" || true
	[[ -z ${other:-} ]] || names=(a c)
	wait_until -t 1 nothing_left "${names[@]}" || fail "killed after $1 us"
	[[ -z ${other:-} ]] || wait_until -t 1 queued b 0 || fail "killed after $1 us"
	wait_until nothing_runs_but "${other:-}" || fail "killed after $1 us"
}

nothing_runs_but() { [[ -z $(grep -vxF "$(printf '%s\n' $1)" <<<"$(marked_pids)") ]]; }

# Answers come late, so that the moments are spread over the requests.
@test "the front is killed at any moment: 20 times while it asks, up to the grant and after it" {
	proxy "$SERVER/socket" 0.01
	local i
	for i in {1..20}; do
		DLOCK_SERVER=unix://$PWD/proxy.socket killed_after $((RANDOM % 80 * 1000 + RANDOM % 1000))
	done
}

@test "the front is killed at any moment: 15 times while it waits" {
	local i other
	begin_holder one b
	other="$one_pid $one_keeper $one_command"
	for i in {1..15}; do
		killed_after $((RANDOM % 60 * 1000 + RANDOM % 1000))
	done
	let_go one
}

@test "the front is killed at any moment: 15 times as it is handed what it waits for" {
	proxy "$SERVER/socket" 0.005
	local i
	for i in {1..15}; do
		rm -f one.count
		begin_holder one b
		DLOCK_SERVER=unix://$PWD/proxy.socket start two dlock --also a --also b c sleep 60
		wait_until queued b 1
		kill -RTMIN "$one_command"
		sleep "$(printf '0.%06d' $((RANDOM % 50 * 1000 + RANDOM % 1000)))"
		kill -KILL "$two_pid"
		wait "$two_pid" || true
		finish one
		wait_until -t 1 nothing_left a b c || fail "in try $i"
		wait_until nothing_runs
	done
}

@test "the keeper is killed at any moment: 20 times while it asks, up to the grant and after it" {
	proxy "$SERVER/socket" 0.01
	local i keeper
	for i in {1..20}; do
		DLOCK_SERVER=unix://$PWD/proxy.socket start two dlock --also a --also b c sleep 60
		wait_until eval 'keeper=$(pgrep -P "$two_pid" -x dlock)'
		sleep "$(printf '0.%06d' $((RANDOM % 80 * 1000 + RANDOM % 1000)))"
		kill -KILL "$keeper"
		finish two
		assert_equal "$status" 70
		assert nothing_left a b c || fail "in try $i"
		wait_until nothing_runs
	done
}

@test "the process group of a waiter is stopped, continued, interrupted: nothing is left" {
	begin_holder one b
	waits two
	kill -STOP -- "-$two_pid"
	wait_until eval 'is_stopped "$two_pid" && is_stopped "$two_keeper"'
	kill -CONT -- "-$two_pid"
	kill -INT -- "-$two_pid"
	finish two
	assert_equal "$status" 130
	assert nothing_left a c
	wait_until is_gone "$two_keeper"
	let_go one
}

@test "no keeper can be forked: 71, and nothing was asked for" {
	unleaked try strace -o /dev/null -e trace=clone,clone3,fork,vfork \
		-e inject=clone,clone3,fork:error=EAGAIN:when=1 \
		dlock --also a b touch ran
	assert_equal "$status" 71
	assert_match "$err" '^dlock: b: cannot fork: Resource temporarily unavailable$'
	refute_file ran
	assert_equal "$(cli DBSIZE)" 0
}

# ---- In how many round trips -------------------------------------------------------------------------

# many COUNT: the options for that many locks beside NAME, in `also`.
many() {
	local i
	also=()
	for ((i = 1; i <= $1; i++)); do
		also+=(--also "$(printf 'n%03d' "$i")")
	done
}

# over_one_connection LOCKS: what was said through the proxy is a round trip for each lock to take it, one
# to give it back, and nothing else.
over_one_connection() {
	assert_equal "$(turns)" "connect$(printf ' > <%.0s' $(seq $(($1 * 2)))) end"
}

@test "40 free ones: one connection, one round trip to take each, one to give it back" {
	local also
	many 39
	dlock x true
	proxy "$SERVER/socket"
	try dlock -S "unix://$PWD/proxy.socket" "${also[@]}" x sh -c 'set -- $DLOCK_FENCES; echo $#'
	expect 0 40
	over_one_connection 40
	none_held x n001 n020 n039
}

@test "-n: those before a busy one are given back before it ends, if answers are late" {
	local also
	many 4
	begin_holder one n004
	proxy "$SERVER/socket" 0.03
	try dlock -n -S "unix://$PWD/proxy.socket" "${also[@]}" x true
	expect_failure 1 'busy: n004 is held by'
	none_held x n00{1..3}
	let_go one
	finish one
}

@test "busy ones are waited for over one connection; those behind are left alone till then" {
	local also
	many 40
	dlock "${also[@]}" x true
	cli FLUSHALL >/dev/null
	begin_holder one n010
	begin_holder two n030
	try dlock -n "${also[@]}" x true
	expect_failure 1 'busy: n010 is held by'
	assert_equal "$(cli --raw KEYS '*n01[1-9]*' | wc -w)" 0 'keys of those behind'
	proxy "$SERVER/socket"
	start set dlock -S "unix://$PWD/proxy.socket" "${also[@]}" x sh -c 'set -- $DLOCK_FENCES; echo $#'
	wait_until queued n010 1
	all_held n00{1..9}
	assert_equal "$(cli --raw KEYS '*n01[1-9]*' | wc -w)" 0 'keys of those behind'
	let_go one
	wait_until queued n030 1
	all_held n0{10..29}
	assert_equal "$(cli --raw KEYS '*n03[1-9]*' | wc -w)" 0 'keys of those behind'
	let_go two
	finish set
	expect 0 41
	turns >/dev/null
	assert_equal "$(grep -c connect turns)" 1
}

@test "a server that has forgotten the scripts costs one round trip more for each of the two" {
	proxy "$SERVER/socket"
	cli SCRIPT FLUSH >/dev/null
	try dlock -S "unix://$PWD/proxy.socket" --also a --also b c true
	expect 0
	assert_equal "$(turns)" 'connect > < > < > < > < > < > < > < > < end'
}

renewed() { (($(grep -c '<' turns) >= $1)); } # TURNS

@test "all are renewed over the one connection" {
	local also name
	many 40
	proxy "$SERVER/socket"
	start set dlock -S "unix://$PWD/proxy.socket" -t "$((3 * TEST_PATIENCE))" "${also[@]}" x sh -c \
		'echo run; until [ -e go ]; do sleep 0.02; done'
	wait_until file_has set.out run
	for name in x n001 n040; do
		cli PEXPIRE "lock:$name" "$((2900 * TEST_PATIENCE))" >/dev/null
	done
	local before
	before=$(grep -c '<' turns)
	wait_until renewed $((before + 2 * 41))
	all_held x n001 n020 n040
	: >go
	finish set
	assert_equal "$status$err" 0
	turns >/dev/null
	assert_equal "$(grep -c connect turns)" 1
}

# Together they take longer than one may: 5.5 s to take (a server has 5 s for its first answer), to renew (3 s
# for a try) and to give back (2 s).
@test "110 over a link of 50 ms: each has the time of one to be taken, renewed, given back" {
	local also
	many 109
	dlock "${also[@]}" x true
	proxy "$SERVER/socket" 0.05
	start set dlock -n -S "unix://$PWD/proxy.socket" -t "$((27 * TEST_PATIENCE))" "${also[@]}" x sh -c \
		'set -- $DLOCK_FENCES; echo $#; until [ -e go ]; do sleep 0.02; done'
	wait_until -t 30 file_has set.out 110
	wait_until -t 30 renewed $((3 * 110))
	: >go
	finish set
	expect 0 110
	none_held x n001 n050 n109
}

@test "the server stands still at the release of 20: it is waited for about as for one" {
	local also
	many 19
	start set dlock "${also[@]}" x sh -c 'echo run; until [ -e go ]; do sleep 0.02; done'
	wait_until file_has set.out run
	server_stop
	: >go
	finish set # 2 s for one, and 100 ms for each of the rest; not 2 s for each
	kill -CONT "$(server_pid)"
	expect 0 run "$err"
	assert_match "$err" '^dlock: x: could not release the lock'
	cli FLUSHALL >/dev/null
}

# commands COUNT: how many a set of so many costs the server, those inside the scripts included.
commands() {
	local also
	many $(($1 - 1))
	dlock "${also[@]}" x true
	cli CONFIG RESETSTAT >/dev/null
	dlock "${also[@]}" x true
	cli INFO commandstats | sed -n 's/^cmdstat_.*:calls=\([0-9]*\),.*/\1/p' | paste -sd+ | bc
}

@test "what it costs the server grows with their number, no faster" {
	local few many
	few=$(commands 20)
	many=$(commands 200)
	assert_between "$many" $((few * 8)) $((few * 11)) "commands for 200; $few for 20"
}

@test "the answer does not come in time: nothing is left" {
	dlock --also a --also b c true
	hole far
	echo down=0 >far.rules
	start set dlock -S "unix://$PWD/far.socket" -w $((2 * TEST_PATIENCE)) --also a --also b c touch ran
	wait_until all_held a
	finish set
	refute_match "$status" '^0$'
	wait_until nothing_left a b c
	refute_file ran
}

@test "the answer for the second comes after the end of -w: 69, and nobody is said to hold it" {
	dlock --also y x true # so that the server knows the scripts
	proxy "$SERVER/socket" 0.5
	try dlock -S "unix://$PWD/proxy.socket" -w 0.8 --also y x touch ran
	assert_equal "$status" 69
	assert_match "${err##*$'\n'}" '(does not answer|no answer from the server)'
	refute_match "$err" 'busy|ahead'
	refute_file ran
	wait_until nothing_left x y
}

@test "the answer is lost with the connection: the grant is found, all go on with one token" {
	dlock --also a --also b c true
	hole far
	echo down=0 >far.rules
	cli FLUSHALL >/dev/null
	start set dlock -S "unix://$PWD/far.socket" --also a --also b c sh -c 'echo run; until [ -e go ]; do sleep 0.02; done'
	wait_until all_held a
	local token
	token=$(cli GET lock:a)
	rm far.rules
	cli CLIENT KILL TYPE normal SKIPME yes >/dev/null
	wait_until file_has set.out run
	assert_equal "$(cli MGET lock:a lock:b lock:c | sort -u)" "$token"
	: >go
	finish set
	assert_equal "$status$err" 0
	none_held a b c
}

@test "a key of another type among them: 76, and nothing is left" {
	cli RPUSH lock:b foreign >/dev/null
	try dlock --also a --also b c touch ran
	expect_failure 76 "the key 'lock:b' holds other data than a lock"
	none_held a c
	refute_file ran
	cli DEL lock:b >/dev/null
}

@test "--cooldown asks for the success of NAME, not of the others" {
	dlock b true
	try dlock --cooldown 1h --also b a echo ran
	expect 0 ran
	try dlock --cooldown 1h --also b a echo ran
	expect 0
	none_held a b
}
