# What every lock service must do. Each service is a link to this file, conformance_NAME.bats, with what is
# its own in lib/service_NAME.bash and its column in lib/service_table. A test's name begins with its row.
#
#   ./check --service=NAME tests/service
#
# When a lock was had is said by the commands that had it, by one host's clock; the service is not asked.

load ../lib/helper
load ../lib/work
load ../lib/conformance
load ../lib/deaf
load ../lib/notify_socket

# --- Exclusion ---

@test "exclusive: ten contenders of every kind, one at a time, each fencing token a new maximum" {
	cat >contend <<-'END'
		#!/bin/bash
		for round in 1 2; do
			case $1 in
			run*) dlock -w 60 x ./stint "$1.$round" ;;
			hold*) (
				dlock hold --pid $BASHPID -w 60 --print x >"$1.env" && . "./$1.env" && ./stint "$1.$round"
				dlock release x
				exit $? # not as the last command: a shell becomes that
			) ;;
			take*)
				read -r token fence <<<"$(dlock acquire -w 60 x)"
				DLOCK_FENCE=$fence ./stint "$1.$round" && dlock release x "$token"
				;;
			esac || exit
		done
	END
	local name names='run1 hold1 take1 run2 run3 hold2 take2 run4 hold3 take3'
	has by-token || names=${names//take/run_}
	for name in $names; do
		start $name bash contend $name
	done
	for name in $names; do
		finish $name
		expect 0
	done
	at_a_time 1
	fences_grow
	assert_equal "$(wc -l <fences)" 20 grants
}

@test "exclusive: COMMAND's exit code is dlock's; what cannot be executed takes no lock" {
	local code
	for code in 0 1 7 80 255; do
		try dlock x sh -c "exit $code"
		expect $code
	done
	try dlock x sh -c 'kill -TERM $$'
	expect 143
	try dlock x -c 'echo "$DLOCK_NAME"; exit 3'
	expect 3 x
	holder a x
	try dlock x ./no-such-command
	expect_failure 127 ''
	ends a
	expect 0
}

@test "exclusive: COMMAND has the caller's descriptors, and none of dlock's or of a library" {
	local alone
	exec 9</dev/null 40</dev/null
	try ls /proc/self/fd
	alone=$out
	assert_match "$alone" $'\n40\n9'
	try dlock x ls /proc/self/fd
	expect 0 "$alone"
	try unleaked strace -f -qq -o trace -e trace=close_range -e inject=close_range:error=ENOSYS dlock x ls /proc/self/fd
	expect 0 "$alone" # as before Linux 5.9
}

@test "nonblock: -n is busy at once: 1, or as -E has it; the message names the holder" {
	holder a x
	try dlock -n x touch ran
	expect_failure 1 "^dlock: x: busy: held by $(hostname):$a_pid \(tester, work\) for "
	assert_between "$took" 0 $((2000 * TEST_PATIENCE)) ms
	try dlock -n -E 75 x touch ran
	expect_failure 75 'busy: held by'
	if has by-token; then
		try dlock acquire -n x
		expect_failure 1 'busy: held by'
	fi
	try dlock hold -n x
	expect_failure 1 'busy: held by'
	ends a
	expect 0
	refute_file ran
	try dlock -n x echo free
	expect 0 free
}

@test "wait: -w runs out with 1, or as -E has it, no sooner; before that it gets a free lock" {
	holder a x
	try dlock -w 1 x touch ran
	expect_failure 1 '^dlock: x: busy after 1s: held by'
	assert_between "$took" 1000 $((3000 * TEST_PATIENCE)) ms
	try dlock -w $((300 * TEST_PATIENCE))ms -E 75 x touch ran
	expect_failure 75 "busy after ($((300 * TEST_PATIENCE))ms|1.2s)"
	refute_file ran
	wait_until waits x 0
	waiter b x -w 60
	ends a
	expect 0
	ends b
	expect 0
	after a b
	service_reap
}

# gives_up OPTION...: one waits for 2.5 s, in which b takes the place of a; says in named whether it named b.
gives_up() {
	rm -f ./*.go ./*.pid spans
	holder a x
	waiter b x
	waiter d x # c is not the next, and so hears nothing of b
	start c dlock "$@"
	wait_until waits x 3
	ends a
	expect 0
	wait_until has_begun b
	finish c
	assert_equal "$status$out" 1
	assert_match "$err" '^dlock: x: busy after 2.5s: '
	# If the server does not say in time which holder it is now, the message says of when it is.
	assert_match "$err" "held by $(hostname):($b_pid \(tester, work\) for [0-9]+m?s(, as of [1-9]s ago)?|$a_pid .*, as of [1-9]s ago)\$"
	[[ $err != *":$b_pid "* || $err == *" ago" ]] || named=true
	: >d.go
	ends b
	expect 0
	finish d
	expect 0
}

@test "wait: at the end of -w it names the holder of that moment, and -w as it was given" {
	[[ $(cell order) == yes ]] || return 0 # c may be the next
	local command commands=('-w 2.5 x touch ran') named i
	! has by-token || commands+=('acquire -w 2.5 x')
	for command in "${commands[@]}"; do
		named=false
		for ((i = 0; i < 12 * TEST_PATIENCE; i++)); do
			$named || gives_up $command
		done
		assert $named
	done
	refute_file ran
	service_reap
}

@test "wait: the server stands still to the end of -w: 1, and the message says of when it is" {
	has server || { lacks server; return; }
	local i dated=false
	holder a x
	for i in {1..5}; do # on a slow machine it may stand still for less than a second
		start b dlock -w 3 x touch ran
		wait_until waits x 1
		service_freeze
		finish b
		service_thaw
		# On a busy machine it may be frozen within a request.
		err=$(grep -v '^dlock: x: what was asked for could not be taken back yet; ' <<<"$err")
		expect_failure 1 "^dlock: x: busy after 3s: held by $(hostname):$a_pid "
		[[ ! $err =~ ", as of "[1-9]"s ago"$ ]] || dated=true
		wait_until -t 10 waits x 0
		! $dated || break
	done
	assert $dated
	ends a
	expect 0 '' "$err"
	refute_file ran
	service_reap
}

@test "server: gone while one waits: said once, and once when it is back" {
	has server || { lacks server; return; }
	echo 'settle = 3s' >"$XDG_CONFIG_HOME/dlock.conf" # or a waiter may be before the holder where all have forgotten
	holder a x
	waiter b x
	service_kill
	wait_until file_has b.err 'x: the server is lost, and is tried again and again: .'
	stays 1500 is_alive "$b_pid"
	service_again
	: >b.go
	wait_until dlock status -q x # to take it might be possible, before its holder sets it again
	ends a
	assert_equal "$status" 0
	finish b
	assert_equal "$status" 0
	assert_equal "$(sed 's/\(tried again and again\): .*/\1/' b.err)" 'dlock: x: the server is lost, and is tried again and again
dlock: x: the server answers again'
	after a b
	service_reap
}

@test "server: gone until the end of -w: 69 and why, not the name of a holder" {
	has server || { lacks server; return; }
	holder a x
	start b dlock -w 5 x touch ran
	if has by-token; then
		start c dlock acquire -w 5 x
	else
		start c dlock hold --pid $$ -w 5 x
	fi
	wait_until waits x 2
	service_kill
	finish b
	assert_equal "$status" 69
	refute_match "$err" 'held by|busy'
	finish c
	assert_equal "$status$out" 69
	refute_match "$err" 'held by|busy'
	refute_file ran
	service_again
	wait_until dlock status -q x
	ends a
	assert_equal "$status" 0
	service_reap
}

@test "wait: a terminal shows how long, and the service is told nothing for that" {
	needs terminal
	holder a x
	unleaked python $service "$(cell by-token)" <<-'END'
		import re, subprocess, sys
		from terminal import *

		SENT = re.compile(r"\d+ +(\d+\.\d+) (connect|sendto|sendmsg|sendmmsg|write|writev)\(\d+<socket:")


		def traced(*words):
		    return Terminal("strace", "-qq", "-ttt", "-y", "-f", "-e", "signal=none", "-o", words[0],
		        "-e", "trace=connect,sendto,sendmsg,sendmmsg,write,writev", *words[1:])

		def look(terminal, trace):
		    terminal.expect("waiting for ([7-9]|1[0-9])s", 30)
		    at = [float(line.group(1)) for line in SENT.finditer(open(trace).read())]
		    check(bool(at) == (sys.argv[1] != "file"), "seen to be sent: %r" % at)
		    # From the second second to the sixth. A sign of life is due every 1.6 s (etcd), or 2 s in two
		    # pieces (ZooKeeper); to ask anew would be two or four pieces for each second's line.
		    late = [moment - at[0] for moment in at if 2 <= moment - at[0] < 6]
		    check(len(late) < 8, "sent for the line: %r" % late)

		run = traced("ran", "dlock", "x", "true")
		by_token = sys.argv[2] == "yes"
		take = traced("taken", "dlock", *(["acquire", "x"] if by_token else ["x", "true"]))  # acquire: in one process
		look(run, "ran")
		look(take, "taken")
		open("a.go", "w").close()
		status = take.wait()
		check(status == ("exit", 0), status)
		if by_token:
		    token = re.search(r"\S+:\S+ [0-9]+\s*$", take.seen)
		    check(token, take.seen)
		    subprocess.run(["dlock", "release", "x", token.group().strip()], check=True)
		status = run.wait()
		check(status == ("exit", 0), status)
	END
	finish a
	expect 0
}

@test "wait: a service manager is told of the wait, of the grant, and of the end" {
	notify_socket
	holder one x
	start two env NOTIFY_SOCKET="$NOTIFY_SOCKET" WATCHDOG_USEC=400000 dlock --notify-ready x ./work two
	wait_until file_has told "^$two_pid WATCHDOG=1\|EXTEND_TIMEOUT_USEC=60000000\|STATUS=waiting for x(, 1 ahead)?; held by .*:$one_pid "
	local lines
	lines=$(wc -l <told)
	wait_until eval '(($(wc -l <told) > lines + 1))' # it asks for time again
	refute grep -q READY told
	ends one
	wait_until file_has told "^$two_pid READY=1\|STATUS=holds x since "
	ends two
	expect 0
	wait_until file_has told "^$two_pid STATUS=released x; COMMAND ended with 0"
}

@test "wait: a signal ends a waiter, which gives its place back and dies of it" {
	holder a x
	local name
	for name in INT TERM HUP QUIT; do
		waiter b x
		kill -$name "$b_pid"
		finish b
		assert_equal "$status" $((128 + $(kill -l $name))) "exit of $name"
		wait_until waits x 0
	done
	refute has_begun b
	ends a
	expect 0
	assert is_to_be_had x
}

# --- Order ---

@test "order: the release wakes the next, at once; in the order of arrival, if there is one" {
	local name last=a
	holder a x
	for name in b c d e; do
		waiter $name x
	done
	for name in b c d e; do
		: >$name.go
	done
	ends a
	for name in b c d e; do
		finish $name
		expect 0
	done
	at_a_time 1
	assert_equal "$(sed -n 's/.* begin //p' spans | head -n 1)" a
	if [[ $(cell order) == yes ]]; then
		assert_equal "$(sed -n 's/.* begin //p' spans | tr '\n' ' ')" 'a b c d e '
		for name in b c d e; do
			after $last $name 500
			last=$name
		done
	else
		assert_equal "$(cell order)" woken
		after a "$(sed -n 's/.* begin //p' spans | sed -n 2p)" 900
	fi
	service_reap
}

# The look at the ancestors, a tenth of a second after the request, is over.
sleep_on() {
	local before
	before=$(times_woken "$@")
	sleep 0.2
	[[ $(times_woken "$@") == "$before" ]]
}

@test "order: a waiter sleeps, and is not woken to ask again and again" {
	counts_threads
	holder a x
	waiter b x
	waiter c x
	local before after began ms
	wait_until sleep_on $(processes_of "$b_pid" "$c_pid")
	before=$(times_woken $(processes_of "$b_pid" "$c_pid"))
	began=$EPOCHREALTIME
	stays 3000 is_one_at_most
	after=$(times_woken $(processes_of "$b_pid" "$c_pid"))
	# Once a second each. On a busy machine more than 3 s have passed.
	ms=$(((${EPOCHREALTIME/[.,]/} - ${began/[.,]/}) / 1000))
	assert_between $((after - before)) 0 $(((2 * ms + 999) / 1000)) "times that two were woken in $ms ms"
	assert_between "$before" 2 999999 'times that they ever were'
	: >b.go
	: >c.go
	ends a
	finish b
	expect 0
	finish c
	expect 0
	at_a_time 1
	service_reap
}

@test "dead-waiter: one that was killed holds up the next no longer than promised" {
	holder a x
	waiter b x
	waiter c x
	waiter d x
	service_settles
	signal_waiters KILL "$b_pid"
	ends a
	expect 0
	wait_until eval 'has_begun c || has_begun d'
	local next=c
	has_begun c || next=d
	after a $next $(($(cell dead-waiter) + 500))
	[[ $(cell order) != yes ]] || assert_equal $next c
	: >c.go
	: >d.go
	finish c
	expect 0
	finish d
	expect 0
	at_a_time 1
	service_reap
}

@test "dead-waiter: one, two and five in a row, killed or stopped, cost a second each at most" {
	"$PYTHON" "$BATS_TEST_DIRNAME/../programs/order.py" lame $(($(cell dead-waiter) + 500)) 1 2 5
	service_reap
	wait_until -t 30 nothing_is_left
}

# --- Modes ---

@test "order: of a holder, a first and a second in every mode none overtakes" {
	[[ $(cell order) == yes ]] || return 0
	local modes=x
	! has shared || modes+=' s'
	! has permits || modes+=' 1 3 9'
	# A waiter that does nothing for too long has no place to keep: no more at a time than a busy machine runs.
	"$PYTHON" "$BATS_TEST_DIRNAME/../programs/order.py" modes $(($(service_crowd) / TEST_PATIENCE)) $modes
}

@test "shared: many at a time, no writer beside them; no reader overtakes a writer that waits" {
	has shared || { refuses shared; return; }
	holder a x -s
	holder b x --shared
	assert is_taken x
	assert is_to_be_had -s x
	waiter w x
	waiter c x -s
	waiter d x -s
	refute has_begun c
	ends a
	expect 0
	assert is_taken x
	refute has_begun w
	ends b
	expect 0
	wait_until has_begun w
	assert is_taken x -s
	ends w
	wait_until has_begun c
	wait_until has_begun d
	after b w 500
	after w c
	after w d
	ends c
	expect 0
	ends d
	expect 0
}

# slots_overlap: in ./slots, lines "begin|end SLOT" in order, one that begins before it has ended.
slots_overlap() { awk '{ if ($1 == "begin" && held[$2]++) print "slot " $2 } $1 == "end" { held[$2]-- }' slots; }

@test "shared: the longer of two shares ends, the other is a dead host's: the next has it then" {
	has shared || { refuses shared; return; }
	local least how fence
	least=$(ttl 5) # not over before the longer one ends, and long before a waiter looks by itself
	# By force twice: a waiter that a busy machine has look just then would find the end by itself.
	local by_force='try dlock release --force --fence "$fence" x'
	for how in 'ends b' "$by_force" "$by_force"; do
		rm -f ./*.go ./*.pid spans
		holder a x -s -t "$least"
		holder b x -s -t "$(ttl 600)" # so that its keeper has no renewal to hear of the end by
		waiter c x
		fence=$(tr '\0' '\n' <"/proc/$b_command/environ" | sed -n 's/^DLOCK_FENCE=//p')
		kill -STOP "$a_pid" "$a_keeper"
		kill -KILL "$a_pid" "$a_keeper"
		wait_until is_gone "$a_command"
		eval "$how"
		assert_equal "$status" 0
		wait_until -t $(($(in_ms "$least") / 1000 + 5)) has_begun c
		ends c
		expect 0
		kill -KILL "$b_pid" 2>/dev/null || true
	done
	service_reap
}

@test "permits: DLOCK_SLOT is the lowest that no other holder has, and free when that ends" {
	has permits || { refuses permits; return; }
	if ! has cooldown; then # the services without a record have no slots either
		try env DLOCK_SLOT=7 dlock --permits 3 x sh -c 'echo "${DLOCK_SLOT-none}"'
		expect 0 none
		return
	fi
	local i token
	# Fifteen for three: each says when it begins and ends, and the first three are there at the same time.
	for i in {1..15}; do
		start p$i dlock --permits 3 x sh -c 'echo "begin $DLOCK_SLOT" >>slots
			until [ "$(grep -c begin slots)" -ge 3 ]; do sleep 0.02; done
			sleep 0.05; echo "end $DLOCK_SLOT" >>slots'
	done
	for i in {1..15}; do
		finish p$i
		expect 0
	done
	assert_equal "$(slots_overlap)" ''
	assert_equal "$(sed -n 's/^begin //p' slots | sort -u | tr '\n' ' ')" '0 1 2 '
	# One that was killed, one that was detached, one that was broken.
	holder a y --permits 3
	holder b y --permits 3
	assert_equal "$(slot_of a) $(slot_of b)" '0 1'
	assert_equal "$(dlock --permits 3 y sh -c 'dlock --permits 3 y sh -c "echo \$DLOCK_SLOT"')" 2
	kill -KILL $a_pid
	finish a
	wait_until eval '[[ $(dlock --permits 3 y sh -c "echo \$DLOCK_SLOT") == 0 ]]'
	if has by-token; then
		try dlock acquire --permits 3 y
		token=${out% *}
		assert_equal "$(dlock --permits 3 y sh -c 'echo $DLOCK_SLOT')" 2
		try dlock release y "$token"
	fi
	assert_equal "$(dlock --permits 3 y sh -c 'echo $DLOCK_SLOT')" 0
	ends b
	expect 0
	try env DLOCK_SLOT=7 dlock y sh -c 'echo "${DLOCK_SLOT-none}"'
	expect 0 none
	service_reap
}

has_woken() { [[ $(times_woken "$@") != "$before" ]]; } # PID...
slot_of() { tr '\0' '\n' <"/proc/$(<"$1.pid")/environ" | sed -n 's/^DLOCK_SLOT=//p'; } # NAME

@test "permits: as many as there are, and no more" {
	has permits || { refuses permits; return; }
	local i
	for i in 1 2 3 4 5 6; do
		start p$i dlock --permits 2 x ./stint p$i
	done
	for i in 1 2 3 4 5 6; do
		finish p$i
		expect 0
	done
	at_a_time 2
	rm spans
	holder a x --permits 2
	holder b x --permits 2
	assert is_taken x --permits 2
	assert is_taken x
	waiter c x --permits 2
	ends a
	expect 0
	wait_until has_begun c
	after a c 500
	ends b
	expect 0
	ends c
	expect 0
}

@test "priority: goes ahead of those that wait" {
	has priority || { refuses priority; return; }
	holder a x
	waiter low x --priority -5
	waiter mid x
	waiter high x --priority 5
	: >low.go
	: >mid.go
	: >high.go
	ends a
	expect 0
	local name
	for name in high mid low; do
		finish $name
		expect 0
	done
	assert_equal "$(sed -n 's/.* begin //p' spans | tr '\n' ' ')" 'a high mid low '
}

@test "also: all or none; one that is busy keeps none of the others" {
	has also || { refuses also; return; }
	holder a y
	try dlock -n --also y x touch ran
	expect_failure 1 'y is held by'
	# The end of -n or -w is kept, though three servers on a busy disk may still be writing the release.
	wait_until -t 5 is_to_be_had x
	# Two answers come within -w: for less time than a busy server takes for these, it is 69 (run/also.bats).
	# A server may be too slow to take x back at once, which is said then.
	try dlock -w $((2 * TEST_PATIENCE)) --also y x touch ran
	assert_equal "$status$out" 1
	assert_match "${err##*$'\n'}" '^dlock: x: busy after .*: y is held by'
	refute_file ran
	wait_until -t 5 is_to_be_had x
	ends a
	expect 0
	holder b x --also y --also z
	assert is_taken x
	assert is_taken y
	assert is_taken z
	assert_match "$(tr '\0' '\n' <"/proc/$b_command/environ" | sed -n 's/^DLOCK_FENCES=//p')" \
		'^x=[0-9]+ y=[0-9]+ z=[0-9]+$'
	kill -KILL "$b_keeper"
	finish b
	expect 70 '' "$err"
	assert is_to_be_had --also y --also z x
}

@test "also: one that waits for the second sleeps, and the release wakes it in its turn" {
	has also || { refuses also; return; }
	counts_threads
	local before after began ms
	holder a y
	start b dlock --also y x ./work b
	wait_until waits y 1
	waiter c y
	stays $((1500 * TEST_PATIENCE)) is_one_at_most # once, after a second, it looks for a circle of waits
	# Begun just after a look, which wakes it up to three times: so there is no more than one in each second.
	before=$(times_woken $(processes_of "$b_pid"))
	wait_until -t 2 has_woken $(processes_of "$b_pid") || true # some services do not wake it at all
	wait_until sleep_on $(processes_of "$b_pid")
	before=$(times_woken $(processes_of "$b_pid"))
	began=$EPOCHREALTIME
	stays 2000 is_one_at_most
	after=$(times_woken $(processes_of "$b_pid"))
	# On a busy machine more than 2 s have passed.
	ms=$(((${EPOCHREALTIME/[.,]/} - ${began/[.,]/}) / 1000))
	assert_between $((after - before)) 0 $(((3 * ms + 999) / 1000)) "times that it was woken in $ms ms"
	: >b.go
	: >c.go
	ends a
	finish b
	expect 0
	finish c
	expect 0
	at_a_time 1
	[[ $(cell order) != yes ]] || assert_equal "$(sed -n 's/.* begin //p' spans | tr '\n' ' ')" 'a b c '
	after a b 500
	service_reap
}

@test "also: the front is killed while it waits for the second: the first is free at once" {
	has also || { refuses also; return; }
	holder a y
	start b dlock --also y x touch ran
	wait_until waits y 1
	kill -KILL "$b_pid"
	finish b
	wait_until -t 5 is_to_be_had x
	refute_file ran
	ends a
	expect 0
	service_reap
}

@test "also: the keeper is killed while it waits for the second: 70, the first is free at once" {
	has also || { refuses also; return; }
	holder a y
	start b dlock --also y x touch ran
	wait_until waits y 1
	kill -KILL "$(keeper_of "$b_pid")"
	finish b
	assert_equal "$status" 70
	wait_until -t 5 is_to_be_had x
	wait_until -t 5 waits y 0
	refute_file ran
	ends a
	expect 0
	service_reap
}

@test "also: a signal ends it while the server stands still: what it held is free later" {
	has also || { refuses also; return; }
	has server || { lacks server; return; }
	local round us at keeper its_life
	# The keeper tries for two seconds a lock. A machine that stands still for so long shows nothing, and has another go.
	for round in 1 2 3 4 5; do
		holder "a$round" "y$round"
		start b dlock --also "y$round" "x$round" touch ran
		wait_until waits "y$round" 1
		keeper=$(keeper_of "$b_pid")
		service_freeze
		now_us
		at=$us
		kill -TERM "$b_pid"
		finish b
		its_life=lives
		is_alive "$keeper" || its_life=over
		service_thaw
		now_us
		refute_file ran
		assert_equal "$status" 143
		((us - at > 1800000)) || break
		ends "a$round"
	done
	# The keeper gives it back: a server may drop the request of a client that has gone.
	assert_equal "$its_life" lives
	wait_until -t 5 is_to_be_had "x$round"
	refute_file ran
	ends "a$round"
	expect 0
	service_reap
}

@test "also: front, keeper, both killed or stopped with one of two locks: none stays, no overlap" {
	has also || { refuses also; return; }
	needs trace
	local said failed=0 most options=()
	IFS=: read -r _ _ most <<<"$(cell ttl)"
	[[ -z $most ]] || options+=(--longest $((most / 1000)))
	said=$(unleaked "$PYTHON" "$BATS_TEST_DIRNAME/../faults" --url "$DLOCK_SERVER" --only '*,*,*,[KS]*,*' --workers 4 \
		--seconds "${SOAK_SECONDS:-20}" --slow "$((($(in_ms "$(ttl 3)") + 2) / 3))e-3" "${options[@]}" \
		--dlock "$(realpath "$BIN/dlock")" 2>&1 3>&- 4>&-) || failed=1
	echo "$said"
	echo "# $service: ${said%%$'\n'*}" >&3
	# The walk ends with waiters killed; their leases last as long as a holder's lock, 60 s and 2 s.
	wait_until -t 65 nothing_is_left
	service_reap
	return $failed
}

# --- Renewal and loss ---

@test "exclusive: renewed beyond its TTL, held all the while, and COMMAND is left alone" {
	local least
	least=$(ttl 2)
	begin_holder a x -t "$least"
	stays $(($(in_ms "$least") * 5 / 2)) is_taken x
	assert_equal "$(received a)" ''
	let_go a
	expect 0
	assert is_to_be_had x
}

@test "steal: taken away behind its back: COMMAND is stopped, 80, and the thief is left alone" {
	has steal || { lacks steal; return; }
	local least began
	least=$(ttl 3)
	holder a x -t "$least" --report report
	waiter b x
	began=$(now_ms)
	service_steal x
	wait_until is_gone "$a_command"
	assert_between $(($(now_ms) - began)) 0 "$(in_ms "$least")" 'ms until COMMAND was gone'
	finish a
	expect_failure 80 'lost'
	assert_equal "$(jq -r .outcome report)" lost
	refute has_begun b
	assert is_taken x
	service_foreign_drop x
	ends b
	expect 0
	after a b
	service_reap
}

@test "server: silent beyond the TTL: COMMAND that heeds no signal is dead before the next begins" {
	has server || { lacks server; return; }
	cat >deaf <<-'END'
		#!/bin/bash
		trap '' TERM
		exec ./work "$@"
	END
	chmod +x deaf
	start a dlock -t "$(ttl 3)" x ./deaf a
	wait_until has_begun a
	waiter b x
	service_freeze
	finish a
	assert_equal "$status" 80
	assert_match "$err" 'the lock cannot be proved any longer; stopping COMMAND'
	service_thaw
	ends b
	expect 0 '' "$err"
	# On a busy machine the server is silent for long enough to be called lost.
	refute grep -vE ': (the server (is lost|answers again)|cannot renew the lock)' b.err
	refute has_ended a
	after a b
	service_reap
}

@test "server: killed and back within the TTL: the holder keeps its lock, the waiter its patience" {
	has server || { lacks server; return; }
	echo 'settle = 3s' >"$XDG_CONFIG_HOME/dlock.conf"
	holder a x -t "$(ttl "$(service_restart)")"
	waiter b x
	service_kill
	service_again
	# A server that forgets has the lock again with the next renewal, before its settle time is over.
	wait_until is_taken x
	stays $((4000 * TEST_PATIENCE)) is_one_at_most
	refute has_begun b
	ends a
	assert_equal "$status" 0
	ends b
	expect 0 '' "$err"
	after a b
	service_reap
}

@test "server: its name cannot be looked up any more: it is where it was, and the job goes on" {
	has server || { lacks server; return; }
	needs mount
	names_begin
	DLOCK_SERVER=$(service_named)
	start a ./with_names dlock -vv -t "$(ttl "$(service_restart)")" x ./work a
	start b ./with_names dlock y ./work b
	wait_until has_begun a
	wait_until has_begun b
	# A front without its keeper releases over a connection of its own.
	kill -KILL "$(parent_of "$(<b.pid)")"
	finish b
	assert_equal "$status" 70
	assert_equal "$(DLOCK_SERVER=$(service_url) dlock -n y echo free)" free
	: >hosts
	try ./with_names dlock -n x touch ran
	assert_equal "$status" 69 "$err"
	refute_file ran
	service_kill
	service_again
	: >a.err
	wait_until -t 30 file_has a.err 'it is set again|the lock is renewed'
	ends a
	assert_equal "$status" 0
	DLOCK_SERVER=$(service_url)
	service_reap
}

@test "force: it breaks a run: 80, COMMAND is stopped, the next has a greater fencing token" {
	local least began fence
	least=$(ttl 3)
	start a dlock -t "$least" x sh -c 'echo $DLOCK_FENCE; exec ./work a'
	wait_until has_begun a
	start b dlock x sh -c 'echo $DLOCK_FENCE; exec ./work b'
	wait_until waits x 1
	began=$(now_ms)
	try dlock release --force x
	assert_equal "$status$out" 0
	assert_match "$err" \
		"^dlock: x: released by force: held by $(hostname):$a_pid \(tester, sh\) for .*; its COMMAND is stopped within [0-9]+s\$"
	finish a
	assert_between $(($(now_ms) - began)) 0 "$(in_ms "$least")" 'ms until it was stopped'
	assert_equal "$status" 80
	assert_match "$err" lost
	fence=$out
	refute has_ended a
	ends b
	assert_equal "$status$err" 0
	((out > fence)) || fail "fencing token $out after $fence"
	try dlock release --force x
	expect_failure 1 'it is free'
	service_reap
}

@test "force: the keeper is killed before it has noticed: 80 all the same" {
	start a dlock -t "$(ttl 20)" x sh -c 'echo $PPID >keeper; exec ./work a'
	wait_until has_begun a
	kill -STOP "$(<keeper)"
	dlock release --force x 2>broken
	kill -KILL "$(<keeper)"
	finish a
	assert_equal "$status" 80 "$err"
	assert_match "$err" "dlock's keeper was killed; COMMAND was stopped"
	assert is_to_be_had x
	service_reap
}

@test "force: a lock that stays for --at-least: no COMMAND is said to be stopped, as it has ended" {
	has at-least || { refuses at-least; return; }
	local mode modes=('')
	! has shared || modes+=(-s)
	! has permits || modes+=('--permits 2')
	for mode in "${modes[@]}"; do
		# shellcheck disable=SC2086 # words
		try dlock --at-least 1h $mode x true
		expect 0
		assert is_taken x
		try dlock release --force x
		assert_equal "$status$out" 0
		assert_match "$err" "^dlock: x: released by force: held by $(hostname):[0-9]+ \(tester, true\) for [^;]*\$"
		assert is_to_be_had x
	done
	service_reap
}

@test "force: COMMAND that heeds no signal is gone within the time that the message says" {
	local began said
	start a dlock -t "$(ttl 6)" x sh -c "trap '' TERM; : >a.ready; while [ ! -e a.go ]; do sleep 0.05; done"
	wait_until test -e a.ready
	try dlock release --force x
	began=$(now_ms)
	said=${err##*within } said=${said%s}
	assert_match "$said" '^[0-9]+$' 'the seconds that the message says'
	finish a
	assert_equal "$status" 80
	assert_between $(($(now_ms) - began)) 0 $((said * 1000 + 1000 * TEST_PATIENCE)) "ms, of ${said}s"
	service_reap
}

@test "force: --fence breaks the lock of the holder with this fencing token alone" {
	local first second code
	start a dlock x sh -c 'echo $DLOCK_FENCE; exec ./work a'
	wait_until has_begun a
	first=$(<a.out)
	for code in 1 $((first + 1)) 9223372036854775807; do
		try dlock release --force --fence $code x
		expect_failure 1 "no holder has the fencing token $code: nothing was released"
	done
	waiter b x -t "$(ttl 3)"
	ends a
	expect 0 "$first"
	wait_until has_begun b
	# It is of the one before, as a script may have it from a look that was too long ago.
	try dlock release --force --fence "$first" x
	expect_failure 1 "no holder has the fencing token $first"
	assert is_taken x
	assert is_alive "$b_command"
	second=$(dlock status --json x | jq '.[0].fence')
	try dlock release --force --fence "$second" x
	assert_equal "$status$out" 0
	assert_match "$err" "released by force: held by $(hostname):$b_pid "
	finish b
	assert_equal "$status" 80
	try dlock release --force --fence "$second" x
	expect_failure 1 'no holder has the fencing token'
	assert is_to_be_had x
	service_reap
}

@test "force: --fence: another client's lock has none; a detached one, as acquire printed it" {
	has by-token || { refuses by-token; return; }
	local line
	line=$(dlock acquire x)
	try dlock release --force --fence "${line#* }" x
	assert_equal "$status$out" 0
	assert_match "$err" 'released by force: held by .*\(tester, acquire\) for [^;]*$'
	try dlock renew x $line
	expect_failure 1 'not held with this token'
	service_foreign_take x
	try dlock release --force --fence "${line#* }" x
	expect_failure 1 'no holder has the fencing token'
	try dlock -n x true
	expect_failure 1 busy
	service_foreign_drop x
	service_reap
}

@test "force: --fence: of many that share the lock one loses it, and no more" {
	has shared || { refuses shared; return; }
	local mode fence name
	for mode in -s --permits=3; do
		rm -f ./*.go ./*.pid spans
		for name in a b c; do
			holder $name x $mode -t "$(ttl 3)"
		done
		fence=$(tr '\0' '\n' <"/proc/$b_command/environ" | sed -n 's/^DLOCK_FENCE=//p')
		try dlock release --force --fence "$fence" x
		assert_equal "$status$out" 0
		assert_match "$err" "^dlock: x: released by force: held by $(hostname):$b_pid "
		refute_match "$err" $'\n'
		try dlock release --force --fence "$fence" x
		expect_failure 1 'no holder has the fencing token'
		finish b
		assert_equal "$status" 80
		assert is_taken x
		assert is_to_be_had $mode x
		ends a
		expect 0
		assert is_taken x
		ends c
		expect 0
		assert is_to_be_had x
	done
	service_reap
}

@test "force: a waiter stays; a detached lock is released, and its token is then wrong" {
	has by-token || { refuses by-token; return; }
	try dlock acquire x
	assert_equal "$status" 0
	local token=${out% *}
	waiter b x
	try dlock release --force x
	assert_match "$err" 'released by force: held by .*\(tester, acquire\)'
	wait_until has_begun b
	try dlock renew x "$token"
	expect_failure 1 'not held with this token'
	try dlock release x "$token"
	expect_failure 1 'not held with this token'
	assert is_taken x
	ends b
	expect 0
	service_reap
}

# --- Processes that are killed ---

@test "processes: the front is killed: COMMAND is stopped, and the next begins after that, soon" {
	holder a x
	waiter b x
	kill -KILL "$a_pid"
	wait_until has_begun b
	assert is_gone "$a_command"
	after a b 2000
	ends b
	expect 0
	finish a
	service_reap
}

@test "processes: the keeper is killed: COMMAND dies, 70, and the next begins after that, soon" {
	holder a x
	waiter b x
	kill -KILL "$a_keeper"
	finish a
	assert_equal "$status" 70
	assert is_gone "$a_command"
	ends b
	expect 0
	after a b 2000
	service_reap
}

@test "processes: the front is killed while it waits: its place is free at once, COMMAND not run" {
	local keeper
	holder a x
	start b dlock x touch ran
	wait_until waits x 1
	keeper=$(keeper_of "$b_pid")
	kill -KILL "$b_pid"
	finish b
	wait_until -t 5 is_gone "$keeper"
	wait_until -t 5 waits x 0
	ends a
	expect 0
	assert is_to_be_had x
	refute_file ran
	service_reap
}

@test "processes: the keeper is killed while it waits: 70, its place is free, COMMAND not run" {
	holder a x
	start b dlock x touch ran
	wait_until waits x 1
	kill -KILL "$(keeper_of "$b_pid")"
	finish b
	expect_failure 70 "^dlock: x: dlock's keeper was killed\$"
	wait_until -t 5 waits x 0
	ends a
	expect 0
	assert is_to_be_had x
	refute_file ran
	service_reap
}

@test "processes: the front is stopped while it waits: the next goes first, then COMMAND begins" {
	holder a x
	waiter b x
	kill -STOP "$b_pid"
	wait_until is_stopped "$b_pid"
	waiter c x
	ends a
	expect 0
	wait_until has_begun c
	refute has_begun b
	ends c
	expect 0
	stays 500 eval '! has_begun b'
	kill -CONT "$b_pid"
	ends b
	expect 0
	after c b
	service_reap
}

@test "processes: the keeper is stopped while it waits: a signal ends it all the same" {
	local keeper
	holder a x
	start b dlock x touch ran
	wait_until waits x 1
	keeper=$(keeper_of "$b_pid")
	kill -STOP "$keeper"
	wait_until is_stopped "$keeper"
	kill -TERM "$b_pid"
	finish b
	assert_equal "$status" 143
	assert is_gone "$keeper"
	wait_until -t 5 waits x 0
	ends a
	expect 0
	assert is_to_be_had x
	refute_file ran
	service_reap
}

@test "processes: both are killed: COMMAND dies, the next begins after that, by the TTL" {
	local least
	least=$(ttl 3)
	holder a x -t "$least"
	waiter b x
	kill -KILL "$a_keeper" "$a_pid"
	wait_until is_gone "$a_command"
	ends b
	expect 0
	after a b $(($(in_ms "$least") / TEST_PATIENCE + 1500))
	finish a
	service_reap
}

@test "processes: COMMAND is killed: 137, and the next begins" {
	holder a x
	waiter b x
	kill -KILL "$a_command"
	finish a
	expect 137 '' "$err"
	ends b
	expect 0
	after a b 500
	service_reap
}

@test "processes: what COMMAND leaves running keeps the lock; not with -o" {
	try dlock x sh -c 'setsid ./work a & until [ -e a.pid ]; do sleep 0.02; done'
	assert_equal "$status" 0
	assert_match "$err" "$(<a.pid)"
	assert is_taken x
	waiter b x
	: >a.go
	ends b
	expect 0
	after a b 1000
	rm a.go a.pid
	try dlock -o x sh -c 'setsid ./work a & until [ -e a.pid ]; do sleep 0.02; done'
	assert_equal "$status" 0
	assert is_to_be_had x
	: >a.go
}

# What ./shown, from status, says of the holder: its process first, then what stays as it is. Each server of a
# quorum has a moment of its own for the grant.
named() {
	jq -c --arg service "$service" '.[0] | [(.holders[0] | .pid, .user, .label, if $service == "quorum" then 0 else .since end),
		.fence, .mode]' shown
}
is_named() { dlock status --json x >shown && [[ $(named) == "[$1,"$2 ]]; }

# left_to_keeper OPTION...: COMMAND leaves ./work behind. From then on status and the busy message name the
# keeper, and nothing else of the record has changed.
left_to_keeper() {
	local front keeper before
	rm -f a.go a.pid
	try dlock "$@" x sh -c 'setsid ./work a &
		while [ ! -e a.pid ]; do sleep 0.02; done
		dlock status --json x >shown; echo $PPID >keeper; sleep '"$run"
	assert_equal "$status" 0 "$err"
	keeper=$(<keeper)
	before=$(named)
	front=${before%%,*}
	assert is_gone "${front#[}"
	wait_until -t 3 is_named "$keeper" "${before#*,}"
	try dlock -n x true
	expect_failure 1 "busy: held by $(hostname):$keeper \(tester, sh\) for "
	: >a.go
	wait_until is_gone "$keeper"
	assert is_to_be_had x
}

@test "processes: what COMMAND leaves running: the lock is shown as its keeper's" {
	local run
	# Before the first renewal, and after it.
	for run in 0 "$(awk "BEGIN { print $(in_ms "$(ttl 3)") / 2000 }")"; do
		left_to_keeper -t "$(ttl 3)"
		! has shared || left_to_keeper -t "$(ttl 3)" -s
		! has permits || left_to_keeper -t "$(ttl 3)" --permits 2
		! has also || left_to_keeper -t "$(ttl 3)" --also y
	done
	service_reap
}

# is_passed_on PID REST: the lock is shown as that of a process which lives and is not PID; its pid is in owner.
is_passed_on() {
	dlock status --json x >shown && owner=$(jq '.[0].holders[0].pid // 0' shown) &&
		((owner > 0 && owner != $1)) && is_alive "$owner" && [[ $(named) == "[$owner,"$2 ]]
}

@test "processes: the keeper is killed, what COMMAND left is stopped: shown as one that lives" {
	local mode before keeper owner modes=('')
	! has shared || modes+=(-s)
	! has permits || modes+=('--permits 2')
	for mode in "${modes[@]}"; do
		rm -f a.pid
		# shellcheck disable=SC2086 # words
		try dlock -t 36s --grace 10s $mode x bash -c '
			trap "" TERM
			setsid ./work a </dev/null >/dev/null 2>&1 &
			until [[ -e a.pid ]]; do sleep 0.02; done
			dlock status --json x >shown
			echo $PPID >keeper'
		assert_equal "$status" 0 "$err"
		before=$(named)
		keeper=$(<keeper)
		wait_until -t 3 is_named "$keeper" "${before#*,}"
		kill -KILL "$keeper"
		wait_until -t 5 is_passed_on "$keeper" "${before#*,}"
		try dlock -n x true
		expect_failure 1 "busy: held by $(hostname):$owner \(tester, bash\) for "
		kill -KILL "$(<a.pid)"
		wait_until is_gone "$owner"
		assert is_to_be_had x
	done
	service_reap
}

@test "hold: its script has ended and a dlock inside goes on: the lock is shown as the keeper's" {
	cat >script <<-'END'
		dlock hold x || exit
		dlock status --json x >shown
		setsid dlock x ./work a &
		while [[ ! -e a.pid ]]; do sleep 0.02; done
	END
	start a bash script
	finish a
	assert_equal "$status" 0
	local keeper before
	before=$(named)
	assert_equal "${before%%,*}" "[$a_pid"
	wait_until -t 3 eval '! is_named "$a_pid" "*"'
	keeper=$(jq '.[0].holders[0].pid' shown)
	assert is_alive "$keeper"
	assert is_named "$keeper" "${before#*,}"
	: >a.go
	wait_until is_gone "$keeper"
	service_reap
}

@test "processes: the front is killed: while COMMAND is stopped the lock is its keeper's" {
	start_deaf a --grace 5
	a_keeper=$(parent_of "$a_command")
	kill -KILL "$a_pid"
	wait_until -t 3 is_named "$a_keeper" '*'
	kill -KILL "$a_command"
	finish a
	service_reap
}

@test "processes: the keeper is killed as it releases: 70; COMMAND had ended, and was not stopped" {
	has server || return 0 # nothing keeps it from the release
	local keeper
	holder a x
	keeper=$(parent_of "$(<a.pid)")
	service_freeze
	: >a.go
	wait_until refute_file "/proc/$(<a.pid)/stat" # reaped
	kill -KILL "$keeper"
	service_thaw
	finish a
	expect_failure 70 "dlock's keeper was killed; COMMAND had ended"
	wait_until is_to_be_had x
	service_reap
}

@test "max-run: COMMAND's tree is stopped, 124, and the lock is free" {
	try dlock --max-run 500ms --report report x sh -c './work a & ./work b'
	assert_equal "$status" 124
	assert_between "$took" 500 $((5000 * TEST_PATIENCE)) ms
	assert is_gone "$(<a.pid)"
	assert is_gone "$(<b.pid)"
	assert_equal "$(jq -r .outcome report)" max-run
	assert is_to_be_had x
}

# What COMMAND left, which has ./work's name and its pid in NAME.pid.
@test "once: a success that was told counts, though what COMMAND left is stopped later" {
	has once || { refuses once; return; }
	local left='./work left >/dev/null 2>&1 & until [ -s left.pid ]; do sleep 0.02; done'
	try dlock --once one --max-run $((2 * TEST_PATIENCE)) x bash -c "$left"
	expect 0 '' "$err"
	wait_until is_gone "$(<left.pid)"
	wait_until is_to_be_had x
	try dlock --once one x touch again
	expect 0

	rm left.pid
	try dlock --once two x bash -c "$left"
	expect 0 '' "$err"
	assert is_alive "$(<left.pid)"
	kill -KILL "$(parent_of "$(<left.pid)")"
	wait_until is_gone "$(<left.pid)"
	wait_until is_to_be_had x
	try dlock --once two x touch again
	expect 0

	rm left.pid
	try dlock --once three --max-run $((2 * TEST_PATIENCE)) x bash -c "$left; wait"
	expect 124 '' "$err"
	try dlock --once three x echo ran
	expect 0 ran
	refute_file again
}

@test "processes: first of a namespace, it stops what COMMAND left and releases before it ends" {
	needs pids
	local left='./work left >/dev/null 2>&1 & until [ -s left.pid ]; do sleep 0.02; done; exit 7'
	try in_pids dlock -t 30s x bash -c "$left"
	assert_equal "$status" 7 "$err"
	assert_match "$err" 'first process'
	assert is_to_be_had x
}

# --- hold ---

@test "hold: until the script ends, or releases, or is killed; lost: the script is stopped" {
	cat >script <<-'END'
		#!/bin/bash
		dlock hold -t "$3" x || exit
		[[ $2 != release ]] || { ./work "$1" && dlock release x && exec ./work "$1-after"; }
		exec ./work "$1"
	END
	holding() { # NAME WHAT
		start "$1" bash script "$1" "$2" "$(ttl 3)"
		wait_until has_begun "$1"
		assert is_taken x
	}
	holding a end
	waiter b x
	ends a
	expect 0
	ends b
	expect 0
	after a b 1000

	holding c release
	: >c.go
	wait_until has_begun c-after
	assert is_to_be_had x
	: >c-after.go
	finish c
	expect 0

	holding d end
	waiter e x
	kill -KILL "$d_pid"
	ends e
	expect 0
	after d e 2000
	finish d

	holding f end
	dlock release --force x 2>broken
	finish f
	assert_equal "$status" 143
	wait_until is_to_be_had x
	service_reap
}

# write_trapped: ./trapped, which holds x. A signal has it put its name into ./traps, and end with 3 once
# ./done is there: in that it takes its time, as a service's last steps do.
write_trapped() {
	cat >trapped <<-'END'
		#!/bin/bash
		last() {
			echo "$1" >>traps
			until [[ -e done ]]; do sleep 0.02; done
			exit 3
		}
		for one in TERM INT HUP QUIT; do
			trap "last $one" $one
		done
		dlock hold -t "$1" x || exit
		touch held
		while :; do sleep 0.02; done
	END
}

hold_keeper() {
	local one
	for one in $(marked_pids); do
		[[ $(proc_status "$one" Name) != "dlock hold" ]] || echo "$one"
	done
}

@test "hold: a signal to its keeper is the script's: none has the lock beside its last steps" {
	write_trapped
	local sig keeper
	for sig in TERM INT HUP QUIT both; do
		rm -f traps done held
		start script bash trapped 30s
		wait_until test -e held
		keeper=$(hold_keeper)
		if [[ $sig == both ]]; then
			kill -TERM "$script_pid" "$keeper"
		else
			kill -$sig "$keeper"
		fi
		wait_until is_file traps
		stays 500 is_taken x
		[[ $sig == both ]] || assert_file traps "$sig"
		assert is_alive "$keeper"
		touch done
		finish script
		expect 3
		wait_until is_to_be_had x
	done
}

@test "hold: a script that hides /proc after the grant is stopped whole when the lock is lost" {
	needs mount
	cat >script <<-'END'
		dlock hold -t "$1" x || exit
		./work child &
		until grep -qs 'begin child$' spans; do sleep 0.02; done
		mount -t tmpfs none /proc || exit
		exec ./work a
	END
	start a in_mounts bash script "$(ttl 3)"
	wait_until has_begun a
	dlock release --force x 2>broken
	finish a
	assert_equal "$status" 143 "$err"
	wait_until is_gone "$(<child.pid)"
	wait_until is_to_be_had x
	service_reap
}

# --- Re-entrance, deadlocks ---

@test "reentrance: inside its holder it is had at once, one token, one fence; siblings too" {
	try dlock x sh -c 'echo $DLOCK_TOKEN $DLOCK_FENCE; dlock -n x sh -c "echo \$DLOCK_TOKEN \$DLOCK_FENCE; exit 7"'
	assert_equal "$status$err" 7
	assert_equal "$(sed 2d try.out)" "$(sed 1d try.out)"
	try dlock x env -i XDG_CONFIG_HOME="$XDG_CONFIG_HOME" DLOCK_SERVER="$DLOCK_SERVER" "$BIN/dlock" -n x echo in
	expect 0 in
	try dlock x dlock y dlock -n x echo in
	expect 0 in
	cat >both <<-'END'
		#!/bin/bash
		dlock x sh -c ': >first; until [ -e second ]; do sleep 0.02; done' &
		dlock x sh -c ': >second; until [ -e first ]; do sleep 0.02; done'
		wait
	END
	try dlock x bash both
	expect 0
	assert is_to_be_had x
}

@test "reentrance: 40 deep, the innermost is inside the outermost; its environment cleared, too" {
	local i chain
	for chain in '' 'env -i'; do
		local words=($chain "$BIN/dlock" -S "$DLOCK_SERVER" -w 10 x0 echo inner)
		for ((i = 40; i >= 0; i--)); do
			words=(dlock -w 10 "x$i" "${words[@]}")
		done
		try "${words[@]}"
		expect 0 inner "$err"
		refute_match "$err" busy
	done
}

@test "reentrance: what runs inside keeps the lock when the outer ended, also before a renewal" {
	local renewed
	for renewed in no yes; do
		rm -f ./*.go ./*.pid spans
		holder a x -t "$(ttl 2)"
		DLOCK_TOKEN=$(tr '\0' '\n' <"/proc/$a_command/environ" | sed -n 's/^DLOCK_TOKEN=//p') \
			start inner dlock -t "$(ttl 2)" x ./work inner
		wait_until has_begun inner
		waiter b x
		[[ $renewed == no ]] || stays "$(in_ms "$(ttl 2)")" is_alive "$inner_pid"
		ends a
		assert_equal "$status" 0
		assert_match "$err" "$inner_pid"
		assert is_taken x
		stays "$(in_ms "$(ttl 2)")" is_alive "$inner_pid"
		refute has_begun b
		ends inner
		expect 0
		ends b
		expect 0
		after inner b
	done
	service_reap
}

@test "shared: inside a holder with -s or a permit another mode is 81, and the message says why" {
	has shared || { refuses shared; return; }
	local why='waiting would deadlock: the dlock around this one holds it %s; use the same mode inside$'
	try dlock -s x dlock x true
	expect_failure 81 "${why/\%s/shared \\(-s\\)}"
	try dlock --permits 2 x dlock -s x true
	expect_failure 81 "${why/\%s/by a permit \\(--permits\\)}"
	assert is_to_be_had x
}

# partner NAME MINE OTHER: holds MINE; with ./go takes OTHER. The exit code of that is in ./NAME.code.
partner() {
	start "$1" dlock "$2" sh -c ": >has.$1; until [ -e go.$1 ]; do sleep 0.02; done; dlock -w 30 $3 true; echo \$? >$1.code"
	wait_until test -e "has.$1"
}

@test "deadlock: of two that wait for each other one leaves with 81, the other has it" {
	has deadlock || { lacks deadlock; return; }
	partner one a b
	partner two b a
	: >go.one
	wait_until waits b 1
	: >go.two
	finish one
	finish two
	assert_equal "$(sort -n one.code two.code | tr '\n' ' ')" '0 81 '
	assert_match "$(cat one.err two.err)" '^dlock: .: waiting would deadlock: . is held by [^ ]*:[0-9]+, which waits for ., which is held by a dlock around this one; take these locks in one order everywhere$'
}

# --- Without a process ---

@test "by-token: acquire leaves a lock, no process; renew and release go by its token alone" {
	has by-token || { refuses by-token; return; }
	local least
	least=$(ttl 3)
	try dlock acquire -t "$least" x
	assert_equal "$status$err" 0
	assert_match "$out" "^$(hostname):[0-9]+:[0-9a-f]{32} [0-9]+\$"
	local token=${out% *} i
	assert nothing_runs
	assert is_taken x
	assert_equal "$(dlock status --json x | jq -c '.[0].holders | map(.detached)')" '[true]'
	local end=$(($(now_ms) + $(in_ms "$least") * 3 / 2))
	while (($(now_ms) < end)); do # a busy machine may take a second for a look, so it is renewed after each
		assert is_taken x
		try dlock renew x "$token"
		expect 0
	done
	for i in renew release; do
		try dlock $i x "$(hostname):1:00112233445566778899aabbccddeeff"
		expect_failure 1 'not held with this token'
	done
	assert is_taken x
	try dlock release x "$token"
	expect 0
	assert is_to_be_had x
	for i in renew release; do
		try dlock $i x "$token"
		expect_failure 1 'not held with this token|released with this token before'
	done
	service_reap
}

@test "by-token: renew and release take the line that acquire printed as one word or as two" {
	has by-token || { refuses by-token; return; }
	local line step
	for step in 'release x "$line"' 'release x $line' 'release x - <<<"$line"'; do
		line=$(dlock acquire x)
		try dlock renew x "$line"
		expect 0
		try dlock renew x $line
		expect 0
		assert is_taken x
		try eval "dlock $step"
		expect 0
		assert is_to_be_had x
		try dlock renew x "$line"
		expect_failure 1 'not held with this token|released with this token before'
	done
	service_reap # a busy machine may not get to the slowest servers of a quorum before the release ends
}

@test "by-token: nobody renews it: the next has it at its TTL, not before" {
	has by-token || { refuses by-token; return; }
	local least began token
	least=$(ttl 2)
	began=$(now_ms)
	try dlock acquire -t "$least" x
	assert_equal "$status" 0
	token=${out% *}
	start b dlock -w 60 x ./work b
	ends b
	expect 0
	assert_between $(($(moment b begin) / 1000 - began)) "$(in_ms "$least")" $(($(in_ms "$least") + 2000 * TEST_PATIENCE)) ms
	try dlock renew x "$token"
	expect_failure 1 'not held with this token'
	service_reap
}

@test "by-token: renewed for a shorter time it ends then, and one that waits has it" {
	has by-token || { refuses by-token; return; }
	local least began token
	least=$(ttl 3)
	try dlock acquire -t 30m x
	assert_equal "$status" 0
	token=${out% *}
	waiter b x
	began=$(now_ms)
	try dlock renew -t "$least" x "$token"
	expect 0
	ends b
	expect 0
	assert_between $(($(moment b begin) / 1000 - began)) "$(in_ms "$least")" $(($(in_ms "$least") + 2500 * TEST_PATIENCE)) ms
	service_reap
}

# --- Whether to run at all ---

@test "once: a success is on record under its ID; a failure is not" {
	has once || { refuses once; return; }
	try dlock --once monday x sh -c 'exit 3'
	expect 3
	try dlock --once monday x echo ran
	expect 0 ran
	try dlock --once monday --report report x echo ran
	expect 0 '' "$err"
	assert_equal "$(jq -r .outcome report)" already
	try dlock --once tuesday x echo ran
	expect 0 ran
	try dlock --once monday y echo ran
	expect 0 ran
	try dlock --once friday --once-for 1s x echo ran
	expect 0 ran
	wait_until eval '[[ $(dlock -q --once friday --once-for 1s x echo ran) == ran ]]'
}

@test "cooldown: skipped within it, run after it" {
	has cooldown || { refuses cooldown; return; }
	try dlock --cooldown 1m x sh -c 'exit 3'
	expect 3
	try dlock --cooldown 1m x echo ran
	expect 0 ran
	try dlock --cooldown 1m x echo ran
	expect 0 '' "$err"
	wait_until eval '[[ $(dlock -q --cooldown 1s x echo ran) == ran ]]'
	assert_between $(($(date +%s%3N) - $(date -r try.out +%s%3N))) 500 $((15000 * TEST_PATIENCE)) ms
}

# waits_within LIMIT NAME LOCK [OPTION]...: a waiter that asks within LIMIT ms of the moment before `a` was begun.
waits_within() {
	local limit=$1
	waiter "${@:2}"
	(($(now_ms) - asked < limit))
}

@test "cooldown: counts from when the success began to when a run asked, however long it waits" {
	has cooldown || { refuses cooldown; return; }
	local span asked
	holder a x
	# A slot that comes due while the first still runs.
	wait_until eval '(($(now_ms) - $(moment a begin) / 1000 > 1000))'
	waiter due x --cooldown 500ms
	# One of the same slot.
	waiter same x --cooldown 1h
	all_end a
	finish a
	ends same
	expect 0
	assert_equal "$err" ''
	wait_until has_begun due
	ends due
	refute has_begun same
	# One of the same slot waits beyond the cooldown: it is to be shorter than that, yet not over before it asks.
	for span in 2 8 32; do
		asked=$(now_ms)
		holder a$span y$span
		waits_within $((span * 900)) b$span y$span --cooldown $span && break
		all_end a$span
		ends b$span # passed over, if it was in time after all
	done
	wait_until -t 40 eval '(($(now_ms) - asked > span * 1000 + 500))'
	ends a$span
	ends b$span
	expect 0
	refute has_begun b$span
	try dlock -v --cooldown 1h y$span echo ran
	assert_match "$err" "not run: it succeeded [0-9.]+m?s ago \\(begun [0-9.]+m?s ago, on [^ ]+\\)"
	service_reap
}

@test "cooldown: of many that ask at once one runs, and the others end without a word" {
	has cooldown || { refuses cooldown; return; }
	local i round
	for round in 1 2 3; do
		for i in {1..15}; do
			start p$i dlock --cooldown 1h x$round sh -c "echo >>ran$round; sleep 0.1"
		done
		for i in {1..15}; do
			finish p$i
			assert_equal "$status$out$err" 0
		done
		assert_equal "$(wc -l <ran$round)" 1 'runs'
	done
	service_reap
}

@test "cooldown: a waiter learns of a success though the lock stays, or goes to another" {
	has cooldown || { refuses cooldown; return; }
	# It is kept; the waiter stands behind others, for which a success is nothing.
	start a dlock --at-least 1h x ./work a
	wait_until has_begun a
	waiter p x
	waiter q x
	waiter b x --cooldown 1h
	ends a
	wait_until -t 1 is_gone "$b_pid" # by a message: it would look by itself after seconds
	finish b
	expect 0
	assert is_taken x
	refute has_begun b
	try dlock release --force x
	ends p
	ends q
	# It goes to one that would run in any case.
	holder c y
	waiter other y
	waiter d y --cooldown 1h
	ends c
	finish d
	expect 0
	refute has_begun d
	wait_until has_begun other
	ends other
	service_reap
}

@test "once: a waiter learns of a success under its ID though the lock is kept" {
	has once || { refuses once; return; }
	start a dlock --at-least 1h --once monday --once-for 50s x ./work a
	wait_until has_begun a
	waiter b x --once monday
	ends a
	finish b
	expect 0
	assert is_taken x
	refute has_begun b
	try dlock release --force x
	service_reap
}

@test "at-least: the lock is kept for so long from its grant, though COMMAND has ended" {
	has at-least || { refuses at-least; return; }
	: >a.go
	local began
	began=$(now_ms)
	try dlock --at-least 2s x ./work a
	expect 0
	assert is_taken x
	start b dlock -w 60 x ./work b
	ends b
	expect 0
	kept_for a b 2000 $((4500 * TEST_PATIENCE))
	service_reap
}

# kept_for A B LEAST MOST: B had the lock LEAST ms after $began, when A had asked for it, or later; and MOST ms after A
# began, which a busy machine may start long after the grant, or sooner.
kept_for() {
	assert_between $(($(moment "$2" begin) / 1000 - began)) "$3" 3600000 'ms from asking to grant'
	assert_between $((($(moment "$2" begin) - $(moment "$1" begin)) / 1000)) 0 "$4" 'ms from COMMAND to COMMAND'
}

# ./outer LOCK NAME: leaves ./work NAME behind, in a dlock inside.
write_outer() {
	cat >outer <<-'END'
		#!/bin/bash
		dlock "$1" ./work "$2" &
		until [[ -s $2.pid ]]; do
			sleep 0.02
		done
	END
	chmod +x outer
}

@test "at-least: one that waits has the lock when that time is over, not at its TTL" {
	has at-least || { refuses at-least; return; }
	local kept=$((8 * TEST_PATIENCE)) began # so that it is not over before the waiters are there
	began=$(now_ms)
	holder a x -t 30m --at-least ${kept}s
	waiter b x
	waiter c x
	ends a
	ends b
	expect 0
	ends c
	expect 0
	kept_for a b $((kept * 1000)) $((kept * 1000 + 2500 * TEST_PATIENCE))
	service_reap
}

@test "at-least: a lock by token is kept for so long, whoever releases it, and its token ends" {
	has at-least || { refuses at-least; return; }
	local kept=$((4 * TEST_PATIENCE)) began step
	began=$(now_ms)
	try dlock acquire -t 30m --at-least ${kept}s x
	assert_equal "$status" 0
	local token=${out% *}
	waiter b x
	try dlock release x "$token"
	expect 0
	for step in release renew; do
		try dlock $step x "$token"
		expect_failure 1 'not held with this token|released with this token before'
	done
	ends b
	expect 0
	assert_between $(($(moment b begin) / 1000 - began)) $((kept * 1000)) $((kept * 1000 + 3000 * TEST_PATIENCE)) ms
	service_reap
}

@test "at-least: a renewal by token cuts it no shorter, and makes it no longer" {
	has at-least || { refuses at-least; return; }
	local least token
	least=$(ttl 3)
	try dlock acquire -t "$least" --at-least 1h x
	assert_equal "$status" 0
	token=${out% *}
	try dlock renew x "$token"
	expect 0
	try dlock renew -t "$least" x "$token"
	expect 0
	assert_between "$(dlock status --json x | jq '.[0].ttl_ms')" 3000000 3600000 ms
	try dlock release --force x
	try dlock acquire -t "$least" --at-least 1s x
	token=${out% *}
	try dlock renew -t 1h x "$token"
	expect 0
	try dlock renew x "$token"
	expect 0
	assert_between "$(dlock status --json x | jq '.[0].ttl_ms')" 1 "$(in_ms "$least")" ms
	try dlock release --force x
	service_reap
}

@test "at-least: whatever dies after the grant, the lock is kept" {
	has at-least || { refuses at-least; return; }
	local least
	least=$(ttl 2)
	holder a x -t "$least" --at-least 1h
	wait_until eval 'dlock status --json x | jq -e ".[0].ttl_ms | . == null or . > 600000"'
	kill -STOP "$a_keeper"
	wait_until is_stopped "$a_keeper"
	kill -KILL "$a_keeper" "$a_pid"
	finish a
	wait_until is_gone "$a_command"
	stays $(($(in_ms "$least") + 500)) is_taken x
	try dlock release --force x
	expect 0 '' "$err"
	assert is_to_be_had x
	service_reap
}

@test "at-least: it is kept, too, if a dlock inside ends after the outer one, and before that" {
	has at-least || { refuses at-least; return; }
	write_outer
	local began=$EPOCHREALTIME kept
	# The shortest session of ZooKeeper is 4 s.
	kept=$(in_ms "$(ttl $(($(least_ms) < 4000 ? 4 : 8)))")
	try dlock -o --at-least ${kept}ms x ./outer x b
	assert_equal "$status" 0
	assert is_taken x
	: >b.go
	wait_until is_gone "$(<b.pid)"
	stays $((kept - 500 - (${EPOCHREALTIME/[.,]/} - ${began/[.,]/}) / 1000)) is_taken x
	wait_until -t 10 is_to_be_had x
	service_reap
}

@test "at-least: a dlock inside that outlives the outer one keeps the lock, and for longer" {
	has at-least || { refuses at-least; return; }
	write_outer
	try dlock -o --at-least 1s x ./outer x b
	assert_equal "$status" 0
	# Longer than the shortest session of ZooKeeper, and sooner than an inner dlock renews by itself.
	stays $(($(least_ms) + 2500)) is_taken x
	: >b.go
	wait_until is_to_be_had x
	service_reap
}

@test "at-least: a lock that is kept so has no inside, though its COMMAND's token is known" {
	has at-least || { refuses at-least; return; }
	try dlock --at-least 3s x sh -c 'echo "$DLOCK_TOKEN"'
	assert_equal "$status" 0
	DLOCK_TOKEN=$out assert is_taken x
	try dlock -w 60 x true
	expect 0
	service_reap
}

# --- What is said ---

# reports OUTCOME EXIT: what ./report says, of the last try.
reports() {
	assert_equal "$(jq -r '"\(.outcome) \(.exit) \(.name)"' report)" "$1 $2 x" "report of $tried"
	assert_equal "$status" "$2" "exit of $tried"
}

@test "report: ran, busy, timeout, with fence, server and times" {
	try dlock --report report x sh -c 'echo $DLOCK_FENCE; sleep 0.2; exit 4'
	reports ran 4
	assert_equal "$(jq -r '"\(.fence) \(.server) \(.command_exit) \(.reclaimed) \(.survivors)"' report)" \
		"$out $(service_shown) 4 0 []"
	assert_between "$(jq .held_ms report)" 200 $((10000 * TEST_PATIENCE)) 'ms held'
	holder a x
	try dlock -n --report report x true
	reports busy 1
	try dlock -w $((300 * TEST_PATIENCE))ms --report report x true
	reports timeout 1
	assert_between "$(jq .waited_ms report)" 300 $((10000 * TEST_PATIENCE)) 'ms waited'
	ends a
	expect 0
	service_reap
}

@test "fence: only grows, over all kinds of grants, what breaks and ends them, and a restart" {
	local kinds=('') mode token
	! has shared || kinds+=(-s)
	! has permits || kinds+=('--permits 2')
	! has priority || kinds+=('--priority 3')
	! has also || kinds+=('--also y')
	! has once || kinds+=('--once id')
	grants() {
		for mode in "${kinds[@]}"; do
			dlock $mode x printenv DLOCK_FENCE >>fences
			[[ $mode == --once* ]] || ! has by-token || {
				read -r token fence <<<"$(dlock acquire $mode x)"
				echo "$fence" >>fences
				dlock release x "$token"
			}
		done
		bash -c 'dlock hold --print x >env && . ./env && echo $DLOCK_FENCE >>fences; :'
		wait_until is_to_be_had x
	}
	kinds=("${kinds[@]/--also y --once/}")
	[[ " ${kinds[*]} " != *--also* ]] || kinds=("${kinds[@]/--also y/}") # acquire gives several back one by one
	grants
	# Several at a time have one each.
	if has shared; then
		start a dlock -s x sh -c 'echo $DLOCK_FENCE >>fences; exec ./work a'
		wait_until has_begun a
		start b dlock -s x sh -c 'echo $DLOCK_FENCE >>fences; exec ./work b'
		wait_until has_begun b
		all_end a b
		finish a
		finish b
	fi
	if has by-token; then
		dlock acquire -t "$(ttl 1)" x | cut -d' ' -f2 >>fences
		dlock -w 60 x printenv DLOCK_FENCE >>fences # it has expired
	fi
	start c dlock -t "$(ttl 3)" x sh -c 'echo $DLOCK_FENCE >>fences; exec ./work c'
	wait_until has_begun c
	dlock release --force x 2>broken
	finish c
	assert_growing fences
	if has server; then
		service_kill
		service_again
	fi
	kinds=('')
	grants
	assert_growing fences
	assert_between "$(wc -l <fences)" 9 99 grants
	service_reap
}

@test "fence: guard lets the newest through, and no older one" {
	try dlock x dlock guard state echo first
	expect 0 first
	local fence
	fence=$(dlock x printenv DLOCK_FENCE)
	try dlock guard --fence "$fence" state echo old
	expect 0 old
	try dlock x dlock guard state echo newer
	expect 0 newer
	try dlock guard --fence "$fence" state touch ran
	expect_failure 82 ''
	refute_file ran
}

shape() { PYTHONDONTWRITEBYTECODE=1 "$PYTHON" "$BATS_TEST_DIRNAME/../programs/$1.py" <try.out >shape.out; }

@test "status: holders and waiters, as a table, as JSON, for node_exporter" {
	holder a x --label 'step 1'
	waiter b x
	try dlock status x
	assert_equal "$status$err" 0
	assert_match "$out" $'^NAME .*\nx +exclusive +'"$(hostname):$a_pid tester step 1 .* 1\$"
	try dlock status --json
	assert_equal "$status$err" 0
	shape status_shape
	assert_equal "$(jq -r '.[] | select(.name == "x") | "\(.mode) \(.holders[0].pid) \(.holders[0].label) \(.holders[0].detached)",
		"\(.waiting) \(.waiters[0].pid) \(.waiters[0].mode)"' try.out)" "exclusive $a_pid step 1 false
1 $b_pid exclusive"
	local fence
	fence=$(tr '\0' '\n' <"/proc/$a_command/environ" | sed -n 's/^DLOCK_FENCE=//p')
	assert_equal "$(jq '.[0].fence' try.out)" "$fence" fence
	try dlock status --openmetrics
	assert_equal "$status$err" 0
	shape openmetrics
	assert grep -qxF 'dlock_held{name="x"} 1' try.out
	assert grep -qxF 'dlock_waiters{name="x"} 1' try.out
	assert grep -qE '^dlock_acquisitions_total\{name="x"\} [1-9]' try.out
	ends a
	expect 0
	ends b
	expect 0
	try dlock status x
	assert_equal "$status" 1
	try dlock status -q x
	expect 1
	try dlock status --json no-such-lock
	assert_equal "$status $out" '1 []'
	has by-token || return 0
	try dlock acquire xyz
	local token=${out% *}
	assert_equal "$(dlock status --json 'x?[z]' | jq -c '.[] | [.name, .holders[0].detached, .holders[0].label]')" \
		'["xyz",true,"acquire"]'
	try dlock release xyz "$token"
	expect 0
	service_reap
}

@test "status: what ran last, though the NAME is free; --succeeded-within: whether that is recent" {
	if ! has cooldown; then
		try dlock status --succeeded-within 1h x
		expect_failure 64 '--succeeded-within cannot be had from'
		holder a x
		assert_equal "$(dlock status --json x | jq -c '.[0] | [.last_run, .last_success]')" '[null,null]'
		ends a
		service_reap
		return
	fi
	try dlock status --succeeded-within 1h x
	expect_failure 1 'dlock: x: no run is on record'
	try dlock --label good x true
	expect 0
	try dlock status --succeeded-within 1h x
	expect 0
	try dlock --label bad x sh -c 'exit 7'
	expect 7
	try dlock status --json x
	assert_equal "$status$err" 1
	shape status_shape
	assert_equal "$(jq -c '.[0] | [.mode, .last_run.exit, .last_run.label, .last_success.exit, .last_success.label]' try.out)" \
		'["free",7,"bad",0,"good"]'
	assert_equal "$(jq -r '.[0] | .last_run.host, .last_success.host' try.out | sort -u)" "$(hostname)"
	jq -e '.[0] | .last_success.began <= .last_success.ended and .last_success.ended <= .last_run.began' try.out
	try dlock status x
	assert_equal "$status$err" 1
	assert_match "$out" "x +free +- .*"$'\n'"last success [0-9.]+m?s ago on $(hostname), took [0-9.]+[mu]?s; last run failed \\(7\\) [0-9.]+m?s ago on $(hostname), took [0-9.]+[mu]?s\$"
	try dlock status --openmetrics
	shape openmetrics
	assert grep -qxF 'dlock_last_run_exit_code{name="x"} 7' try.out
	assert grep -qE '^dlock_last_success_timestamp_seconds\{name="x"\} [0-9]+\.[0-9]{6}$' try.out
	assert grep -qE '^dlock_last_run_duration_seconds\{name="x"\} [0-9]+\.[0-9]{6}$' try.out
	wait_until eval '! dlock -q status --succeeded-within 100ms x'
	try dlock status --succeeded-within 100ms x
	expect_failure 1 'dlock: x: last success .* last run failed \(7\)'
	# A run that is stopped has failed, what waits or holds without a COMMAND is none.
	try dlock --max-run 100ms x sleep 60
	assert_equal "$status" 124
	try dlock status --json x
	assert_equal "$(jq '.[0].last_run.exit' try.out)" 124
	try dlock status --succeeded-within 1h '*'
	expect_failure 64 'one NAME'
	service_reap
}

@test "names: odd ones are locks of their own, and shown as they are" {
	local long name names held=0
	take() { # NAME
		held=$((held + 1))
		start "h$held" dlock -n -- "$1" ./work "h$held"
		wait_until has_begun "h$held"
	}
	give_back() {
		ends "h$held"
		expect 0
		held=$((held - 1))
	}
	long=$(printf 'n%.0s' {1..511})
	names=('a' 'a/b' '/a' '.a' '..' 'a b' 'é' '%41' 'A' 'a%2Fb' '{a}' "it's" '"q"\' '*' '-' "${long}1" "${long}2")
	for name in "${names[@]}"; do
		assert is_to_be_had -- "$name"
		take "$name"
	done
	for name in "${names[@]}"; do
		refute is_to_be_had -- "$name"
	done
	try dlock status --json
	assert_equal "$(jq -r '.[].name' try.out | LC_ALL=C sort)" "$(printf '%s\n' "${names[@]}" | LC_ALL=C sort)"
	for name in "${names[@]}"; do
		give_back
	done
	try dlock status --json
	assert_equal "$(jq -c 'map(select(.holders != []))' try.out)" '[]'
}

@test "check: fit, or nearly so; a trial leaves nothing" {
	try dlock check --json
	assert_between "$status" 0 1 'exit code'
	assert_equal "$(jq -r '"\(.server) \(.exit) \(.verdict)"' try.out)" \
		"$(service_shown) $status $([[ $status == 0 ]] && echo ok || echo warning)"
	jq -e '.findings | length > 0 and all(.[]; keys_unsorted == ["server", "check", "verdict", "found", "advice"])' try.out >/dev/null
	try dlock check
	assert_match "$out" $'^(SERVER +)?CHECK +VERDICT +FOUND\n'
	assert nothing_is_left
}

# --- Which service ---

@test "settle: a server that has just come up gives no lock; a setting of the file only is passed" {
	has settle || {
		refuses settle
		echo 'settle = 1h' >"$XDG_CONFIG_HOME/dlock.conf"
		try dlock -n x echo ran
		expect 0 ran
		return
	}
	try dlock -w $((300 * TEST_PATIENCE))ms --settle 1h x touch ran
	expect_failure 1 'started .* ago'
	refute_file ran
	service_kill
	local began
	began=$(now_ms)
	service_again
	try dlock --settle 2s x echo ran
	expect 0 ran "$err"
	assert_between $(($(now_ms) - began)) 2000 $((8000 * TEST_PATIENCE)) ms
	service_reap
}

@test "replicas: a grant counts if so many have it" {
	has replicas || { refuses replicas; return; }
	try dlock --wait-replicas 1:200ms x touch ran
	expect_failure 69 ''
	refute_file ran
	assert is_to_be_had x
}

@test "ttl: what the service cannot keep is refused, its least is kept" {
	local least less most
	IFS=: read -r least less most <<<"$(cell ttl)"
	try dlock -t $((least - 1))ms x touch ran
	assert_equal "$status" "$less"
	if has by-token; then
		try dlock acquire -t $((least - 1))ms x
		assert_equal "$status" "$less"
	fi
	if [[ -n $most ]]; then
		try dlock -t $((most + 1))ms x touch ran
		assert_equal "$status" "$less"
	fi
	refute_file ran
	assert is_to_be_had x
	try dlock -t "${least}ms" x echo ran
	expect 0 ran
}

@test "server: away: 69 at once, or skipped" {
	try dlock --if-unreachable skip x echo ran
	expect 0 ran
	has server || { lacks server; return; }
	service_kill
	local command commands=('x touch ran' 'hold x' 'status' 'release --force x')
	! has by-token || commands+=('acquire x')
	for command in "${commands[@]}"; do
		try dlock $command
		assert_equal "$status" 69 "dlock $command"
		assert_between "$took" 0 $((3000 * TEST_PATIENCE)) "ms of dlock $command"
	done
	try dlock --report report x touch ran
	assert_equal "$(jq -r '"\(.outcome) \(.exit)"' report)" 'unreachable 69'
	try dlock --if-unreachable skip --report report x touch ran
	expect_failure 0 ''
	assert_equal "$(jq -r '"\(.outcome) \(.exit)"' report)" 'skipped 0'
	try dlock check
	assert_equal "$status" 69
	refute_file ran
	service_again
	assert is_to_be_had x
}

@test "server: silent: 69 after -w, and nothing is left of the request when it goes on" {
	has server || { lacks server; return; }
	service_freeze
	try dlock -w 1 x touch ran
	expect_failure 69 ''
	assert_between "$took" 900 $((3000 * TEST_PATIENCE)) ms
	try dlock -w 1 --if-unreachable skip x touch ran
	expect_failure 0 ''
	service_thaw
	wait_until is_to_be_had x
	refute_file ran
	service_reap
}

@test "url: a wrong one is 64, by option and by environment, before COMMAND" {
	local wrong
	while read -r wrong; do
		try dlock -S "$wrong" x touch ran
		expect_failure 64 ''
		DLOCK_SERVER=$wrong try dlock x touch ran
		expect_failure 64 ''
	done <<<"$(service_wrong)"
	refute_file ran
}

@test "format: what a newer dlock keeps is refused with 78 before anything is changed" {
	local command
	try dlock x true
	expect 0
	service_keeps x 2
	service_dump x >before
	for command in '-n x touch ran' '-w 5 x touch ran' '-s -n x touch ran' 'acquire x' 'release --force x' 'status x'; do
		[[ $command != -s* ]] || has shared || continue
		[[ $command != acquire* ]] || has by-token || continue
		try dlock $command
		assert_equal "$status" 78 "dlock $command: $err"
		assert_match "$err" 'keeps this lock for a newer dlock than this one .*dlock format 2'
	done
	refute_file ran
	service_dump x >after
	assert_equal "$(diff before after)" ""
	service_keeps x 1
	try dlock -n x echo free
	expect 0 free
	service_reap
}

@test "foreign: another client excludes dlock, and dlock it, in every mode" {
	service_foreign_take x
	try dlock -n x touch ran
	expect_failure 1 '^dlock: x: busy: '
	refute_file ran
	assert_equal "$(dlock status --json x | jq -r '.[0] | "\(.mode) \(.holders)"')" 'foreign []'
	waiter b x
	stays 300 is_alive "$b_pid"
	refute has_begun b
	service_foreign_drop x
	wait_until has_begun b
	refute service_foreign_take x
	ends b
	expect 0
	local modes='-x' mode
	! has shared || modes+=' -s'
	! has permits || modes+=' --permits=2'
	for mode in $modes; do
		rm -f a.go
		holder a x $mode
		refute service_foreign_take x
		ends a
		expect 0
		service_foreign_take x
		assert is_taken x $mode
		service_foreign_drop x
		sed -i '/ a$/d' spans
	done
	service_reap
}

# --- All of it at once ---

@test "soak: random kills and stops, judged by flock(2)" {
	local modes=x said failed=0 pid harm options=()
	! has permits || modes=p2,$modes
	! has shared || modes=s,$modes
	has priority || options+=(--no-priority)
	[[ $(cell order) == yes ]] || options+=(--no-order)
	if has server; then
		for pid in $(service_pids); do
			options+=(--server-pid "$pid")
		done
	fi
	while IFS= read -r harm; do
		options+=(--harm "$harm")
	done < <(service_harms)
	said=$("$PYTHON" "$BATS_TEST_DIRNAME/../soak" --url "$DLOCK_SERVER" --seconds "${SOAK_SECONDS:-20}" --contenders 12 \
		--locks 3 --ttl "$(($(in_ms "$(ttl 2)") / 1000))" --modes $modes "${options[@]}" --slow "$TEST_PATIENCE" \
		--dlock "$(realpath "$BIN/dlock")" --oracle "$(realpath "$BIN/oracle")" 2>&1 3>&- 4>&-) ||
		failed=1
	echo "$said"
	echo "# $service: ${said%%$'\n'*}" >&3
	service_reap
	wait_until -t 30 nothing_is_left
	return $failed
}
