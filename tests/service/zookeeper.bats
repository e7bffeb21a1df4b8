# Attacks on locks in ZooKeeper, beside service/conformance.bats.

load ../lib/helper
load ../lib/work
load ../lib/contenders
load ../lib/zookeeper

setup_file() {
	programs_begin
	[[ -z ${ZOOKEEPER_SOAK_GRANTS:-} ]] || export BATS_TEST_TIMEOUT=3600
	zookeeper_begin one
}

teardown_file() { zookeeper_end one; }

setup() {
	environment_begin
	zk one 'zk.delete("/locks", recursive=True) if zk.exists("/locks") else None'
	export DLOCK_SERVER
	DLOCK_SERVER=$(zookeeper_url one)
	write_work
	of_build zookeeper
}

teardown() {
	[[ -z ${extra:-} ]] || zookeeper_end $extra
	environment_end nothing_is_left
}

nothing_is_left() { [[ -z $(children one) ]]; }

# children NAME: the nodes of all contenders, with their locks.
children() {
	zk "$1" '
for name in zk.get_children("/locks") if zk.exists("/locks") else []:
	for child in zk.get_children("/locks/" + name): print(name + "/" + child)
'
}

# own_servers NAME...: they end with the test.
own_servers() {
	extra=$*
	zookeeper_begin "$@"
	DLOCK_SERVER=$(zookeeper_url "$@")
}

# --- Loss ---

@test "the own node is removed by hand: COMMAND is stopped at once, 80, before a newcomer begins" {
	local began
	holder a x
	began=$(now_ms)
	zk one 'zk.delete("/locks/x/" + zk.get_children("/locks/x")[0])'
	finish a
	expect_failure 80 'the lock was lost'
	assert_between $(($(now_ms) - began)) 0 $((3000 * TEST_PATIENCE)) 'ms until it was stopped'
}

@test "a waiter whose session has ended comes back to another place" {
	holder a x
	waiter b x
	# Its session has a waiter's TTL by then.
	wait_until eval '[[ $(zookeeper_ask one cons) == *,to=6000,* ]]'
	signal_waiters STOP "$b_pid"
	wait_until -t 30 waits x 0
	signal_waiters CONT "$b_pid"
	wait_until waits x 1
	ends a
	assert_equal "$status" 0
	ends b
	assert_equal "$status" 0
	after a b
}

@test "three servers: a waiter that was killed stops nobody for longer than its own session lasts" {
	own_servers a b c
	holder h x
	local number names=
	for number in {1..12}; do
		start dead$number dlock x ./work dead$number
		names+=" dead$number"
	done
	wait_until waits x 12
	stays 1500 true # as long as their sessions may have that of a holder
	local name pid
	for name in $names; do
		pid=${name}_pid
		signal_waiters KILL "${!pid}"
	done
	waiter next x
	ends h
	assert_equal "$status" 0
	ends next
	assert_equal "$status" 0
	after h next 7500
	for name in $names; do
		finish $name
	done
	DLOCK_SERVER=$(zookeeper_url one)
}

# own_servers_with_holes: a, b and c, of which a follows. What it says to the leader, and hears, is swallowed
# from `isolated` to `united`. Until syncLimit is over, 10 s, it goes on answering pings and questions.
own_servers_with_holes() {
	extra='a b c'
	with_ports try_with_holes zookeeper_end a b c
}

try_with_holes() { # a b c
	local peer hole number=0
	local zookeeper_options=$'syncLimit=20\ninitLimit=20'
	zookeeper_prepare "$@"
	# In a's settings the others' ports for followers are holes.
	for peer in $(grep -o '^server\.[23]=127.0.0.1:[0-9]*' "$(zookeeper_dir a)/zoo.cfg"); do
		hole=$(free_port)
		service "$BATS_TEST_DIRNAME/../programs/hole.py" "$hole" "${peer##*:}" "$PWD/hole.rules" \
			"$PWD/hole$((++number))"
		sed -i "s/$peer:/${peer%:*}:$hole:/" "$(zookeeper_dir a)/zoo.cfg"
	done
	zookeeper_start b
	zookeeper_start c
	zookeeper_awaited b && zookeeper_awaited c || return
	zookeeper_start a
	zookeeper_awaited a && [[ $(zookeeper_ask a srvr) == *'Mode: follower'* ]]
}

isolated() {
	echo 'up=0 down=0' >hole.rules.new
	mv hole.rules.new hole.rules
}

united() { rm hole.rules; }

@test "a follower that has lost its leader: pings prove nothing; COMMAND dies before another" {
	own_servers_with_holes
	DLOCK_SERVER=$(zookeeper_url a)
	holder h x -t 4s
	DLOCK_SERVER=$(zookeeper_url b c)
	waiter w x
	isolated
	finish h
	assert_equal "$status" 80
	assert_match "$err" 'cannot be proved any longer'
	wait_until -t 30 has_begun w
	# It was no end of the follower's: that answers still.
	[[ $(zookeeper_ask a ruok) == imok ]]
	ends w
	assert_equal "$status" 0
	after h w
	DLOCK_SERVER=$(zookeeper_url one)
}

@test "the leader of three is killed: COMMAND goes on, and the waiter has its turn" {
	own_servers a b c
	local name leader
	for name in a b c; do
		[[ $(zookeeper_ask $name srvr) != *'Mode: leader'* ]] || leader=$name
	done
	holder h x -t 20s
	waiter w x
	zookeeper_kill "$leader"
	stays 8000 is_alive "$h_command"
	refute has_begun w
	ends h
	assert_equal "$status" 0
	finish_soon w
	after h w
	DLOCK_SERVER=$(zookeeper_url one)
}

finish_soon() {
	: >"$1.go"
	wait_until -t 30 is_gone "$(pid_of "$1")"
	finish "$1"
	assert_equal "$status" 0
}

pid_of() {
	local variable=${1}_pid
	echo "${!variable}"
}

@test "only a minority is left: stopped in time, 80, and no other begins" {
	own_servers a b c
	holder h x -t 4s
	waiter w x
	halt "$(zookeeper_pid a)" "$(zookeeper_pid b)"
	finish h
	assert_equal "$status" 80
	assert_match "$err" 'cannot be proved any longer'
	refute has_begun w
	kill -CONT "$(zookeeper_pid a)" "$(zookeeper_pid b)"
	finish_soon w
	after h w
	DLOCK_SERVER=$(zookeeper_url one)
}

@test "the only server is killed and comes back: COMMAND goes on, nobody has the lock beside it" {
	holder h x -t 40s # no session lasts longer (maxSessionTimeout), and a server may take long to be back
	zookeeper_kill one
	stays 2000 is_alive "$h_command"
	zookeeper_again one
	assert is_taken x
	stays 8000 is_alive "$h_command"
	ends h
	expect 0 '' "$err"
}

@test "all servers are killed and come back: COMMAND goes on, and the waiter has its turn" {
	own_servers a b c
	local name
	holder h x -t 40s # no session lasts longer (maxSessionTimeout), and three servers may take long to be back
	waiter w x
	for name in a b c; do
		zookeeper_kill "$name"
	done
	stays 2000 is_alive "$h_command"
	zookeeper_again a b c
	stays 8000 is_alive "$h_command"
	refute has_begun w
	ends h
	assert_equal "$status" 0
	finish_soon w
	after h w
	DLOCK_SERVER=$(zookeeper_url one)
}

@test "a server takes a waiter's connection and never answers: it tries again before its TTL" {
	local hole
	hole=$(free_port)
	service "$BATS_TEST_DIRNAME/../programs/hole.py" "$hole" "$(zookeeper_port one)" "$PWD/hole.rules" "$PWD/hole"
	wait_until is_served "$hole"
	holder h x -t 20s
	DLOCK_SERVER=zookeeper://127.0.0.1:$hole/locks
	waiter w x -v -t 40s
	wait_until file_has w.err 'waiting, ' # it has its first answer
	isolated
	# Its first connection has been given up by then, and another begun that stays without an answer.
	stays 8000 is_alive "$h_command"
	united
	DLOCK_SERVER=$(zookeeper_url one)
	ends h
	assert_equal "$status" 0
	# Later the server itself closes a connection on which nothing comes, and all would seem well.
	wait_until -t 6 has_begun w
	ends w
	assert_equal "$status" 0
	after h w
}

# How often the process has waited for something.
rests_of() { awk '/^voluntary_ctxt_switches/ { n = $2 } END { print n + 0 }' "/proc/$1/status"; }

@test "the connection breaks as a waiter leaves: it tries again, and leaves no node" {
	local port
	port=$(free_port)
	passes() {
		service "$BATS_TEST_DIRNAME/../programs/hole.py" "$port" "$(zookeeper_port one)" "$PWD/none" "$PWD/counts"
	}
	passes
	wait_until is_served "$port"
	holder h x
	DLOCK_SERVER=zookeeper://127.0.0.1:$port/locks
	waiter w x -v
	wait_until file_has w.err 'waiting, ' # it has its first answer
	signal_waiters STOP "$w_pid"
	end_remembered "$last_service"
	wait_until refute is_served "$port"
	local rests
	rests=$(rests_of "$w_pid")
	kill -TERM "$w_pid"
	signal_waiters CONT "$w_pid"
	wait_until eval 'is_gone "$w_pid" || (($(rests_of "$w_pid") > rests))' # it has tried once
	passes
	finish w
	assert_equal "$status" 143
	DLOCK_SERVER=$(zookeeper_url one)
	wait_until -t 3 waits x 0 # its session lasts for 6 s
	ends h
	assert_equal "$status" 0
}

# --- The node ---

@test "the answer to a create is lost: the node is found again, and no second one is left" {
	local port
	port=$(free_port)
	service "$BATS_TEST_DIRNAME/../programs/cutter.py" "$port" "$(zookeeper_port one)" __lock__0
	wait_until is_served "$port"
	DLOCK_SERVER=zookeeper://127.0.0.1:$port/locks
	holder a x -w 20
	assert_equal "$(children one | wc -l)" 1 "nodes while it is held"
	ends a
	assert_equal "$status" 0
	assert_equal "$(children one)" ''
}

@test "-n, its grant is lost, the server away for 0.4 s: it is taken back, not left for the TTL" {
	local port
	port=$(free_port)
	service "$BATS_TEST_DIRNAME/../programs/cutter.py" "$port" "$(zookeeper_port one)" __lock__0 0.4
	wait_until is_served "$port"
	# It finds the grant again if it is back within its own time, or takes it back.
	try dlock -S "zookeeper://127.0.0.1:$port/locks" -n -t 30s x true
	assert_match "$status" '^(0|69)$' "$err"
	wait_until -t 6 has_no_children
}

has_no_children() { [[ -z $(children one) ]]; }

@test "a signal in the midst of a request: what came of that is taken back at once" {
	local port held
	for held in 0 1; do
		((held == 0)) || holder h x$held
		port=$(free_port)
		service "$BATS_TEST_DIRNAME/../programs/cutter.py" "$port" "$(zookeeper_port one)" __lock__000000000$held silent
		wait_until is_served "$port"
		start a dlock -S "zookeeper://127.0.0.1:$port/locks" x$held touch ran
		wait_until eval '[[ $(children one | wc -l) == $((held + 1)) ]]' # its node is there, and it does not know so
		kill -TERM "$a_pid"
		finish a
		assert_equal "$status" 143
		assert_equal "$(children one | wc -l)" "$held"
	done
	refute_file ran
	ends h
	expect 0
}

@test "a waiter is killed at the moment it has a place: it delays those behind no more than any" {
	local port
	holder h x
	port=$(free_port)
	service "$BATS_TEST_DIRNAME/../programs/cutter.py" "$port" "$(zookeeper_port one)" __lock__0000000001 silent
	wait_until is_served "$port"
	start b dlock -S "zookeeper://127.0.0.1:$port/locks" x touch ran
	wait_until eval '[[ $(children one | wc -l) == 2 ]]' # its node is there, and it does not know so
	signal_waiters KILL "$b_pid"
	finish b
	waiter c x
	ends h
	expect 0
	wait_until -t 8 has_begun c # 7 s, as the manual says
	refute_file ran
	ends c
	expect 0
}

@test "a waiter's node is removed by hand: it comes back to another place, whatever its TTL" {
	holder h x
	waiter b x -t 20s
	wait_until eval '[[ $(zookeeper_ask one cons) == *,to=6000,* ]]'
	zk one '
names = sorted(zk.get_children("/locks/x"), key=lambda name: name[-10:])
zk.delete("/locks/x/" + names[1])
'
	wait_until waits x 1
	ends h
	expect 0
	ends b
	expect 0
	after h b
}

@test "the lock's node is reaped between two uses: it is made anew, fencing tokens rise on" {
	local before
	dlock x true
	before=$(dlock x sh -c 'echo $DLOCK_FENCE')
	zk one 'zk.delete("/locks/x")'
	(($(dlock x sh -c 'echo $DLOCK_FENCE') > before))
	zk one 'zk.delete("/locks", recursive=True)'
	(($(dlock x sh -c 'echo $DLOCK_FENCE') > before + 1))
}

@test "a child that is no lock's: 76, and it is named" {
	zk one 'zk.ensure_path("/locks/x/something")'
	try dlock -n x touch ran
	expect_failure 76 'no lock.s: something'
	zk one 'zk.delete("/locks/x/something"); zk.create("/locks/x/lease-0000000001")'
	try dlock -n x touch ran
	expect_failure 76 'no lock.s: lease-0000000001'
	zk one 'zk.delete("/locks/x", recursive=True)'
	refute_file ran
}

@test "COMMAND has no descriptor of the session's socket" {
	try dlock x sh -c 'ls -l /proc/self/fd | grep -c socket:'
	assert_equal "$out" 0
}

@test "a session ends with its lock, and is not left to time out" {
	local before
	sessions() { zookeeper_ask one mntr | sed -n 's/^zk_global_sessions[[:space:]]*//p'; }
	before=$(sessions)
	dlock x true
	dlock x true
	try dlock -n x true
	wait_until eval '(($(sessions) <= before))'
}

@test "permits: one that asks for more does not pass one that waits for fewer" {
	permits_in_order
}

# --- Rights and limits ---

@test "a password, right and wrong: 77 without a right to the nodes, and never shown" {
	local url
	zk one '
from kazoo.security import make_digest_acl
zk.create("/closed", acl=[make_digest_acl("ann", "s3cret", all=True)])
'
	url=zookeeper://ann:s3cret@${DLOCK_SERVER#*//}
	url=${url%/locks}/closed
	try dlock -S "$url" x sh -c 'cat /proc/$PPID/cmdline | tr "\0" " "; echo ran'
	assert_equal "$status" 0
	refute_match "$out" s3cret
	try env DLOCK_PASSWORD=s3cret dlock -S "${url/:s3cret/}" x echo ran
	assert_equal "$status$out" 0ran
	try dlock -S "${url/s3cret/wr0ng}" y touch ran
	expect_failure 77 'no right'
	refute_match "$err" wr0ng
	try dlock -S "${url/ann:s3cret@/}" y touch ran
	expect_failure 77 'no right'
	refute_file ran
	zk one 'zk.add_auth("digest", "ann:s3cret"); zk.delete("/closed", recursive=True)'
}

@test "a server that is away: a descriptor that the library closed is not closed or taken again" {
	unleaked try strace -f -qq -e signal=none -o trace -e trace=close,dup3 dlock -S zookeeper://127.0.0.1:1/x x true
	expect_failure 69 'cannot reach'
	refute file_has trace 'EBADF|EINVAL|dup3'
}

@test "three servers without a leader: waited for within -w; 69 says so when that is over" {
	extra='a b c'
	zookeeper_prepare a b c
	zookeeper_start a
	DLOCK_SERVER=$(zookeeper_url a)
	wait_until -t 60 eval '[[ $(zookeeper_ask a srvr) == *"not currently serving"* ]]'
	try dlock -w 1 x touch ran
	expect_failure 69 'has it no leader'
	assert_between "$took" 1000 1000000 'ms'
	refute_file ran
	start w dlock -w 90 x echo had
	stays 6000 is_alive "$w_pid"
	zookeeper_start b
	zookeeper_start c
	wait_until -t 60 is_gone "$w_pid"
	finish w
	expect 0 had
	DLOCK_SERVER=$(zookeeper_url one)
}

# The servers "few" close a connection at once.
is_full() {
	local fd ended=0
	exec {fd}<>"/dev/tcp/127.0.0.1/$(zookeeper_port few)"
	read -r -t 1 -u "$fd" || ended=$?
	exec {fd}>&-
	[[ $ended == 1 ]] # more: it was not closed
}

@test "maxClientCnxns is reached: 69, and the message says what it may be" {
	zookeeper_options=maxClientCnxns=2
	own_servers few
	local one two
	exec {one}<>"/dev/tcp/127.0.0.1/$(zookeeper_port few)" {two}<>"/dev/tcp/127.0.0.1/$(zookeeper_port few)"
	wait_until is_full # it counts them a little after it has taken them
	try dlock -w 1 x touch ran
	assert_equal "$status" 69
	exec {one}>&- {two}>&-
	assert_match "$err" maxClientCnxns
	refute_file ran
	DLOCK_SERVER=$(zookeeper_url one)
}

@test "maxClientCnxns: as many holders as it allows renew, each in the place of its connection" {
	zookeeper_options=maxClientCnxns=3
	own_servers few
	local one
	for one in a b c; do
		holder $one $one -t $((4 * TEST_PATIENCE))s
	done
	stays $((12000 * TEST_PATIENCE)) is_alive "$a_command"
	for one in a b c; do
		ends $one
		assert_equal "$status" 0 "$err"
		# A server that is slow to close the last connection refuses the next: the keeper tries again.
		assert_between "$(grep -c 'cannot renew' $one.err)" 0 $((TEST_PATIENCE - 1)) 'renewals that were refused at first'
	done
	assert_match "$(dlock check)" 'maxClientCnxns must be twice the dlocks'
	DLOCK_SERVER=$(zookeeper_url one)
}

@test "the TTL is what the servers agree to: told with -v; a longer or shorter -t is 78" {
	try dlock -v x true
	assert_match "$err" 'granted with a TTL of 40s'
	try dlock -t 41s x touch ran
	expect_failure 78 'maxSessionTimeout'
	try dlock -t 3s x touch ran
	expect_failure 78 'minSessionTimeout'
	refute_file ran
}

# --- Other clients ---

@test "kazoo's Lock and ReadLock between two dlocks: by arrival, fencing tokens rise over theirs" {
	holder a x
	zk_in_line Lock k
	waiter b x
	assert_between "$(dlock status --json x | jq '.[0].waiters[0].waited_ms')" 1 $((30000 * TEST_PATIENCE)) 'ms, as shown'
	ends a
	wait_until has_begun k
	refute has_begun b
	: >k.go
	wait_until has_begun b
	ends b
	assert_equal "$status" 0
	after a k
	after k b
	# A reader of kazoo's and one of dlock's hold it together.
	rm -f spans ./*.go ./*.pid
	holder a x -s
	zk_in_line ReadLock k
	wait_until has_begun k
	refute dlock -qn x true
	: >k.go
	wait_until eval '! has_begun k || [[ $(children one | wc -l) == 1 ]]'
	ends a
	wait_until nothing_is_left
}

# zk_in_line RECIPE NAME: ./work NAME under kazoo's lock; returns once it is among the contenders.
zk_in_line() {
	local before
	before=$(children one | wc -l)
	"$PYTHON" - 3>&- 4>&- <<-END &
		import subprocess
		from kazoo.client import KazooClient
		zk = KazooClient('127.0.0.1:$(zookeeper_port one)', timeout=10)
		zk.start(15)
		with zk.$1('/locks/x', '$2'): subprocess.run(['./work', '$2'])
		zk.stop()
	END
	disown $!
	wait_until eval '(($(children one | wc -l) > before))'
}

@test "Curator's names: counted whatever ours are called; ?style=curator gives ours to them" {
	local own
	zk one '
zk.ensure_path("/locks/x")
zk.create("/locks/x/_c_0f0e0d0c-0b0a-4908-8706-050403020100-lock-", b"10.0.0.1", sequence=True)
'
	try dlock -n x touch ran
	expect_failure 1 'held by another ZooKeeper client'
	try dlock -n -s x touch ran
	expect_failure 1 'held by another ZooKeeper client'
	refute_file ran
	zk one 'zk.delete("/locks/x", recursive=True)'
	own=$(dlock -S "$DLOCK_SERVER?style=curator" x /usr/bin/python3 -c "
from kazoo.client import KazooClient
zk = KazooClient('127.0.0.1:$(zookeeper_port one)'); zk.start(); print(zk.get_children('/locks/x')); zk.stop()")
	assert_match "$own" "^\['_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-[0-9]{10}'\]$"
	zk one '
zk.ensure_path("/locks/x")
zk.create("/locks/x/_c_0f0e0d0c-0b0a-4908-8706-050403020100-__READ__", b"", sequence=True)
'
	try dlock -S "$DLOCK_SERVER?style=curator-rw" -n -s x echo beside
	assert_equal "$status$out" 0beside
	try dlock -S "$DLOCK_SERVER?style=curator-rw" -n x touch ran
	assert_equal "$status" 1
	refute_file ran
	zk one 'zk.delete("/locks/x", recursive=True)'
}

@test "a contender with Curator's name between two dlocks: in the order of arrival" {
	holder a x
	zk one '
zk.create("/locks/x/_c_0f0e0d0c-0b0a-4908-8706-050403020100-lock-", b"10.0.0.1", sequence=True)
'
	waiter b x
	ends a
	expect 0
	# It is woken, as what it waited for is another, and has it no sooner.
	stays 1000 is_alive "$b_pid"
	refute has_begun b
	refute dlock -qn x true
	zk one '
for name in zk.get_children("/locks/x"):
	if name.startswith("_c_"): zk.delete("/locks/x/" + name)
'
	wait_until has_begun b
	ends b
	expect 0
}

@test "a name with a slash is a lock of its own" {
	dlock a/b true
	assert_equal "$(zk one 'print(zk.get_children("/locks"))')" "['a%2Fb']"
	zk one 'zk.delete("/locks/a%2Fb")'
}

# ZOOKEEPER_SOAK_GRANTS=2000 for a long one. flock(2) is the judge.
@test "soak: eight contenders, servers killed or without leader: no overlap, no stale token" {
	own_servers_with_holes
	DLOCK_SERVER=$(zookeeper_url a b c)
	cat >judged <<-'END'
		#!/bin/bash
		exec 9>>judge
		flock -n 9 || echo overlap >>overlaps
		read -r last <last
		((DLOCK_FENCE > last)) || echo "$DLOCK_FENCE after $last" >>stale
		echo "$DLOCK_FENCE" >last
		echo >>grants
		sleep 0.0$((RANDOM % 5))
	END
	cat >contend <<-'END'
		#!/bin/bash
		until [[ -e enough ]]; do
			timeout -k 1 -s "$(shuf -n 1 -e TERM TERM TERM KILL)" "$((RANDOM % 9)).$((RANDOM % 9 + 1))" \
				dlock -t 4s -w 30 x ./judged
		done
		rm "run$1"
	END
	chmod +x judged contend
	echo 0 >last
	: >grants
	local most=${ZOOKEEPER_SOAK_GRANTS:-40} one number
	for number in {1..8}; do
		: >run$number
		setsid ./contend $number >>contend.log 2>&1 3>&- 4>&- &
		disown $!
	done
	until (($(wc -l <grants) >= most)); do
		sleep 3
		one=$(shuf -n 1 -e a b c)
		if [[ $one == a ]]; then
			isolated
			sleep 6
			united
		else
			zookeeper_kill "$one"
			sleep 1
			zookeeper_start "$one"
			wait_until -t 60 zookeeper_answers "$one"
		fi
		wait_until -t 60 zookeeper_answers a
	done
	: >enough
	wait_until -t 90 eval '[[ -z $(ls run* 2>/dev/null) ]]'
	refute_file overlaps
	refute_file stale
	echo "# $(wc -l <grants) grants" >&3
	wait_until -t 60 eval '[[ -z $(children b) ]]'
	DLOCK_SERVER=$(zookeeper_url one)
}
