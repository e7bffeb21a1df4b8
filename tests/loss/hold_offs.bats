# A hold-off keeps every client from a lock that is free: for --settle, or after a restart without data.
# It lives no longer than its waiter, and is believed no further than its reason can reach.

load ../lib/helper
load ../lib/waiters

setup_file() {
	file_begin
	cc -std=c17 -D_GNU_SOURCE -O1 -shared -fPIC -o "$BATS_FILE_TMPDIR/clock.so" \
		"$BATS_TEST_DIRNAME/../programs/clock.c"
}
setup() { test_begin; }
teardown() { test_end; }
teardown_file() { file_end; }

with_clock() {
	PATH=$LOADING:$PATH TEST_CLOCK=$PWD/clock LD_PRELOAD=$BATS_FILE_TMPDIR/clock.so "$@"
}

set_clock() { printf '%-8s' "$1" 1<>clock; }

# The same servers as a quorum.
on_quorum() {
	local i
	for i in a b c; do
		own_server $i
	done
	export DLOCK_SERVER=redis+quorum://127.0.0.1:$(<a/port),127.0.0.1:$(<b/port),127.0.0.1:$(<c/port)
}

held_off() { # NAME REASON
	[[ $(dlock status --json "$1" | jq -r '.[0].hold_off.reason') == "$2" ]]
}

waits() { [[ $(dlock status --json "$1" | jq '.[0].waiting') == 1 ]]; } # NAME

# One that would be denied for two hours, if it were held off.
is_to_be_had() {
	try dlock -n "$1" echo ran
	expect 0 ran
}

# Each way to leave but SIGKILL.
each_takes_it_back() {
	local way
	for way in -w -n signal acquire also; do
		case $way in
		-w) try dlock -w 300ms --settle 2h x true ;;
		-n)
			start one dlock -n --settle 2h x true
			wait_until was_asked x
			kill -TERM $one_pid
			finish one
			;;
		signal)
			start one dlock --settle 2h x true
			wait_until waits x
			kill -TERM $one_pid
			finish one
			;;
		acquire) try dlock acquire -w 300ms --settle 2h x ;;
		also) try dlock -w 300ms --settle 2h --also y x true ;;
		esac
		[[ $status != 0 ]] || fail "$way: it was not held off"
		is_to_be_had x || fail "after $way"
		[[ $way != also ]] || is_to_be_had y
	done
}

# On whatever there is.
was_asked() {
	local dir found=
	for dir in "$SERVER" a b c; do
		[[ ! -e $dir/socket ]] || found+=$(redis-cli -s "$dir/socket" HGET "$(meta_of "$1")" contended)
	done
	[[ -n $found ]]
}

@test "a waiter that leaves takes its hold-off back, however it leaves" { each_takes_it_back; }

@test "the same on a quorum" {
	on_quorum
	# also is refused there
	each_takes_it_back() {
		try dlock -w 300ms --settle 2h x true
		expect_failure 1 'for holders to return'
		is_to_be_had x
		start one dlock --settle 2h x true
		wait_until waits x
		kill -TERM $one_pid
		finish one
		is_to_be_had x
	}
	each_takes_it_back
}

can_be_had() { dlock -n "$1" true 2>/dev/null; }

@test "a waiter that is killed: its hold-off lives no longer than its lease" {
	start one dlock --settle 2h x true
	wait_until waits x
	wait_until listens $one_pid
	wait_until held_off x settle
	refute can_be_had x
	signal_waiters KILL $one_pid
	wait_until -t 40 can_be_had x
	finish one
}

@test "the same on a quorum: killed" {
	on_quorum
	start one dlock --settle 2h x true
	wait_until held_off x settle
	refute can_be_had x
	signal_waiters KILL $one_pid
	finish one
	# Nor do newcomers that ask again and again keep it alive.
	local name
	for name in two three; do
		start $name sh -c 'until dlock -n x true 2>/dev/null; do :; done'
	done
	wait_until -t 40 is_gone $two_pid
	wait_until -t 40 is_gone $three_pid
	finish two
	finish three
}

@test "while its waiter lives, a hold-off stays: through looks, and for those that ask later" {
	start one dlock --settle 2h x true
	wait_until held_off x settle
	local token
	wait_until listens $one_pid
	token=$(token_of $one_pid)
	cli RPUSH "lock:{lock:x}:wake:$token" 'look 0' >/dev/null
	wait_until held_off x settle
	try dlock -w 200ms x touch ran
	expect_failure 1 'busy after 200ms'
	refute_file ran
	kill -TERM $one_pid
	finish one
	is_to_be_had x
}

@test "status shows a hold-off, with its reason and how long it is to last" {
	try dlock status --json x
	assert_equal "$(jq -c '.[0].hold_off' <<<"$out")" null
	start one dlock --settle 2h x true
	wait_until waits x
	try dlock status --json x
	assert_equal "$status" 1
	assert_equal "$(jq -r '.[0].hold_off.reason' <<<"$out")" settle
	assert_between "$(jq '.[0].hold_off.ttl_ms' <<<"$out")" 6000000 7201000
	try dlock status x
	assert_match "$out" 'held off: the server started lately'
	assert_match "$out" ' (2h|1h5[0-9]m)'
	kill -TERM $one_pid
	finish one
	try dlock status --json x
	assert_equal "$(jq -c '.[0].hold_off' <<<"$out")" null
}

@test "release --force ends a hold-off: for the one that waits, and for those that come" {
	start one dlock --settle 2h x sh -c 'echo ran'
	wait_until held_off x settle
	try dlock release --force x
	assert_equal "$status" 0
	assert_match "$err" 'released by force: the server was restarted; holders may return for (2h|1h5)'
	finish one
	assert_equal "$status $out" '0 ran'
	try dlock -n --settle 2h x echo ran
	expect 0 ran
}

@test "the same on a quorum: force" {
	on_quorum
	start one dlock --settle 2h x sh -c 'echo ran'
	wait_until held_off x settle
	try dlock release --force x
	assert_equal "$status" 0
	assert_match "$err" 'released by force: the server was restarted; holders may return for (2h|1h5)'
	finish one
	assert_equal "$status $out" '0 ran'
}

@test "after a restart without data force ends the hold-off for a holder, which is stopped" {
	begin_holder one x -t 10m
	enqueue a
	kill -STOP $one_keeper
	server_end "$SERVER"
	wait_until is_cut_off "$a_pid"
	server_again "$SERVER"
	wait_until held_off x return
	try dlock status x
	assert_match "$out" 'held off: a holder may return'
	try dlock release --force x
	assert_equal "$status" 0
	finish_all_restarted a
	kill -CONT $one_keeper
	finish one
	assert_equal "$status" 80
}

# returns_for TOKEN: for how long the waiter holds the lock off since the restart (ms).
returns_for() {
	cli EVAL '
		local moment = redis.call("ZSCORE", "lock:{lock:x}:off", "return " .. ARGV[1])
		local time = redis.call("TIME")
		return moment and math.floor(tonumber(moment) / 1000 - time[1] * 1000 - time[2] / 1000) or -1' 0 "$1"
}

holds_off() { (($(returns_for "$1") > 0)); }

@test "after a restart without data a waiter waits for the last holder, not for an older one" {
	local last name
	begin_holder one x -t 1h
	start last dlock -t $((6 * TEST_PATIENCE)) x witness count "$PWD/last.count"
	wait_until queued x 1
	enqueue a
	enqueue b
	enqueue c
	let_go one
	wait_until file_has last.count '^ready'
	# None of those that are not next is told; so they look when they would have anyway.
	for name in a b c; do
		last=${name}_pid
		declare "${name}_token=$(token_of "${!last}")"
		last=${name}_token
		cli RPUSH "lock:{lock:x}:wake:${!last}" 'look 0' >/dev/null
	done
	for name in a b c; do
		last=${name}_token
		wait_until has_looked "${!last}"
	done
	local command keeper
	command=$(sed -n 's/^ready //p' last.count)
	keeper=$(parent_of "$command")
	kill -STOP $keeper
	server_end "$SERVER"
	for name in a b c; do
		last=${name}_pid
		wait_until is_cut_off "${!last}"
	done
	server_again "$SERVER"
	for name in a b c; do
		last=${name}_token
		wait_until holds_off "${!last}"
		assert_between "$(returns_for "${!last}")" 1 $((6000 * TEST_PATIENCE)) "ms for $name"
	done
	kill -CONT $keeper
	wait_until is_held x
	kill -RTMIN "$command"
	finish last
	finish_all_restarted a b c
}

# It listens again: nothing that it was told is left.
has_looked() { # TOKEN
	[[ $(cli LLEN "lock:{lock:x}:wake:$1") == 0 ]] && (($(cli PTTL "lock:{lock:x}:who:$1") > 2500))
}

# The server's clock steps back by an hour, when a waiter has just been told to wait for --settle 2s.
steps_back() { # OPTION...
	set_clock +0
	server_end "$SERVER"
	with_clock server_again "$SERVER"
	start one dlock "$@" x date +%s%3N
	wait_until was_asked x
	set_clock -3600
	wait_until server_time_is_off
	finish one
	assert_equal "$status" 0
	# The lock is to be had again, and so is one that nobody has asked for before.
	local name
	for name in x z; do
		try dlock -w 20 --settle 2 $name echo ran
		expect 0 ran
		try dlock -n --settle 2 $name echo ran
		expect 0 ran
		assert_between "$took" 0 $((1500 * TEST_PATIENCE)) "ms, again for $name"
	done
	server_end "$SERVER"
}

server_time_is_off() {
	local there here
	there=$(cli TIME | head -1)
	here=$(date +%s)
	((there > here + 3000 || there < here - 3000))
}

@test "the server's clock steps back just after its start: a waiter gets the lock all the same" {
	steps_back -w 30 --settle 2
}

@test "the server's clock steps back just after its start: -n gets the lock all the same" {
	steps_back -n --settle 2
}

@test "the server's clock steps back while a hold-off stands: it lasts no longer than it was to" {
	set_clock +0
	server_end "$SERVER"
	with_clock server_again "$SERVER"
	start one dlock --settle 5 x true
	wait_until held_off x settle
	set_clock -3600
	wait_until server_time_is_off
	try dlock -w 1m --settle 0 x echo ran
	expect 0 ran
	finish one
	server_end "$SERVER"
}
