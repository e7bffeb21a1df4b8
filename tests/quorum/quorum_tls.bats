# rediss+quorum:// on five real servers that speak TLS alone: one with a wrong certificate counts as
# a dead one, and one that is silent in the handshake is not waited for.

load ../lib/helper
load ../lib/authority
load ../lib/quorum

make_authority_once() {
	[[ -z ${CA:-} ]] || return 0
	make_authority
	make_usual_certificates
	make_certificate wild DNS:*.quorum.example
}

one_begin() {
	make_authority_once
	tls_begin "$@"
}
one_again() { tls_again "$@"; }

url() { # SERVER...
	local i list=
	for i; do
		list+=,127.0.0.1:$(tls_of "$i")
	done
	echo "rediss+quorum://${list:1}?cacert=$CA/ca.pem"
}

tls_of() { echo "$(<"$(dir_of "$1")/tls")"; }
present() { present_at "$(dir_of "$1")" "$2"; }     # SERVER CERTIFICATE
asked() { [[ $(on "$1" INFO commandstats) == *eval* ]]; } # SERVER
owners() { # how many of them have the lock by the same token
	local i
	for i in 1 2 3 4 5; do
		owner $i
	done | grep . | sort | uniq -c | awk '{ print $1 }'
}
all_have_it() { [[ $(owners) == "${1-5}" ]]; }

@test "a lock on five servers by TLS: on all, extended for longer than its TTL, released" {
	has_tls || return 0
	begin_holder a x -t 4
	wait_until all_have_it
	stays 8000 all_have_it
	assert is_alive "$a_command"
	try dlock status -v x
	assert_equal "$status" 0
	assert_match "$out" "x +exclusive +[^ ]+:$a_pid "
	refute_match "$err" "127\.0\.0\.1:[0-9]+ (does|says|has)"
	try dlock -n x touch ran
	expect_failure 1 "held by [^ ]+:$a_pid "
	let_go a
	expect 0
	wait_until all_have_it ''
	refute_file ran
}

@test "waiters by TLS are woken by the release; ended ones leave nothing" {
	has_tls || return 0
	begin_holder a x -t $((3 * TEST_PATIENCE))
	wait_until all_have_it
	start b dlock x echo b
	start c dlock x touch ran
	wait_until queued 1 2
	wait_until queued 5 2
	kill -TERM "$c_pid"
	finish c
	assert_equal "$status" 143
	wait_until queued 3 1
	local began
	began=$(now_ms)
	let_go a
	finish b
	expect 0 b
	assert_between $(($(now_ms) - began)) 0 $((900 * TEST_PATIENCE)) 'ms'
	refute_file ran
}

# The five, but some of them MS slower each way.
slow_url() { # MS SERVER...
	local list one
	list=$(url 1 2 3 4 5)
	for one in "${@:2}"; do
		fake_server "delay-$1:$(tls_of "$one")"
		list=${list/:$(tls_of "$one")/:$(<"delay-$1:$(tls_of "$one")/port")}
	done
	echo "$list"
}

@test "a waiter is in the queue of those as well that shake hands more slowly than the others" {
	has_tls || return 0
	begin_holder a x -t 3
	wait_until all_have_it
	start b dlock -S "$(slow_url 5 4 5)" x echo b
	local one
	for one in 1 2 3 4 5; do
		wait_until -t 5 queued $one 1
	done
	let_go a
	finish b
	expect 0 b
	ends_by_itself 4 5 # a front that ends at once does not wait for them to leave their queues
}

@test "a waiter that leaves before the slower servers were asked leaves every queue" {
	has_tls || return 0
	begin_holder a x -t $((3 * TEST_PATIENCE))
	wait_until all_have_it
	start b dlock -S "$(slow_url 1000 3 4 5)" x touch ran
	wait_until queued 1 1
	wait_until queued 2 1
	kill -TERM "$b_pid"
	finish b
	assert_equal "$status" 143
	wait_until queued 1 0
	wait_until queued 2 0
	let_go a
	expect 0
	refute_file ran
}

# Starts b until its request has come to the fifth server too, which is as slow as it may be for that.
start_everywhere() {
	local limit
	for ((; late > 10; late = late * 2 / 3)); do
		start b dlock -S "$(slow_url $late 5)" x touch ran
		wait_until queued 1 1
		limit=$(($(now_ms) + 3000 * TEST_PATIENCE))
		until queued 5 1; do
			(($(now_ms) < limit)) || break
			sleep 0.02
		done
		! queued 5 1 || return 0
		kill -TERM "$b_pid"
		finish b
	done
	wait_until -t 1 queued 5 1
}

is_listened_at() { [[ $(on "$1" INFO clients) == *blocked_clients:1* ]]; } # SERVER

# It may have to connect anew, and a slow server gets nothing before the handshake is over.
@test "a waiter that leaves in the middle of an attempt, or while it listens, leaves every queue" {
	has_tls || return 0
	begin_holder a x -t $((3 * TEST_PATIENCE))
	wait_until all_have_it
	local one try late=150
	for try in {1..14}; do # in some the signal comes at a moment that matters
		start_everywhere
		((try % 2)) || wait_until is_listened_at 1
		kill -TERM "$b_pid"
		finish b
		assert_equal "$status" 143
		for one in 1 2 3 4 5; do
			wait_until -t 5 queued $one 0 # a lease is of 22 s, the queue stays for a minute
		done
	done
	let_go a
	expect 0
	refute_file ran
}

lasts() { (($(on "$1" PTTL lock:x) > $2)); } # SERVER MS

@test "by a token, by TLS: acquire, renew, release; also where hands are shaken more slowly" {
	has_tls || return 0
	try dlock acquire -t 60 x
	assert_equal "$status" 0
	local token=${out%% *}
	wait_until all_have_it
	try dlock renew -t 100 -S "$(slow_url 5 3)" x "$token"
	assert_equal "$status" 0
	local one
	for one in 1 2 3 4 5; do
		wait_until lasts $one 60000
	done
	try dlock release x "$token"
	assert_equal "$status" 0
	wait_until all_have_it ''
}

@test "a wrong certificate: as a dead one, and named; nothing is asked there" {
	has_tls || return 0
	present 4 elsewhere
	begin_holder a x -t $((3 * TEST_PATIENCE))
	wait_until all_have_it 4
	assert_equal "$(owner 4)" ''
	try dlock status x
	assert_equal "$status" 0
	assert_equal "$err" "dlock: x: the certificate of 127.0.0.1:$(tls_of 4) is for another address"
	try dlock check
	assert_equal "$status" 1
	assert_match "$out" "127\.0\.0\.1:$(tls_of 4) .*failure .*is for another address"
	# Two more are silent or dead: a majority is left, and not one less.
	slay 2
	try dlock -n y echo ran
	expect 0 ran
	present 1 elsewhere
	try dlock -n y touch ran
	expect_failure 69 "only 2 of the quorum's 5 servers answer \(.*127\.0\.0\.1:"
	refute asked 4
	present 1 good
	revive 2
	let_go a
	assert_equal "$status" 0
	refute_file ran
	present 4 good
}

@test "three wrong certificates: 77, which waiting would not mend" {
	has_tls || return 0
	local i
	for i in 1 3 5; do
		present $i elsewhere
	done
	try dlock x touch ran
	expect_failure 77 "the certificate of 127\.0\.0\.1:$(tls_of 1) is for another address"
	assert_between "$took" 0 $((2000 * TEST_PATIENCE)) ms
	try dlock -S "$DLOCK_SERVER&insecure=1" x echo ran
	expect 0 ran
	refute_file ran
	# The name that sni= asks for is the same for all.
	for i in 1 2 3 4 5; do
		present $i wild
	done
	try dlock -S "$DLOCK_SERVER&sni=one.quorum.example" x echo ran
	expect 0 ran
	for i in 1 2 3 4 5; do
		present $i good
	done
}

@test "a server that is listed twice, under two names: 64" {
	has_tls || return 0
	local list
	fake_server "delay-300:$(tls_of 2)" # its second name answers before a majority has promised
	list="127.0.0.1:$(tls_of 1),127.0.0.1:$(<"delay-300:$(tls_of 2)/port"),localhost:$(tls_of 1)"
	try dlock -S "rediss+quorum://$list?cacert=$CA/ca.pem" x touch ran
	expect_failure 64 "(localhost|127\.0\.0\.1):$(tls_of 1) is also one of the other servers"
	refute_file ran
}

@test "two of five silent in the handshake, or dead: neither waited for" {
	has_tls || return 0
	local pair what
	for pair in '1 2' '2 5'; do
		for what in freeze slay; do
			$what $pair
			try dlock -n x sh -c 'echo $DLOCK_FENCE >>fences'
			expect 0
			assert_between "$took" 0 $((1000 * TEST_PATIENCE)) "ms with $pair after $what"
			[[ $what == freeze ]] && thaw $pair || revive $pair
		done
	done
	assert_equal "$(sort -n fences | uniq | wc -l)" 4
	slay 2 3 4
	try dlock x touch ran
	expect_failure 69 "only 2 of the quorum's 5 servers answer \(cannot reach 127\.0\.0\.1:[0-9]+: Connection refused\)"
	revive 2 3 4
	refute_file ran
}

@test "two of five silent in mid-hold, beyond the TTL: it goes on at no cost, they get it again" {
	has_tls || return 0
	begin_holder a x -t $((4 * TEST_PATIENCE))
	wait_until all_have_it
	freeze 2 5
	local before
	before=$(ticks "$a_keeper")
	stays $((6000 * TEST_PATIENCE)) is_alive "$a_command"
	# In 6 s: a keeper that does not sleep takes 600.
	assert_between $(($(ticks "$a_keeper") - before)) 0 60 'ticks of processor time'
	thaw 2 5
	wait_until all_have_it
	let_go a
	expect 0 '' "$err"
	refute_match "$err" 'was lost|stopped'
}

ticks() { # PID: user and system time
	local stat
	stat=$(<"/proc/$1/stat")
	set -- ${stat##*) }
	echo $((${12} + ${13}))
}

@test "two of five restart empty in mid-hold: they get the lock again, by TLS 1.3 and 1.2" {
	has_tls || return 0
	local version
	for version in TLSv1.3 TLSv1.2; do
		one_again() { tls_again "$1" --tls-protocols $version; }
		rm -f a.count
		begin_holder a x -t $((4 * TEST_PATIENCE))
		wait_until all_have_it
		slay 1 3
		stays $((4500 * TEST_PATIENCE)) is_alive "$a_command"
		revive 1 3
		wait_until all_have_it
		stays $((4100 * TEST_PATIENCE)) all_have_it
		let_go a
		assert_equal "$status" 0
		refute_match "$err" 'was lost'
	done
	slay 1 3
}

@test "a server that restarts and shakes hands slowly gets the lock again as soon as others" {
	has_tls || return 0
	one_again() { tls_again "$1" --tls-protocols TLSv1.2; }
	begin_holder a x -t 30 -S "$(slow_url 20 2)"
	wait_until -t 30 all_have_it
	slay 2
	revive 2
	# It is tried after a second. Were it to go on only when tried again, that would be 2 and 4 s later.
	wait_until -t 5 all_have_it
	let_go a
	assert_equal "$status" 0
	slay 2
}

@test "the keeper is killed: the front gives the lock back, by sessions of its own" {
	has_tls || return 0
	begin_holder a x -t 3
	wait_until all_have_it
	kill -KILL "$a_keeper"
	finish a
	assert_equal "$status" 70
	wait_until all_have_it ''
}
