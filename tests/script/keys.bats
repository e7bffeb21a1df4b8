# What is on the server during a run and after it, and what a run costs.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

keys() { cli --scan | sort | paste -sd ' '; }

@test "while it is held: the lock, its meta, its record, each with an expiry" {
	begin_holder one x -t 30
	local key
	for key in $(keys); do
		assert_between "$(cli PTTL "$key")" 1 $((33 * 24 * 3600 * 1000)) "$key's time to live in ms"
		[[ $key == lock:x || $key == 'lock:{lock:x}:'* ]] || fail "an unexpected key: $key"
	done
	assert_between "$(cli PTTL lock:x)" 15000 30000
	assert_between "$(cli PTTL "$(meta_of x)")" $((30 * 24 * 3600 * 1000)) $((33 * 24 * 3600 * 1000))
	let_go one
	assert_equal "$(keys)" "$(meta_of x)" 'keys left'
}

@test "the TTL is what -t says, at the grant and at every renewal" {
	try dlock -t 1d x redis-cli -s "$SERVER/socket" PTTL lock:x
	assert_between "$out" 86300000 86400000
	try dlock x redis-cli -s "$SERVER/socket" PTTL lock:x
	assert_between "$out" 50000 60000
	begin_holder one x -t 2
	local limit most=0 now
	limit=$(($(now_ms) + 3000))
	while (($(now_ms) < limit)); do
		now=$(cli PTTL lock:x)
		assert_between "$now" 1 2000 PTTL
		((now > most)) && most=$now
	done
	assert_between "$most" 1800 2000 'the longest PTTL seen'
	let_go one
}

@test "the fence is the last one plus one where that is ahead of the clock, digit by digit" {
	try dlock x true
	cli HSET "$(meta_of x)" fence 8999999999999990 >/dev/null
	local n
	for n in 1 2 3; do
		try dlock x sh -c 'echo $DLOCK_FENCE'
		expect 0 899999999999999$n
		assert_equal "$(cli HGET "$(meta_of x)" fence)" 899999999999999$n
	done
	try dlock status --json x
	assert_equal "$status$(jq -r '.[] | .mode, .fence' <<<"$out" | paste -sd ' ')" '1free 8999999999999993'
}

@test "the fence of a server that lost everything is its clock in microseconds" {
	local before after
	try dlock x sh -c 'echo $DLOCK_FENCE'
	local first=$out
	cli FLUSHALL >/dev/null
	before=$(cli TIME | paste -sd ' ')
	try dlock x sh -c 'echo $DLOCK_FENCE'
	after=$(cli TIME | paste -sd ' ')
	before=${before% *}$(printf %06d "$((10#${before#* }))")
	after=${after% *}$(printf %06d "$((10#${after#* }))")
	assert_between "$out" "$before" "$after" fence
	((out > first)) || fail "$out after $first"
}

@test "fences of one name grow faster than the clock when many are granted at once" {
	local i
	for i in {1..8}; do
		start "c$i" sh -c 'for i in 1 2 3 4 5; do dlock x sh -c "echo \$DLOCK_FENCE >>fences"; done'
	done
	for i in {1..8}; do
		finish "c$i"
		expect 0
	done
	assert_equal "$(wc -l <fences)" 40
	sort -n -u fences | diff fences -
}

@test "release is the owner's alone: a key that is another's stays" {
	try dlock x sh -c 'redis-cli -s "${DLOCK_SERVER#unix://}" SET lock:x other PX 50000 >/dev/null'
	assert_equal "$status" 80
	assert_equal "$(cli GET lock:x)" other
	assert_between "$(cli PTTL lock:x)" 30000 50000 'its expiry'
	cli DEL lock:x >/dev/null
}

@test "scripts flushed between runs and within" {
	local i
	for i in {1..5}; do
		cli SCRIPT FLUSH >/dev/null
		try dlock x redis-cli -s "$SERVER/socket" SCRIPT FLUSH
		expect 0 OK
		assert is_free x
	done
}

@test "scripts flushed while many contend" {
	local i
	for i in {1..8}; do
		start "c$i" dlock x sh -c 'echo ran >>runs'
	done
	for i in {1..20}; do
		cli SCRIPT FLUSH >/dev/null
	done
	for i in {1..8}; do
		finish "c$i"
		expect 0
	done
	assert_equal "$(wc -l <runs)" 8
}

# calls COMMAND: how many the server was sent or did inside scripts, when it was asked for stats.
calls() { sed -n "s/^cmdstat_$1:calls=\([0-9]*\),.*/\1/p" <<<"$stats"; }

@test "a run is two scripts, and nothing else is sent" {
	dlock x true # so that the server knows the scripts
	cli CONFIG RESETSTAT >/dev/null
	dlock x true
	stats=$(cli INFO commandstats)
	assert_equal "$(calls evalsha)" 2
	local name
	for name in eval hello auth select ping 'client|setname' 'client|id' 'script|load'; do
		assert_equal "$(calls "$name")" '' "calls of $name"
	done
	local total
	total=$(($(sed -n 's/^cmdstat_.*:calls=\([0-9]*\),.*/\1/p' <<<"$stats" | paste -sd+)))
	assert_between "$total" 6 28 'commands, those inside the scripts included'
}

@test "connect and one round trip, COMMAND, one round trip; one connection" {
	dlock x true
	proxy "$SERVER/socket"
	try dlock -S "unix://$PWD/proxy.socket" x true
	expect 0
	wait_until file_has turns end
	assert_equal "$(paste -sd ' ' turns)" 'connect > < > < end'
}

@test "with a password too; with a database one more" {
	own_server auth --requirepass pw
	export DLOCK_PASSWORD=pw
	dlock -S "unix://$PWD/auth/socket" x true
	proxy "$PWD/auth/socket"
	try dlock -S "unix://$PWD/proxy.socket" x true
	expect 0
	wait_until file_has turns end
	assert_equal "$(paste -sd ' ' turns)" 'connect > < > < end'
	: >turns
	try dlock -S "unix://$PWD/proxy.socket?db=1" x true
	expect 0
	wait_until file_has turns end
	assert_equal "$(paste -sd ' ' turns)" 'connect > < > < > < end'
}

@test "a busy -n is one script, a renewal is one script" {
	try dlock -t $TEST_PATIENCE x sleep $TEST_PATIENCE # so that the server knows all scripts
	expect 0
	begin_holder long x -t 1000 # so long that it is not renewed here
	cli CONFIG RESETSTAT >/dev/null
	try dlock -n x true
	assert_equal "$status" 1
	stats=$(cli INFO commandstats)
	assert_equal "$(calls evalsha)" 1
	let_go long
	begin_holder one x -t $((3 * TEST_PATIENCE))
	# A renewal each third of the TTL or somewhat sooner, each one script, however long this takes here.
	cli CONFIG RESETSTAT >/dev/null
	local began
	began=$(now_ms)
	stays $((3500 * TEST_PATIENCE)) is_held x
	stats=$(cli INFO commandstats)
	assert_between "$(calls evalsha)" 2 $((1 + ($(now_ms) - began) / (600 * TEST_PATIENCE)))
	assert_equal "$(calls eval)$(calls ping)$(calls hello)" ''
	let_go one
}

@test "every companion is in the lock's slot, whatever the name" {
	own_server cluster --cluster-enabled yes --cluster-config-file nodes.conf
	local name key slot
	for name in x 'a b' '{t}' 'x{t}y' 'p}q' '{}r' '}{' 's{}t{u}' 'é {v}' '{' '}' '{}' '{{a}}' 'a}b{c}d' \
		"$(printf '}%.0s' {1..100})"; do
		dlock -- "$name" redis-cli -s "$SERVER/socket" --scan >found
		slot=$(redis-cli -s cluster/socket CLUSTER KEYSLOT "lock:$name")
		assert_between "$(wc -l <found)" 2 9 "keys of $name"
		grep -qxF -- "lock:$name" found
		while IFS= read -r key; do
			assert_equal "$(redis-cli -s cluster/socket CLUSTER KEYSLOT "$key")" "$slot" "slot of $key"
			[[ $key == lock:* ]] || fail "outside the prefix: $key"
		done <found
		cli FLUSHALL >/dev/null
	done
}

@test "names with one hash tag do not share companions" {
	begin_holder one '{t}a'
	try dlock '{t}b' sh -c 'echo $DLOCK_FENCE'
	assert_equal "$status" 0
	try dlock -n '{t}a' true
	expect_failure 1 "held by $(hostname):$one_pid"
	assert_equal "$(cli --scan | grep -c ':meta')" 2
	let_go one
	cli FLUSHALL >/dev/null
}
