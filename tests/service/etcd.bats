# Attacks on locks in etcd, beside service/conformance.bats.

load ../lib/helper
load ../lib/work
load ../lib/authority
load ../lib/contenders
load ../lib/etcd
load ../lib/network

setup_file() {
	programs_begin
	[[ -z ${ETCD_SOAK_GRANTS:-} ]] || export BATS_TEST_TIMEOUT=3600
	make_authority
	make_usual_certificates
	etcd_begin one
}

teardown_file() { etcd_end one; }

setup() {
	environment_begin
	etcd_ctl one del --from-key '' >/dev/null
	export DLOCK_SERVER
	DLOCK_SERVER=$(etcd_url one)
	write_work
	of_build etcd
}

teardown() {
	[[ -z ${extra:-} ]] || etcd_end $extra
	[[ -z ${world_pid:-} ]] || world_end 1 2 3
	environment_end nothing_is_left
}

nothing_is_left() { [[ -z $(etcd_ctl one get --from-key '' --keys-only) ]]; }

# own_cluster NAME...: it ends with the test.
own_cluster() {
	extra=$*
	etcd_begin "$@"
	DLOCK_SERVER=$(etcd_url "$@")
}

# leader_first NAME...: dlock asks $leader first, which leads them.
leader_first() {
	local name
	leader=$(etcd_leader "$@")
	set -- "$leader" $(for name; do [[ $name == "$leader" ]] || echo "$name"; done)
	DLOCK_SERVER=$(etcd_url "$@")
}

# Revokes the lease of the first in the queue, whose key ends with it. A renewal may move the key to
# another lease meanwhile: then that one is revoked.
revoke_of() { # LOCK
	local first key lease
	key_of_first() {
		# Without the order etcd would sort no more than it has read, which is the limit.
		first=$(etcd_ctl one get --prefix "lock:$1/" --sort-by=CREATE --order=ASCEND --limit=1 -w json)
		key=$(sed 's/.*"create_revision":\([0-9]*\).*/\1/' <<<"$first")
	}
	key_of_first "$1"
	local doomed=$key
	while [[ $key == "$doomed" ]]; do
		lease=$(sed 's/.*"lease":\([0-9]*\).*/\1/' <<<"$first")
		etcd_ctl one lease revoke "$(printf %x "$lease")" >/dev/null || true
		key_of_first "$1"
	done
}

fence_of() { tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^DLOCK_FENCE=//p'; } # PID

# --- Loss ---

@test "the lease is revoked by hand: COMMAND is stopped at once, 80, before a newcomer begins" {
	holder a x
	# The watch is there by then.
	stays 300 is_alive "$a_command"
	revoke_of x
	wait_until is_gone "$a_command"
	start b dlock x ./work b
	finish a
	expect_failure 80 'the lock was lost'
	wait_until has_begun b
	after a b 2000
	ends b
	expect 0
}

# stubborn NAME LOCK [OPTION]...: a holder whose COMMAND ends when it is killed, no sooner.
stubborn() {
	start "$1" dlock "${@:3}" "$2" sh -c 'trap "" TERM; exec ./work "$0"' "$1"
	wait_until has_begun "$1"
}

@test "the lease is revoked by hand: who waits has the lock at once, while COMMAND is stopped" {
	stubborn a x -t 60s
	waiter b x -w 40
	waiter c x -w 40
	revoke_of x
	wait_until has_begun b
	finish a
	expect_failure 80 'the lock was lost'
	ends b
	assert_equal "$status" 0
	ends c
	assert_equal "$status" 0
	after b c
}

@test "all of a holder is killed: a waiter, early or late, has the lock when its lease ended" {
	local late ttl
	for late in 0 2000; do
		rm -f ./*.go spans
		ttl=$((8000 + late * 4))	# the late one has to be there before the lease ends
		holder a x -t "${ttl}ms"
		((late > 0)) || waiter b x
		kill -KILL "$a_keeper" "$a_pid" "$a_command"
		wait_until is_gone "$a_command"
		stays "$late" is_gone "$a_command"
		((late == 0)) || waiter b x
		ends b
		assert_equal "$status" 0
		after a b $((ttl + 2000))
		finish a
	done
}

@test "the own key is removed by hand, or overwritten: COMMAND is stopped at once, 80" {
	local key how began
	for how in del put; do
		rm -f a.go spans
		holder a x
		stays 300 is_alive "$a_command"
		key=$(etcd_ctl one get --prefix lock:x/ --keys-only | grep .)
		began=$(now_ms)
		if [[ $how == put ]]; then
			etcd_ctl one put "$key" thief >/dev/null
		else
			etcd_ctl one del "$key" >/dev/null
		fi
		finish a
		expect_failure 80 'the lock was lost'
		assert_between $(($(now_ms) - began)) 0 $((3000 * TEST_PATIENCE)) 'ms until it was stopped'
		[[ $how == del ]] || assert_equal "$(etcd_ctl one get --print-value-only "$key")" thief
		etcd_ctl one del "$key" >/dev/null
	done
}

@test "its lease is gone when it renews: not set again, 80" {
	holder a x -t 6s
	kill -STOP "$a_keeper"
	revoke_of x
	kill -CONT "$a_keeper"
	finish a
	expect_failure 80 'the lock was lost'
}

@test "a TTL that is no whole number of seconds is rounded up, and told with -v" {
	try dlock -v -t 2500ms x true
	assert_equal "$status" 0
	assert_match "$err" 'granted with a TTL of 3s'
	try dlock acquire -v -t 2500ms x
	assert_match "$err" 'granted with a TTL of 3s'
	dlock release x "${out% *}"
}

# --- Others ---

@test "etcdctl lock between two dlocks: by arrival, and fencing tokens rise over its revision" {
	holder a x
	start ctl env ETCDCTL_API=3 etcdctl --endpoints "127.0.0.1:$(etcd_port one)" lock lock:x -- \
		sh -c 'echo $ETCD_LOCK_REV; exec ./work ctl'
	wait_until eval '[[ $(etcd_ctl one get --prefix lock:x/ --keys-only | grep -c .) == 2 ]]'
	waiter b x
	local first second third
	first=$(fence_of "$a_command")
	ends a
	expect 0
	wait_until has_begun ctl
	stays 300 is_alive "$b_pid"
	refute has_begun b
	assert_equal "$(dlock status --json x | jq -r '.[0].mode')" foreign
	ends ctl
	assert_equal "$status" 0
	second=$out
	wait_until has_begun b
	third=$(fence_of "$(<b.pid)")
	((first < second && second < third)) || fail "fencing tokens $first $second $third"
	ends b
	expect 0
	after a ctl
	after ctl b
}

@test "etcdctl lock waits: it is shown, and counted by those behind it" {
	holder a x
	start ctl env ETCDCTL_API=3 etcdctl --endpoints "127.0.0.1:$(etcd_port one)" lock lock:x -- true
	wait_until waits x 1
	waiter b x -v
	wait_until file_has b.err 'waiting, ' # it has its first answer
	assert_match "$(<b.err)" 'waiting, 1 ahead'
	assert_between "$(dlock status --json x | jq '.[0].waiters[0].waited_ms')" 0 $((30000 * TEST_PATIENCE)) 'ms, as shown'
	ends a
	expect 0
	finish ctl
	ends b
	assert_equal "$status" 0
}

@test "permits: one that asks for more does not pass one that waits for fewer" {
	permits_in_order
}

@test "permits: a holder behind counts too, as an older dlock may have let it pass" {
	local value
	holder a x --permits 3
	waiter b x --permits 1
	value=$(etcd_ctl one get --prefix lock:x/ --sort-by=CREATE --order=ASCEND --limit=1 --print-value-only)
	etcd_ctl one put lock:x/older "$value" >/dev/null
	ends a
	expect 0
	stays 1000 refute has_begun b
	etcd_ctl one put lock:x/older "${value/holding/released}" >/dev/null
	wait_until has_begun b
	etcd_ctl one del lock:x/older >/dev/null
	ends b
	expect 0
}

@test "release --force breaks 150 holders, and none whose turn comes meanwhile" {
	local key value number
	holder a x --permits 150
	key=$(etcd_ctl one get --prefix lock:x/ --sort-by=CREATE --order=ASCEND --limit=1 -w json)
	value=$(jq .kvs[0].value <<<"$key")
	# As many more as an older dlock, say, has let in.
	for number in {1..149}; do
		jq -cn "{key: \"lock:x/older$number\" | @base64, value: $value}"
	done >puts
	while read -r key; do
		curl -sf -d "$key" "http://127.0.0.1:$(etcd_port one)/v3/kv/put" >/dev/null
	done <puts
	waiter b x --permits 100 # its turn comes in the midst
	assert_equal "$(dlock status --json x | jq '.[0].holders | length')" 150
	try dlock release --force x
	assert_equal "$status" 0
	assert_equal "$(grep -c 'held by' <<<"$out$err")" 150
	finish a
	assert_equal "$status" 80
	wait_until has_begun b
	assert_equal "$(etcd_ctl one get --prefix lock:x/ --keys-only | grep -c .)" 1
	ends b
	expect 0
}

@test "a killed etcdctl lock is waited for until its lease ends" {
	start ctl env ETCDCTL_API=3 etcdctl --endpoints "127.0.0.1:$(etcd_port one)" lock --ttl 3 lock:x -- ./work ctl
	wait_until has_begun ctl
	try dlock -n x true
	expect_failure 1 'held by another etcd client, for [0-9.]+s more at most'
	kill -KILL "$ctl_pid" "$(<ctl.pid)"
	try dlock -w 30 x echo had
	expect 0 had
	finish ctl
}

@test "an idle waiter sends nothing but what keeps its place" {
	holder a x
	waiter b x
	calls() {
		curl -s "http://127.0.0.1:$(etcd_port one)/metrics" |
			sed -n 's/^grpc_server_started_total{grpc_method="\([A-Za-z]*\)".* /\1 /p' | sort
	}
	stays 1500 is_alive "$b_pid"
	calls >before
	stays 4000 is_alive "$b_pid"
	calls >after
	assert_equal "$(diff before after | sed -n 's/^> \([A-Za-z]*\) .*/\1/p' | tr '\n' ' ')" 'LeaseKeepAlive '
	: >b.go
	ends a
	expect 0
	finish b
	expect 0
}

@test "compaction under a watch: the waiter is woken all the same" {
	holder a x
	waiter b x
	local i revision
	for i in 1 2 3; do
		etcd_ctl one put other $i >/dev/null
	done
	revision=$(etcd_ctl one get other -w json | jq .header.revision)
	etcd_ctl one compact --physical "$revision" >/dev/null
	signal_waiters STOP "$b_pid"
	ends a
	expect 0
	etcd_ctl one put other 4 >/dev/null
	etcd_ctl one compact "$(etcd_ctl one get other -w json | jq .header.revision)" >/dev/null
	signal_waiters CONT "$b_pid"
	ends b
	expect 0
	after a b
	etcd_ctl one del other >/dev/null
}

@test "a waiter cut off, the release before it compacted away: it waits for no whole TTL" {
	local port revision
	port=$(free_port)
	passes() {
		service "$BATS_TEST_DIRNAME/../programs/hole.py" "$port" "$(etcd_port one)" "$PWD/none" "$PWD/counts"
		wait_until is_served "$port"
	}
	passes
	holder a x -t 10m
	DLOCK_SERVER=etcd://127.0.0.1:$port
	waiter b x -v
	DLOCK_SERVER=$(etcd_url one)
	wait_until file_has b.err 'waiting, ' # it has its first answer
	signal_waiters STOP "$b_pid"
	end_remembered "$last_service"
	ends a
	expect 0
	revision=$(etcd_ctl one put other 1 -w json | jq .header.revision)
	etcd_ctl one compact --physical "$revision" >/dev/null
	passes
	signal_waiters CONT "$b_pid"
	wait_until -t 60 has_begun b
	ends b
	assert_equal "$status" 0
	etcd_ctl one del other >/dev/null
}

@test "-n, its grant is lost, the server away for 0.4 s: it is taken back, not left for the TTL" {
	local port
	port=$(free_port)
	service "$BATS_TEST_DIRNAME/../programs/cutter.py" "$port" "$(etcd_port one)" responses 0.4
	wait_until is_served "$port"
	try dlock -S "etcd://127.0.0.1:$port" -n x touch ran
	assert_equal "$status" 69 "$err"
	wait_until -t 6 has_no_keys
	refute_file ran
}

@test "-n, its grant is lost and the server stays away: --at-least does not count" {
	through_cutter responses 60
	try dlock -n -t 5s --at-least 1h x touch ran
	DLOCK_SERVER=$(etcd_url one)
	expect_failure 69 'if the lock was granted all the same, it frees itself within 5s$'
	refute has_no_keys
	wait_until -t 15 has_no_keys
	refute_file ran
}

has_no_keys() { [[ -z $(etcd_ctl one get --prefix lock:x/ --keys-only) ]]; }

@test "a signal in the midst of a request: what came of that is taken back at once" {
	local port held
	keys() { etcd_ctl one get --prefix lock:x/ --keys-only | grep -c . || true; }
	for held in 0 1; do
		((held == 0)) || holder h x
		port=$(free_port)
		service "$BATS_TEST_DIRNAME/../programs/cutter.py" "$port" "$(etcd_port one)" responses silent
		wait_until is_served "$port"
		start a dlock -S "etcd://127.0.0.1:$port" x touch ran
		wait_until eval '[[ $(keys) == $((held + 1)) ]]' # its key is there, and it does not know so
		kill -TERM "$a_pid"
		finish a
		assert_equal "$status" 143
		assert_equal "$(keys)" "$held"
	done
	refute_file ran
	ends h
	expect 0
}

# through_cutter WORD...: dlock's way to the server leads through programs/cutter.py.
through_cutter() {
	local port
	port=$(free_port)
	service "$BATS_TEST_DIRNAME/../programs/cutter.py" "$port" "$(etcd_port one)" "$@"
	wait_until is_served "$port"
	DLOCK_SERVER=etcd://127.0.0.1:$port
}

# What a transaction is answered that has written one key and read nothing: a waiter's claim.
CLAIM='"}}}]}'

holders() { dlock -S "$(etcd_url one)" status --json "$1" | jq '.[0].holders | length'; } # LOCK

@test "a signal as a claim is answered: given back as a release, the next has it at once" {
	holder a x
	through_cutter "$CLAIM" silent
	waiter b x
	DLOCK_SERVER=$(etcd_url one)
	waiter c x
	: >a.go
	wait_until eval '[[ $(holders x) == 1 ]] && waits x 1' # b has it, and does not know so
	finish a
	kill -TERM "$b_pid"
	finish b
	assert_equal "$status" 143
	wait_until has_begun c
	ends c
	expect 0
}

@test "killed: what --also has and waits for is given back as by a release" {
	holder a y
	start b dlock --also y x touch ran
	wait_until waits y 1
	waiter c x
	waiter d y
	kill -KILL "$(keeper_of "$b_pid")"
	wait_until has_begun c
	ends a
	expect 0
	wait_until has_begun d
	ends c
	expect 0
	ends d
	expect 0
	finish b
	refute_file ran
}

@test "killed: the keeper of one that had waited: the next has the lock at once for all its lease" {
	holder a x
	waiter b x
	ends a
	expect 0
	wait_until has_begun b
	waiter c x
	kill -KILL "$(keeper_of "$b_pid")"
	wait_until has_begun c
	ends c
	expect 0
	finish b
	assert_equal "$status" 70
}

@test "answers come late: COMMAND goes on if in time, else is dead before another begins" {
	local port
	port=$(free_port)
	service "$BATS_TEST_DIRNAME/../programs/hole.py" "$port" "$(etcd_port one)" "$PWD/hole.rules" "$PWD/counts"
	wait_until is_served "$port"
	echo late=300 >hole.rules
	holder a x -S "etcd://127.0.0.1:$port" -t 8s
	stays 6000 is_alive "$a_command"
	waiter b x
	echo late=20000 >hole.rules.new
	mv hole.rules.new hole.rules
	finish a
	assert_equal "$status" 80
	assert_match "$err" 'cannot be proved any longer'
	ends b
	expect 0
	after a b
}

# --- Clusters ---

@test "the leader of three is killed: COMMAND goes on, and the waiter has its turn" {
	own_cluster a b c
	leader_first a b c
	holder h x -t 8s
	waiter w x
	etcd_kill "$leader"
	stays 10000 is_alive "$h_command"
	: >w.go
	ends h
	assert_equal "$status" 0
	finish w
	assert_equal "$status" 0
	after h w
	DLOCK_SERVER=$(etcd_url one)
}

@test "the leader of three stands still: COMMAND goes on; the old leader is no help to another" {
	own_cluster a b c
	leader_first a b c
	holder h x -t 8s
	waiter w x
	halt "$(etcd_pid "$leader")"
	stays 10000 is_alive "$h_command"
	kill -CONT "$(etcd_pid "$leader")"
	refute has_begun w
	: >w.go
	ends h
	assert_equal "$status" 0
	finish w
	assert_equal "$status" 0
	after h w
	DLOCK_SERVER=$(etcd_url one)
}

# net_begin: three members in networks of their own; $leader leads them, and dlock asks it first. lead: the words
# before a command that is to run in its network.
net_begin() {
	local i others='' options
	world_begin
	for i in 1 2 3; do
		options=(--name "$i" --data-dir "$PWD/net$i" --logger zap --log-level error
			--listen-client-urls "http://$NET.$i:2379" --advertise-client-urls "http://$NET.$i:2379"
			--listen-peer-urls "http://$NET.$i:2380" --initial-advertise-peer-urls "http://$NET.$i:2380"
			--initial-cluster "1=http://$NET.1:2380,2=http://$NET.2:2380,3=http://$NET.3:2380")
		world_start $i etcd "${options[@]}"
	done
	wait_until leads
	for i in 1 2 3; do
		((i == leader)) || others+=,$NET.$i
	done
	DLOCK_SERVER=etcd://$NET.$leader$others
	local pid=server${leader}_pid
	in_net "${!pid}"
	lead=("${inside[@]}")
}

# cut_off [del]: the leader from the other members, or no longer.
cut_off() {
	local i
	for i in 1 2 3; do
		((i == leader)) || "${lead[@]}" ip route "${1:-add}" blackhole "$NET.$i"
	done
}

# What etcdctl knows of that member.
status_of() { # I FIELD
	ETCDCTL_API=3 timeout 3 "${world[@]}" etcdctl --endpoints "$NET.$1:2379" --dial-timeout=1s --command-timeout=1s \
		endpoint status -w json 2>/dev/null | jq -e ".[0].Status | $2"
}

leads() { # sets leader
	for leader in 1 2 3; do
		! status_of $leader '.leader == .header.member_id' >/dev/null || return 0
	done
	return 1
}

@test "the leader of three is cut off from the others only: COMMAND goes on; it helps no other" {
	local leader lead
	net_begin
	holder h x -t 8s
	waiter w x
	cut_off
	stays 10000 is_alive "$h_command"
	# It still answers its clients, and leads nobody any longer.
	status_of $leader '.leader == .header.member_id | not' >/dev/null
	# Another that knows no other member gets no lock from it.
	try dlock -S "etcd://$NET.$leader" -n y touch ran
	assert_equal "$status" 69
	refute_file ran
	refute has_begun w
	cut_off del
	: >w.go
	ends h
	assert_equal "$status" 0
	finish w
	assert_equal "$status" 0
	after h w
	DLOCK_SERVER=$(etcd_url one)
}

@test "a holder knows only the leader, which is cut off: COMMAND dies before another begins" {
	local leader lead all
	net_begin
	all=$DLOCK_SERVER
	DLOCK_SERVER=etcd://$NET.$leader
	holder h x -t 4s
	DLOCK_SERVER=$all
	waiter w x
	cut_off
	finish h
	assert_equal "$status" 80
	assert_match "$err" 'cannot be proved any longer'
	wait_until -t 30 has_begun w
	ends w
	assert_equal "$status" 0
	after h w
	DLOCK_SERVER=$(etcd_url one)
}

@test "only a minority is left: stopped in time, 80, and no other begins" {
	own_cluster a b c
	holder h x -t 3s
	waiter w x
	halt "$(etcd_pid a)" "$(etcd_pid b)"
	finish h
	assert_equal "$status" 80
	assert_match "$err" 'cannot be proved any longer'
	refute has_begun w
	kill -CONT "$(etcd_pid a)" "$(etcd_pid b)"
	ends w
	assert_equal "$status" 0
	after h w
	DLOCK_SERVER=$(etcd_url one)
}

# ETCD_SOAK_GRANTS=3000 for a long one. flock(2) is the judge.
@test "soak: eight contenders while leader after leader is killed: no overlap, no stale token" {
	own_cluster a b c
	cat >judged <<-'END'
		#!/bin/bash
		exec 9>>judge
		flock -n 9 || echo overlap >>overlaps
		read -r last <last
		((DLOCK_FENCE > last)) || echo "$DLOCK_FENCE after $last" >>stale
		echo "$DLOCK_FENCE" >last
		echo >>grants
	END
	cat >contend <<-'END'
		#!/bin/bash
		until [[ $(wc -l <grants) -ge $1 ]]; do
			dlock -q -w 60 -t 3s x ./judged || echo $? >>codes
		done
	END
	chmod +x judged contend
	echo 0 >last
	: >grants
	local grants=${ETCD_SOAK_GRANTS:-150} name leader kills=0
	for name in 1 2 3 4 5 6 7 8; do
		start c$name ./contend "$grants"
	done
	while [[ $(wc -l <grants) -lt $grants ]]; do
		leader=$(etcd_leader a b c) || continue
		etcd_kill "$leader"
		((++kills))
		stays 2000 true
		etcd_again "$leader"
		# A new leader gives each lease its whole TTL again: what a kill has left must be able to end.
		stays 6000 true
	done
	for name in 1 2 3 4 5 6 7 8; do
		finish c$name
	done
	echo "# etcd: $(wc -l <grants) grants, $kills leaders killed, exit codes $(sort codes 2>/dev/null | uniq -c | tr '\n' ' ')" >&3
	refute_file overlaps
	refute_file stale
	((kills > 0)) || fail 'no leader was killed'
	DLOCK_SERVER=$(etcd_url one)
}

@test "no leader: waited for within -w; 69 says so when that is over" {
	own_cluster a b c
	DLOCK_SERVER=$(etcd_url a)
	leaderless() {
		[[ $(curl -s -m 5 -d '{}' "http://127.0.0.1:$(etcd_port a)/v3/maintenance/status") == *'no leader'* ]]
	}
	halt "$(etcd_pid b)" "$(etcd_pid c)"
	wait_until leaderless
	try dlock -w 3 x touch ran
	expect_failure 69 'has no leader'
	refute_file ran
	start w dlock -w 90 x echo had
	stays 7000 is_alive "$w_pid"
	kill -CONT "$(etcd_pid b)" "$(etcd_pid c)"
	wait_until -t 60 is_gone "$w_pid"
	finish w
	expect 0 had
	DLOCK_SERVER=$(etcd_url one)
}

# --- Servers of other kinds ---

@test "its space is used up: 71, and a holder is stopped in time" {
	etcd_options='--quota-backend-bytes 2000000' own_cluster full
	holder a x -t 4s
	local i
	head -c 1000000 /dev/zero | tr '\0' x >much
	for i in 1 2 3; do
		etcd_ctl full put "much$i" <much >/dev/null 2>&1 || true
	done
	try dlock y touch ran
	expect_failure 71 'space exceeded .see etcdctl alarm list.'
	refute_file ran
	finish a
	assert_equal "$status" 80
	assert_match "$err" 'cannot be proved any longer'
	DLOCK_SERVER=$(etcd_url one)
}

@test "no JSON gateway: 76 says how to have one" {
	etcd_options='--enable-grpc-gateway=false' own_cluster mute
	try dlock x touch ran
	expect_failure 76 'no JSON gateway here: etcd needs --enable-grpc-gateway'
	try dlock check
	assert_equal "$status" 76
	refute_file ran
	DLOCK_SERVER=$(etcd_url one)
}

@test "a user's token expires: another is asked for, COMMAND goes on; a wrong password is 77" {
	etcd_options='--auth-token-ttl 1' own_cluster guarded
	etcd_ctl guarded user add root:sesame >/dev/null
	etcd_ctl guarded user grant-role root root >/dev/null 2>&1
	etcd_ctl guarded auth enable >/dev/null
	DLOCK_SERVER=etcd://root:sesame@127.0.0.1:$(etcd_port guarded)
	holder a x -t 6s
	waiter b x
	stays 8000 is_alive "$a_command"
	: >b.go
	ends a
	expect 0
	finish b
	expect 0
	after a b 1000
	DLOCK_SERVER=etcd://root:wrong@127.0.0.1:$(etcd_port guarded)
	try dlock x touch ran
	expect_failure 77 'authentication failed'
	refute_match "$err" wrong
	DLOCK_SERVER=etcd://127.0.0.1:$(etcd_port guarded)
	try dlock x touch ran
	expect_failure 77 'user name is empty'
	DLOCK_SERVER=etcd://root@127.0.0.1:$(etcd_port guarded)
	DLOCK_PASSWORD=sesame try dlock x echo had
	expect 0 had
	refute_file ran
	# Whenever dlock has to say again which user it is, it reads the file.
	(umask 077 && echo sesame >password)
	echo "password-file = $PWD/password" >settings
	holder c x -t $((4 * TEST_PATIENCE))s --config settings
	etcd_ctl guarded --user root:sesame user passwd root --interactive=false <<<changed >/dev/null
	echo changed >password
	stays $((5000 * TEST_PATIENCE)) is_alive "$c_command"
	ends c
	assert_equal "$status" 0 "$err"
	DLOCK_SERVER=$(etcd_url one)
}

@test "a user's token is long, as a jwt by a key of 4,096 bits: it is sent whole" {
	openssl genrsa -out jwt.key 4096 2>/dev/null
	openssl rsa -in jwt.key -pubout -out jwt.pub 2>/dev/null
	etcd_options="--auth-token jwt,pub-key=$PWD/jwt.pub,priv-key=$PWD/jwt.key,sign-method=RS512" own_cluster signed
	etcd_ctl signed user add root:sesame >/dev/null
	etcd_ctl signed user grant-role root root >/dev/null 2>&1
	etcd_ctl signed auth enable >/dev/null
	DLOCK_SERVER=etcd://root:sesame@127.0.0.1:$(etcd_port signed)
	try dlock -w 10 x echo had
	expect 0 had
	DLOCK_SERVER=$(etcd_url one)
}

@test "TLS: with the right authority; a wrong one is 77, no TLS at all 76" {
	etcd_tls=' ' own_cluster safe
	holder a x -t 3s
	waiter b x
	stays 4000 is_alive "$a_command"
	ends a
	expect 0
	ends b
	expect 0
	after a b 1000
	[[ -e $CA/other.pem ]] || make_root other
	DLOCK_SERVER="etcds://127.0.0.1:$(etcd_port safe)?cacert=$CA/other.pem"
	try dlock x touch ran
	expect_failure 77 'certificate'
	DLOCK_SERVER="etcds://127.0.0.1:$(etcd_port safe)?insecure=1"
	try dlock x echo had
	expect 0 had
	DLOCK_SERVER="etcds://127.0.0.1:$(etcd_port safe)?cacert=$PWD/none.pem"
	try dlock x touch ran
	expect_failure 78 'none.pem'
	DLOCK_SERVER="etcds://127.0.0.1:$(etcd_port one)"
	try dlock x touch ran
	expect_failure 76 ''
	refute_file ran
	DLOCK_SERVER=$(etcd_url one)
}

@test "TLS: a server that wants a client certificate gets it" {
	etcd_tls="--client-cert-auth --trusted-ca-file $CA/ca.pem" etcd_unasked=1 own_cluster strict
	wait_until is_served "$(etcd_port strict)"
	local plain=$DLOCK_SERVER
	DLOCK_SERVER="$plain&cert=$CA/named.pem&key=$CA/named.key"
	wait_until dlock -q x true
	try dlock x echo had
	expect 0 had
	DLOCK_SERVER=$plain
	try dlock x touch ran
	assert_between "$status" 69 77 'exit code'
	refute_file ran
	DLOCK_SERVER=$(etcd_url one)
}

@test "an error is understood as either version of the gateway puts it" {
	cat >refuse <<-'END'
		import socket, sys
		server = socket.create_server(("127.0.0.1", 0))
		print(server.getsockname()[1], flush=True)
		body = sys.argv[1].encode()
		while True:
		    peer, _ = server.accept()
		    peer.recv(65536)
		    peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
		    peer.close()
	END
	local exit code text body
	while read -r exit code text; do
		for body in "{\"error\":\"$text\",\"code\":$code}" "{\"code\":$code, \"message\":\"$text\"}"; do
			start refusing "$PYTHON" refuse "$body"
			wait_until test -s refusing.out
			try dlock -w 1 -S "etcd://127.0.0.1:$(<refusing.out)" x touch ran
			expect_failure "$exit" "$text"
			kill "$refusing_pid"
			finish refusing
			rm refusing.out
		done
	done <<-END
		71 8 etcdserver: mvcc: database space exceeded
		77 7 etcdserver: permission denied
		77 16 etcdserver: invalid auth token
		69 14 etcdserver: no leader
	END
	refute_file ran
}

@test "a server that talks nonsense: 76 or 69, at once or after -w, and COMMAND does not run" {
	cat >nonsense <<-'END'
		import random, socket, sys
		random.seed(int(sys.argv[1]))
		server = socket.create_server(("127.0.0.1", 0))
		print(server.getsockname()[1], flush=True)
		heads = [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
		    b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", b"HTTP/1.1 503 X\r\n\r\n"]
		bodies = [b"", b"{}", b"[]", b"null", b'{"ID":"x"}', b'{"ID":"5","TTL":"9"}',
		    b'{"responses":[{"response_range":{"kvs":[{"key":7},{"key":"%%%","value":"e30="}]}}]}',
		    b'{"error":7}', b'{"error":"etcdserver: requested lease not found","code":5}']
		while True:
		    peer, _ = server.accept()
		    peer.recv(65536)
		    peer.sendall(random.choice(heads) + random.choice(bodies + [random.randbytes(random.randrange(300))]))
		    peer.close()
	END
	local seed
	for seed in 1 2 3 4 5 6 7 8; do
		start fool "$PYTHON" nonsense $seed
		wait_until test -s fool.out
		DLOCK_SERVER=etcd://127.0.0.1:$(<fool.out)
		for _ in 1 2 3 4 5; do
			try dlock -w 300ms x touch ran
			[[ $status == @(69|76|1) ]] || fail "exit code $status with seed $seed: $err"
			try dlock status
			[[ $status == @(69|76|0|1) ]] || fail "exit code $status with seed $seed: $err"
		done
		kill "$fool_pid"
		finish fool
		rm fool.out
	done
	refute_file ran
	DLOCK_SERVER=$(etcd_url one)
}

@test "check names the versions whose leases or revisions are known to fail, and no others" {
	cat >versions <<-'END'
		import http.server, sys
		class Answer(http.server.BaseHTTPRequestHandler):
		    def do_GET(self):
		        self.send_response(200)
		        self.end_headers()
		        self.wfile.write(b'{"etcdserver":"%s"}' % open("version", "rb").read().strip())
		    def log_message(self, *words):
		        pass
		server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
		print(server.server_port, flush=True)
		server.serve_forever()
	END
	echo none >version
	start old "$PYTHON" versions
	wait_until test -s old.out
	local version faults found
	while read -r version faults; do
		echo "$version" >version
		try dlock -S "etcd://127.0.0.1:$(<old.out)" check --json
		found=$(jq -r '.findings[] | select(.check == "version") | .found' <<<"$out")
		assert_match "$found" "^etcd $version"
		assert_equal "$(grep -o '#[0-9]*' <<<"$found" | tr '\n' ' ' | sed 's/ $//')" "$faults" "faults of $version"
	done <<-'END'
		3.4.23 #15247 #17780
		3.4.31 #17780
		3.4.32
		3.5.2 #13766 #15247 #17780
		3.5.12 #15247 #17780
		3.5.13 #17780
		3.5.14
		3.6.0
	END
	echo 3.3.27 >version
	try dlock -S "etcd://127.0.0.1:$(<old.out)" check
	assert_equal "$status" 76
	assert_match "$out" 'needs etcd 3.4 or newer'
	kill "$old_pid"
	finish old
}
