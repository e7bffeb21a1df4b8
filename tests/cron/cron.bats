# For cron: --cooldown, --once, --at-least, --max-run, --if-unreachable.

load ../lib/helper

setup_file() {
	file_begin
	cc -std=c17 -D_GNU_SOURCE -O1 -shared -fPIC -o "$BIN/skew.so" "$BATS_TEST_DIRNAME/../programs/skew.c"
}
teardown_file() { file_end; }
setup() { test_begin; }
teardown() {
	# What --once has put on record is to stay; test_end knows nothing of it.
	server_continue
	cli EVAL 'for _, key in ipairs(redis.call("KEYS", "*}:once:*")) do redis.call("DEL", key) end' 0 >/dev/null
	test_end
}

# job NAME [OPTION]...: says "ran" and succeeds, under the lock NAME.
job() {
	local name=$1
	shift
	try dlock "$@" "$name" echo ran
}

ran() { expect 0 ran; }
skipped() { expect 0 ''; }

# When the last success under NAME began, by the server's clock in us; nothing when it has none.
success_of() { cli HGET "$(meta_of "$1")" success; }

# skewed MS COMMAND...: on a host whose clock is that much ahead.
skewed() {
	PATH=$LOADING:$PATH SKEW_MS=$1 LD_PRELOAD=$BIN/skew.so "${@:2}"
}

# calls COMMAND: how often since the last RESETSTAT, those inside scripts included.
calls() { cli INFO commandstats | sed -n "s/^cmdstat_$1:calls=\([0-9]*\),.*/\1/p"; }
all_calls() { cli INFO commandstats | sed -n 's/^cmdstat_\([^:]*\):calls=\([0-9]*\),.*/\1 \2/p' |
	grep -vE '^(info|config)' | sort; }


# ---- --cooldown ----------------------------------------------------------------------------------

@test "--cooldown: a success less than that ago is enough: 0, nothing run, nothing said" {
	job x --cooldown 1h
	ran
	job x --cooldown 1h
	skipped
	assert_equal "$(cli EXISTS lock:x)" 0
	try dlock -v --cooldown 1h x echo ran
	assert_equal "$status $out" '0 '
	assert_match "$err" '(^|'$'\n'')dlock: x: not run: it succeeded [0-9.]+m?s ago \(begun [0-9.]+m?s ago, on [^ ]+\)$'
	job y --cooldown 1h
	ran
}

@test "--cooldown: when the time is over COMMAND runs again" {
	local since=$(now_ms) # it counts from when the success began
	job x --cooldown 1s
	ran
	job x --cooldown 600ms
	while [[ $out == '' && $err == '' ]]; do
		job x --cooldown 600ms
	done
	ran
	assert_between $(($(now_ms) - since)) 600 $((5000 * TEST_PATIENCE)) 'ms after the success'
}

@test "--cooldown: 0 asks for nothing" {
	job x
	job x --cooldown 0
	ran
}

@test "--cooldown: only a success counts" {
	local code
	for code in 1 2 255; do
		try dlock --cooldown 1h x sh -c "exit $code"
		assert_equal "$status" $code
	done
	try dlock --cooldown 1h x sh -c 'kill -TERM $$'
	assert_equal "$status" 143
	assert_equal "$(success_of x)" ''
	job x --cooldown 1h
	ran
}

@test "--cooldown: a success without the option counts as well" {
	job x
	ran
	job x --cooldown 1h
	skipped
}

@test "--cooldown: the server's clock counts, no host's" {
	local year=$((366 * 24 * 3600 * 1000))
	assert_equal "$(skewed -$year date +%Y)" $(($(date +%Y) - 1))
	try skewed -$year dlock --cooldown 1h x echo ran
	ran
	try skewed $year dlock --cooldown 1h x echo ran
	skipped
	assert_between $((($(date +%s%6N) - $(success_of x)) / 1000)) 0 $((60000 * TEST_PATIENCE)) 'ms ago'
}

@test "--cooldown: a success ahead of a clock that was set back counts no longer than asked" {
	job x
	cli HSET "$(meta_of x)" success $((($(date +%s) + 7200) * 1000000)) >/dev/null
	job x --cooldown 3h
	skipped
	job x --cooldown 1h
	ran
}

@test "a waiter that is handed the lock finds the success on record, and hands on at once" {
	begin_holder one x
	start two dlock --cooldown 1h x touch two
	wait_until queued x 1
	start three dlock --once today x touch three
	wait_until queued x 2
	start four dlock --cooldown 1h x touch four
	wait_until queued x 3
	start five dlock -w 60 x sh -c 'now=$(date +%s%3N); echo $now >five'
	wait_until queued x 4
	local since=$(now_ms)
	let_go one
	assert_equal "$status" 0
	local waiter
	for waiter in two three four five; do
		finish $waiter
		expect 0
	done
	refute_file two
	assert test -e three # no run has succeeded under that ID
	refute_file four
	# Slow would be the second after which a handover counts as not taken.
	assert_between $(($(<five) - since)) 0 $((900 * TEST_PATIENCE)) 'ms to the last in the queue'
}

@test "a success on record outranks that the lock is busy" {
	job x
	begin_holder one x
	job x -n --cooldown 1h
	skipped
	job x --cooldown 1h
	skipped
	job x -n
	assert_equal "$status" 1
	let_go one
}

@test "the first in the queue leaves: the next gets the lock when a dead holder's expires" {
	cli SET lock:x foreign PX 3000 >/dev/null
	start one dlock --cooldown 1h x touch ran
	wait_until queued x 1
	start two dlock x touch two
	wait_until queued x 2
	cli HSET "$(meta_of x)" success "$(date +%s%6N)" >/dev/null
	finish one # the head behind a foreign holder looks once a second; its next request
	expect 0
	refute_file ran
	finish two
	expect 0
}

@test "no success is on record of a run that was lost, stopped or killed" {
	try dlock -t 3 --cooldown 1h x sh -c 'redis-cli -s "${DLOCK_SERVER#unix://}" SET lock:x other PX 100 >/dev/null'
	assert_equal "$status" 80
	assert_equal "$(success_of x)" ''
	try dlock --max-run 100ms --cooldown 1h y sh -c 'trap "exit 0" TERM; sleep 20 & wait'
	assert_equal "$status" 124
	assert_equal "$(success_of y)" ''
	begin_holder one z
	kill -KILL $one_keeper
	finish one
	assert_equal "$status" 70
	assert_equal "$(success_of z)" ''
	begin_holder two z --grace 0.2
	kill -KILL $two_pid
	finish two
	wait_until is_free z
	assert_equal "$(success_of z)" ''
}

@test "a success is on record though the keeper is killed as it gives the lock back" {
	begin_holder one x
	# It is still to hear that COMMAND has ended.
	kill -STOP $one_keeper
	kill -RTMIN $one_command
	wait_until is_gone $one_command
	kill -KILL $one_keeper
	finish one
	assert_equal "$status" 70
	job x --cooldown 1h
	skipped
}

@test "what --cooldown and --once cost: no connection and no round trip; nothing if not given" {
	local option
	job x
	job x
	cli CONFIG RESETSTAT >/dev/null
	job x
	all_calls >plain
	cli CONFIG RESETSTAT >/dev/null
	job x --cooldown 1us || job x --cooldown 1ms
	while [[ $out == '' ]]; do
		cli CONFIG RESETSTAT >/dev/null
		job x --cooldown 1ms
	done
	all_calls | diff plain -
	cli CONFIG RESETSTAT >/dev/null
	job x --once new
	ran
	all_calls | diff plain - >more || true
	# get: is there one? set: here is one.
	assert_equal "$(grep -c '^>' more)" 2
	assert_equal "$(calls evalsha)" 2
	for option in '--cooldown 1ms' '--once newer' '--cooldown 1h' '--once newer'; do
		start proxy python3 "$BATS_TEST_DIRNAME/../programs/proxy.py" "$PWD/proxy.socket" "$SERVER/socket" "$PWD/turns"
		wait_until test -S proxy.socket
		try dlock -S "unix://$PWD/proxy.socket" $option x echo ran
		wait_until file_has turns end
		if [[ $out == ran ]]; then
			assert_equal "$(paste -sd ' ' turns)" 'connect > < > < end' "$option"
		else
			assert_equal "$(paste -sd ' ' turns)" 'connect > < end' "$option"
		fi
		kill $proxy_pid
		finish proxy
		rm -f turns proxy.socket
	done
}

@test "a year: the success is remembered that long, though others use the lock meanwhile" {
	local day=$((24 * 3600 * 1000))
	try dlock --cooldown 365d x true
	expect 0
	assert_between "$(cli PTTL "$(meta_of x)")" $((365 * day)) $((368 * day))
	job x
	ran
	assert_between "$(cli PTTL "$(meta_of x)")" $((365 * day)) $((368 * day)) 'after a plain run'
	begin_holder one x -t $TEST_PATIENCE
	stays $((1500 * TEST_PATIENCE)) is_held x
	assert_between "$(cli PTTL "$(meta_of x)")" $((365 * day)) $((368 * day)) 'after renewals'
	let_go one
	job x --cooldown 365d
	skipped
	try dlock --cooldown 366d x true
	expect_failure 64 "--cooldown: '366d' is more than 365d"
	try dlock --once a --once-for 366d x true
	expect_failure 64 "--once-for: '366d' is more than 365d"
}

# ---- --once --------------------------------------------------------------------------------------

@test "--once: one success under NAME and ID is enough, and is kept for --once-for" {
	job x --once 2026-11-21
	ran
	job x --once 2026-11-21
	skipped
	assert_between "$(cli PTTL 'lock:{lock:x}:once:2026-11-21')" $((6 * 24 * 3600 * 1000)) $((7 * 24 * 3600 * 1000))
	job x --once 2026-11-22 --once-for 1h
	ran
	assert_between "$(cli PTTL 'lock:{lock:x}:once:2026-11-22')" 3000000 3600000
	job y --once 2026-11-21
	ran
	job x --once 2026-11-21
	skipped
	job x
	ran
}

@test "--once: a success is forgotten when its time is over" {
	job x --once a --once-for $((2 * TEST_PATIENCE))s
	ran
	job x --once a
	skipped
	wait_until eval '[[ $(cli EXISTS "lock:{lock:x}:once:a") == 0 ]]'
	job x --once a
	ran
}

@test "--once: a failure is no success" {
	try dlock --once a x false
	expect 1
	job x --once a
	ran
}

@test "--once: no ID is another's, whatever it holds" {
	job '{t}b' --once 'a'
	job 'b:{t}c' --once '1'
	ran
	job '{t}c' --once '1:b'
	ran
	job '{t}c' --once '1%3Ab'
	ran
	job '{t}c' --once '1:b'
	skipped
	local id
	for id in ' ' '*' 'é' '{x}' '}:' "$(printf 'x%.0s' {1..256})" "$(printf ':%.0s' {1..256})"; do
		job x --once "$id"
		ran
		job x --once "$id"
		skipped
	done
	try dlock status --json
	expect 0 '[]'
}

@test "--once: what is no ID" {
	job x --once ''
	expect_failure 64 "--once: '' is empty"
	job x --once $'a\nb'
	expect_failure 64 "--once: .* control character"
	job x --once $'\xff'
	expect_failure 64 "--once: .* UTF-8"
	job x --once "$(printf 'x%.0s' {1..257})"
	expect_failure 64 "--once: .*256 bytes"
	job x --once-for 1h
	expect_failure 64 "--once-for"
}

# ---- --at-least ----------------------------------------------------------------------------------

@test "--at-least: the lock stays for that long from its grant, though COMMAND ends sooner" {
	local since=$(now_ms)
	job x --at-least 2s
	ran
	assert_between "$took" 0 $((1500 * TEST_PATIENCE)) 'ms for COMMAND'
	assert_between "$(cli PTTL lock:x)" 1 2000
	try dlock -n x true
	expect_failure 1 'held by'
	try dlock x date +%s%3N
	assert_equal "$status" 0
	assert_between $((out - since)) 2000 $((3500 * TEST_PATIENCE)) 'ms from the start of the first'
}

@test "--at-least: a waiter is told when the lock comes free" {
	begin_holder one x --at-least 2s -t 60
	local since=$(now_ms)
	start two dlock x date +%s%3N
	wait_until queued x 1
	let_go one
	expect 0
	finish two
	assert_equal "$status" 0
	assert_between $((out - since)) 500 $((3500 * TEST_PATIENCE)) ms
}

@test "--at-least: a COMMAND that takes longer gives the lock back at its end" {
	try dlock --at-least 300ms x sleep 0.5
	expect 0
	assert is_free x
}

@test "--at-least: it is kept whichever process dies" {
	begin_holder one x --at-least 30s -t 2
	assert_between "$(cli PTTL lock:x)" 20000 30000 'at the grant'
	stays 1500 is_held x
	assert_between "$(cli PTTL lock:x)" 20000 28700 'after a renewal'
	kill -KILL $one_pid $one_keeper
	wait_until is_gone $one_command
	assert_between "$(cli PTTL lock:x)" 10000 28500 'all dead'
	cli DEL lock:x >/dev/null
	cli --scan --pattern '*who*' | xargs redis-cli -s "$SERVER/socket" DEL >/dev/null

	begin_holder two x --at-least 30s --grace 0.2
	kill -KILL $two_pid
	finish two
	wait_until is_gone $two_keeper
	assert_between "$(cli PTTL lock:x)" 10000 30000 'the front dead'
	cli FLUSHALL >/dev/null

	begin_holder three x --at-least 30s
	kill -KILL $three_keeper
	finish three
	assert_equal "$status" 70
	assert_between "$(cli PTTL lock:x)" 10000 30000 'the keeper dead'
	cli FLUSHALL >/dev/null
}

@test "--at-least: COMMAND that kills its keeper at once has run: the lock is kept" {
	local i
	for i in {1..12}; do
		# Such a process takes the processor from no other as it wakes: so COMMAND often runs before its keeper does.
		try chrt -b 0 dlock --at-least 30s x sh -c 'kill -KILL $PPID; sleep 60'
		expect_failure 70 'keeper was killed; COMMAND was stopped'
		assert is_held x
		cli FLUSHALL >/dev/null
	done
}

@test "--at-least: a COMMAND that could not be started has not run" {
	printf '#!/no/such/interpreter\n' >bad
	chmod +x bad
	try dlock --at-least 30s x ./bad
	expect_failure 126 'cannot execute'
	assert is_free x
}

# ---- --max-run -----------------------------------------------------------------------------------

# A COMMAND that has a tree: pids in the file `tree`. Ends with 0 when asked to.
tree() {
	cat >tree.sh <<-'END'
		trap 'exit 0' TERM
		setsid sh -c 'echo $$ >>tree; exec sleep 60' &
		(trap "" TERM; echo $BASHPID >>tree; exec sleep 60) &
		echo $$ >>tree
		sleep 60 & echo $! >>tree
		wait
	END
	echo bash tree.sh
}

@test "--max-run: COMMAND's tree ends before the lock is released, exit 124 though it ends with 0" {
	start one dlock --max-run 3s --grace 1s x $(tree)
	wait_until eval '[[ -e tree && $(wc -l <tree) == 4 ]]'
	start two dlock x sh -c 'for pid in $(cat tree); do [ ! -d /proc/$pid ] || grep -q ") Z" /proc/$pid/stat || echo $pid lives; done'
	finish one
	expect 124 '' 'dlock: x: ran for more than 3s; stopping COMMAND'
	finish two
	expect 0
}

@test "--max-run: stop signal, grace, SIGKILL" {
	start one dlock --max-run 500ms --grace 1s --stop-signal USR1 x witness count count
	wait_until file_has count USR1
	local asked=$(now_ms)
	finish one
	assert_equal "$status" 124
	assert_between $(($(now_ms) - asked)) 500 $((2500 * TEST_PATIENCE)) 'ms between the two'
	assert_equal "$(grep -vc ready count)" 1
	assert is_free x
}

@test "--max-run: a COMMAND that ends in time is left alone" {
	try dlock --max-run 20s x sh -c 'exit 7'
	expect 7
	try dlock --max-run 0 x sleep 0.2
	expect 0
}

@test "--max-run: the time in which COMMAND is stopped counts" {
	begin_holder one x --max-run 1s --grace 200ms
	kill -STOP $one_command
	finish one
	assert_equal "$status" 124
	assert is_free x
}

@test "--max-run: it still counts when only descendants of COMMAND are left" {
	try dlock --max-run $((1500 * TEST_PATIENCE))ms --grace 300ms x bash -c 'setsid sleep 60 & echo $!'
	assert_equal "$status" 0
	local orphan=$out
	assert is_held x
	assert is_alive $orphan
	wait_until is_free x
	assert is_gone $orphan
}

@test "--max-run: the keeper goes on renewing through the grace" {
	start one dlock -t 2 --max-run 500ms --grace 600ms x bash -c 'trap "" TERM; while :; do sleep 0.1; done'
	wait_until is_held x
	finish one
	assert_equal "$status" 124
}

@test "--max-run: a loss while COMMAND is being stopped outranks it" {
	begin_holder one x --max-run 500ms -t 3 --grace 1s
	wait_until file_has one.count TERM
	cli SET lock:x other PX 5000 >/dev/null
	finish one
	assert_equal "$status" 80
	assert owner_is x other
	cli DEL lock:x >/dev/null
}

@test "--max-run: where the keeper stands still the front sees to it" {
	begin_holder one x --max-run 500ms --grace 300ms -t 60
	kill -STOP $one_keeper
	finish one
	assert_equal "$status" 124
	assert_match "$err" 'keeper stood still and --max-run was up'
	assert is_gone $one_command
	assert is_free x
}

@test "--max-run with --on-lost warn: COMMAND has its grace though the lock is gone" {
	begin_holder one x --max-run $((4 * TEST_PATIENCE))s --grace $((2 * TEST_PATIENCE))s \
		-t $((6 * TEST_PATIENCE)) --on-lost warn # a grace in which it is seen that there is one
	cli SET lock:x other PX $((20000 * TEST_PATIENCE)) >/dev/null
	wait_until file_has one.count TERM
	stays 100 is_alive $one_command
	finish one
	assert_equal "$status" 80
	cli DEL lock:x >/dev/null
}

# ---- --if-unreachable ----------------------------------------------------------------------------

@test "--if-unreachable: fail is 69, skip is 0 without running, with a message" {
	local port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	export DLOCK_SERVER=redis://127.0.0.1:$port
	try dlock x touch ran
	expect_failure 69 'cannot reach'
	try dlock --if-unreachable fail x touch ran
	expect_failure 69 'cannot reach'
	try dlock --if-unreachable skip x touch ran
	expect_failure 0 'not run \(--if-unreachable skip\): cannot reach'
	try dlock -q --if-unreachable skip x touch ran
	expect 0
	refute_file ran
	try dlock --if-unreachable never x true
	expect_failure 64 'never'
}

@test "--if-unreachable: a server that does not answer cannot be reached either" {
	server_stop
	try dlock -w 300ms --if-unreachable skip x touch ran
	server_continue
	expect_failure 0 'not run'
	refute_file ran
}

@test "--if-unreachable: that is all it is for" {
	begin_holder one x
	try dlock -n --if-unreachable skip x true
	assert_equal "$status" 1
	let_go one
	cli RPUSH lock:y a >/dev/null
	try dlock --if-unreachable skip y true
	assert_equal "$status" 76
	cli DEL lock:y >/dev/null
	try dlock --if-unreachable skip x ./nothing
	assert_equal "$status" 127
}

# ---- Twenty hosts --------------------------------------------------------------------------------

# Three rounds of a job that every host starts at the same minute by its own clock, while those
# clocks are up to 30 s apart. The first three runs of each round are killed in the middle, each in
# another way; so the fourth succeeds, and all others are to find that on record.
@test "twenty hosts, clocks 30 s apart, kills: one success a round, by --cooldown and by --once" {
	local period=32 hosts=20 kind host round
	cat >job.sh <<-'END'
		# job.sh KIND ROUND
		# One that is dead may be a zombie until the first process of all has time for it.
		if [[ -e running.$1 ]] && state=$(grep State: "/proc/$(<"running.$1")/status" 2>>errors) && [[ $state != *[ZX]' ('* ]]; then
			echo "overlap: $(<"running.$1"), $state" >>"$1.log"
		fi
		echo $$ >"running.$1"
		echo "begin $2" >>"$1.log"
		keeper=$PPID
		front=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$keeper/status")
		case $(grep -c "begin $2" "$1.log") in
		1) victims=$keeper ;;
		2) victims=$front ;;
		3) victims="$front $keeper" ;;
		*) victims= ;;
		esac
		if [[ $victims ]]; then
			trap '' TERM
			kill -KILL $victims
			while :; do sleep 0.1; done
		fi
		sleep 0.3
		echo "done $2" >>"$1.log"
		rm "running.$1"
	END
	cat >host.sh <<-'END'
		# host.sh KIND HOST BASE PERIOD: a host's cron
		for round in 0 1 2; do
			now=${EPOCHREALTIME/[.,]/}
			left=$(($3 + round * $4 * 1000 - ${now:0:-3}))
			((left > 0)) && sleep "$((left / 1000)).$(printf %03d $((left % 1000)))"
			case $1 in
			cooldown) options="--cooldown $(($4 - 1))s" ;;
			once) options="--once round-$round" ;;
			esac
			code=0
			dlock -t 3 --report "$1.$round.$2.json" $options "$1" bash job.sh "$1" $round || code=$?
			echo "$code" >"$1.$round.$2.exit"
		done
	END
	local base=$(($(now_ms) + 4000)) started=()
	for kind in cooldown once; do
		for ((host = 0; host < hosts; host++)); do
			SKEW_MS=$((host * -30000 / (hosts - 1))) start "$kind$host" env PATH="$LOADING:$PATH" LD_PRELOAD="$BIN/skew.so" \
				bash host.sh "$kind" "$host" "$base" "$period"
			started+=("$pid")
		done
	done
	wait_until -t 120 all_gone "${started[@]}"

	for kind in cooldown once; do
		refute grep overlap "$kind.log"
		for round in 0 1 2; do
			assert_equal "$(grep -c "begin $round" "$kind.log")" 4 "runs in round $round of $kind"
			assert_equal "$(grep -c "done $round" "$kind.log")" 1 "successes in round $round of $kind"
			# A dlock that was not killed itself tells how it went.
			assert_equal "$(cat "$kind.$round".*.json | sed 's/.*"outcome":"\([^"]*\)".*/\1/' | sort | uniq -c | xargs)" \
				"$((hosts - 4)) already 1 killed 1 ran" "outcomes of round $round of $kind"
			assert_equal "$(cat "$kind.$round".*.exit | sort -n | uniq -c | xargs)" \
				"$((hosts - 3)) 0 1 70 2 137" "exit codes of round $round of $kind"
		done
	done
}
