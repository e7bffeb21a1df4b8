# dlock guard: the resource's side of a fencing token.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() {
	test_begin
	unset DLOCK_SERVER # the resource's side has no use for one
	[[ $BATS_TEST_DESCRIPTION != terminal:* ]] || needs terminal
}
teardown() { test_end; }

readonly MOST=9223372036854775807

# record N: a state file's whole content, as it is documented.
record() { printf '%19s %19s\n' "$1" "$1"; }

# seen FILE N: the token on record, and nothing else in the file.
assert_seen() {
	record "$2" | cmp - "$1" || fail "$1 holds: $(head -c 200 "$1" | od -c)"
}

# traced FILE TOKEN [STRACE OPTION]...: a guard under strace, which can also inject errors. What it
# called is in the file `calls`, one a line.
traced() {
	local file=$1 token=$2
	shift 2
	unleaked try strace -f -qq -o calls \
		-e trace=openat,flock,fsync,fdatasync,pwrite64,ftruncate,execve -e signal=none "$@" \
		dlock guard --fence "$token" "$file" "$BIN/witness" exit 0
}

# The traced calls that matter, in their order, as one line of words: those on the state file
# (`file`), on its directory, and COMMAND's execve. STATE and FOLDER as strace shows them.
order() {
	sed -E 's/^[0-9]+ +//' calls | awk -v state="\"$1\"" -v folder="\"$2\"" '
		/^openat\(/ && index($0, state ", O_RDWR") { sub(/.* = /, ""); fd[$0] = "file"; print "open" }
		/^openat\(/ && index($0, folder ", O_RDONLY") { sub(/.* = /, ""); fd[$0] = "folder" }
		/^flock\(.*LOCK_EX/   { print "lock" }
		/^flock\(.*LOCK_UN/   { print "unlock" }
		/^f(data)?sync\(/     { split($0, part, /[()]/); print "sync-" (fd[part[2]] ? fd[part[2]] : "file") }
		/^pwrite64\(/         { print "write" }
		/^ftruncate\(/        { print "truncate" }
		/^execve\(.*witness/  { print "COMMAND" }' | paste -sd' '
}

# mounted TYPE OPTIONS COMMAND...: runs COMMAND in the folder `mounted`, where something is mounted
# that no other process sees.
mounted() {
	mkdir -p mounted
	in_mounts sh -c '
		mount $1 mounted || exit 99
		test -z "$2" || mount $2 mounted || exit 99
		shift 2
		cd mounted && exec "$@"' sh "$@"
}

# in_small_folder KIB INODES COMMAND...: in an empty file system of that size.
in_small_folder() {
	local size=$1 inodes=$2
	shift 2
	mounted "-t tmpfs -o size=${size}k,nr_inodes=$inodes none" '' "$@"
}

is_locked() { ! flock -n "$1" true; }
is_unlocked() { flock -n "$1" true; }

# ---- Tokens --------------------------------------------------------------------------------------

@test "the first token is recorded, in a fixed width, before COMMAND runs" {
	try dlock guard --fence 41 state cat state
	expect 0 "$(record 41)"
	assert_seen state 41
	assert_equal "$(stat -c %s state)" 40
}

@test "an equal token passes, a newer one passes and is recorded, an older one does not" {
	try dlock guard --fence 41 state true
	expect 0
	try dlock guard --fence 41 state echo equal
	expect 0 equal
	try dlock guard --fence 42 state echo newer
	expect 0 newer
	assert_seen state 42
	try dlock guard --fence 41 state touch ran
	expect_failure 82 '41.*state.*42'
	refute_file ran
	assert_seen state 42
	try dlock guard --fence 100 state true
	try dlock guard --fence 99 state touch ran
	expect_failure 82 '99.*100'
	refute_file ran
}

@test "tokens reach from 1 to 2^63-1" {
	try dlock guard --fence 1 state echo least
	expect 0 least
	try dlock guard --fence $MOST state echo most
	expect 0 most
	assert_seen state $MOST
	try dlock guard --fence $((MOST - 1)) state touch ran
	expect_failure 82 "$MOST"
	refute_file ran
}

@test "the token comes from DLOCK_FENCE; --fence outranks it; COMMAND gets the one that counts" {
	export DLOCK_FENCE=7
	try dlock guard state sh -c 'echo $DLOCK_FENCE'
	expect 0 7
	assert_seen state 7
	try dlock guard --fence 9 state sh -c 'echo $DLOCK_FENCE'
	expect 0 9
	try dlock guard --fence=0011 state sh -c 'echo $DLOCK_FENCE'
	expect 0 11
	try dlock guard state touch ran
	expect_failure 82 '7.*11'
	DLOCK_FENCE=nonsense try dlock guard --fence 12 state true
	expect 0
	unset DLOCK_FENCE
	try dlock guard --fence 13 state sh -c 'echo $DLOCK_FENCE'
	expect 0 13
}

@test "no token, or a bad one: exit 64 with the value quoted, and no state file" {
	try dlock guard state touch ran
	expect_failure 64 'DLOCK_FENCE'
	DLOCK_FENCE='' try dlock guard state touch ran
	expect_failure 64 'DLOCK_FENCE'
	local bad
	for bad in 0 00 -1 +1 ' 1' '1 ' 1x x 0x10 1.5 1e3 9223372036854775808 99999999999999999999 \
		$'1\n' '１'; do
		try dlock guard --fence "$bad" state touch ran
		expect_failure 64 "'${bad//[+$'\n']/.}'" # a control character is shown as '?'
		DLOCK_FENCE=$bad try dlock guard state touch ran
		expect_failure 64 "'${bad//[+$'\n']/.}'"
	done
	try dlock guard --fence '' state touch ran
	expect_failure 64 ''
	refute_file state
	refute_file ran
}

@test "no STATEFILE, no COMMAND: exit 64" {
	try dlock guard
	expect_failure 64 'STATEFILE'
	try dlock guard --fence 1
	expect_failure 64 'STATEFILE'
	try dlock guard --fence 1 ''
	expect_failure 64 'STATEFILE'
	try dlock guard --fence 1 state
	expect_failure 64 'COMMAND'
	try dlock guard --fence 1 state --
	expect_failure 64 'COMMAND'
	try dlock guard --ttl 5s --fence 1 state touch ran
	expect_failure 64 'ttl'
	refute_file state
}

@test "options end at STATEFILE; COMMAND's arguments arrive untouched" {
	try dlock guard --fence 1 state printf '<%s>' --fence 3 -h '' -- 'a b' $'\xff'
	expect 0 $'<--fence><3><-h><><--><a b><\xff>'
	try dlock --fence 1 guard state -- printf '<%s>' -- x
	expect 0 '<--><x>'
	try dlock guard --fence 2 -- state printf %s y
	expect 0 y
	assert_seen state 2
	mkdir 'a folder'
	try dlock guard --fence 1 './a folder/-n' printf %s z
	expect 0 z
	assert_seen './a folder/-n' 1
}

# ---- What the state file may be ------------------------------------------------------------------

@test "an empty file has no token yet; its owner, mode and inode stay" {
	: >state
	chmod 640 state
	[[ $(id -u) != 0 ]] || chown 1234:2345 state # only root can give it away
	local before
	before=$(stat -c '%i %a %u %g' state)
	try dlock guard --fence 5 state true
	expect 0
	try dlock guard --fence 6 state true
	expect 0
	assert_equal "$(stat -c '%i %a %u %g' state)" "$before"
	assert_seen state 6
}

@test "a new file is the caller's, as the umask has it" {
	(umask 077 && dlock guard --fence 1 closed true)
	(umask 002 && dlock guard --fence 1 shared true)
	assert_equal "$(stat -c '%a %U' closed shared)" "600 $(id -un)"$'\n'"664 $(id -un)"
}

@test "anything but a record is garbage: exit 64, COMMAND not run, not a byte changed" {
	local -a garbage=(
		'garbage' '5' $'5\n' ' ' $'\n' "$(printf '%40s' '')"
		"$(record 5)x" "$(record 5)"                              # $() takes the newline away
		"$(record 5 | head -c 20)x" "$(record 5 | tr ' ' 0)" "$(record 5 | tr 5 0)"
		"$(record 5 | sed 's/5$/6/')"$'\n' "$(record 5 | tr ' ' '\t')"$'\n'
		"$(record -5)"$'\n' "$(record +5)"$'\n' "$(record 5x)"$'\n' "$(record '5 5')"$'\n'
		"$(record 9223372036854775808)"$'\n' "$(record 5 | tr '\n' ' ')" "$(record 5)"$'\n\n'
		"$(record 5)"$'\n'"$(record 6)"$'\n'
	)
	local text
	for text in "${garbage[@]}"; do
		printf %s "$text" >state
		cp state before
		try dlock guard --fence 100 state touch ran
		expect_failure 64 state
		cmp before state
	done
	head -c 40 /dev/zero >state
	try dlock guard --fence 100 state touch ran
	expect_failure 64 state
	head -c 1000000 /dev/urandom >state
	try dlock guard --fence 100 state touch ran
	expect_failure 64 state
	refute_file ran
}

@test "a torn record, wherever the tear, is either whole or noticed" {
	local cut old=1899999999999999 new=1900000000000000 whole=0
	for cut in {0..40}; do
		{
			record $new | head -c "$cut"
			record $old | tail -c +$((cut + 1))
		} >state
		try dlock guard --fence $((old - 1)) state touch ran
		case $status in
		82) whole=$((whole + 1)) ;;
		*) expect_failure 64 state ;;
		esac
		refute_file ran
	done
	# Uncut, cut within what both begin with (blanks and one digit), or within the newline.
	assert_equal "$whole" 7 'records that are whole'
}

@test "a directory, a FIFO, a socket, a device: exit 64, at once" {
	mkdir folder
	mkfifo fifo
	"$PYTHON" -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
	local file
	for file in . folder folder/ / fifo socket /dev/null /dev/full; do
		try timeout 10 dlock guard --fence 1 $file touch ran
		expect_failure 64 "$file"
	done
	refute_file ran
}

@test "a symbolic link is not followed, and what it leads to is neither made nor changed" {
	: >victim
	ln -s victim link
	ln -s missing dangling
	ln -s . folder
	try dlock guard --fence 1 link touch ran
	expect_failure 64 'symbolic link'
	try dlock guard --fence 1 dangling touch ran
	expect_failure 64 'symbolic link'
	refute_file missing
	assert_file victim ''
	refute_file ran
	# On the way to the file they are as good as anywhere.
	try dlock guard --fence 1 folder/state true
	expect 0
	assert_seen state 1
}

@test "what cannot be opened or written: exit 71, and COMMAND does not run" {
	try dlock guard --fence 1 missing/state touch ran
	expect_failure 71 'missing/state.*No such file'
	: >plain
	try dlock guard --fence 1 plain/state touch ran
	expect_failure 71 'plain/state.*Not a directory'
	try dlock guard --fence 1 "$(printf '%300s' '' | tr ' ' x)" touch ran
	expect_failure 71 'too long'

	record 5 >state
	chmod 444 state
	chmod 555 .
	local as=()
	[[ $(id -u) != 0 ]] || as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	try "${as[@]}" "$BIN/dlock" guard --fence 6 state touch ran
	expect_failure 71 'state.*Permission denied'
	try "${as[@]}" "$BIN/dlock" guard --fence 6 new touch ran
	expect_failure 71 'new.*Permission denied'
	chmod 755 .
	assert_seen state 5
	refute_file new
	refute_file ran
}

@test "a file system that is read only: exit 71, and COMMAND does not run" {
	needs mount
	record 5 >state
	try mounted '--bind .' '-o remount,bind,ro' dlock guard --fence 6 state touch ran
	expect_failure 71 'state.*Read-only'
	assert_seen state 5
	refute_file ran
}

@test "a guard that waits for a file that was replaced meanwhile goes on to the new one" {
	start one dlock guard --fence 5 state sh -c 'echo >running; exec sleep 60'
	wait_until is_file running
	start two dlock guard --fence 6 state true
	wait_until is_quiet $two_pid
	mv state old
	kill -TERM $one_pid
	finish one
	finish two
	expect 0
	assert_seen old 5
	assert_seen state 6
}

# limited BYTES FILE: a guard that may not write beyond BYTES of a file; it has to fail. Its message
# goes through a pipe, which has no such limit.
limited() {
	# ThreadSanitizer writes a file when it starts, if it can.
	TMPDIR=/dev/null prlimit --fsize="$1" "$BIN/dlock" guard --fence 1234567890123456789 "$2" touch ran 2>&1 3>&- 4>&- |
		cat >said
	status=${PIPESTATUS[0]}
	assert_equal "$status" 71
	assert_match "$(<said)" "^dlock: .*$2"
	refute_file ran
}

# ---- Nothing is lost -----------------------------------------------------------------------------

@test "power cut: folder synced, record written and synced, then COMMAND" {
	traced state 5
	expect 0
	assert_equal "$(order state .)" 'open lock sync-folder write sync-file COMMAND unlock'
	mkdir -p a/b
	traced a/b/state 5
	expect 0
	assert_equal "$(order a/b/state a/b/)" 'open lock sync-folder write sync-file COMMAND unlock'
	traced "$PWD/absolute" 5
	expect 0
	assert_equal "$(order "$PWD/absolute" "$PWD/")" \
		'open lock sync-folder write sync-file COMMAND unlock'
}

@test "power cut: a newer token needs no folder, an equal one is synced, a stale one does nothing" {
	record 5 >state
	traced state 6
	expect 0
	assert_equal "$(order state .)" 'open lock write sync-file COMMAND unlock'
	# The guard that wrote it may have been killed before it was synced.
	traced state 6
	expect 0
	assert_equal "$(order state .)" 'open lock sync-file COMMAND unlock'
	traced state 5
	expect_failure 82 ''
	assert_equal "$(order state .)" 'open lock unlock'
}

@test "full disk: no state file comes about, or an empty one, and later it works" {
	needs mount
	try in_small_folder 16 100 sh -c '
		head -c 1000000 /dev/zero >filler 2>/dev/null
		dlock guard --fence 5 state touch ran && exit 1
		echo $? $(stat -c %s state)
		test ! -e ran || exit 1
		rm filler
		dlock guard --fence 5 state cat state'
	assert_equal "$status" 0
	assert_equal "$out" "71 0"$'\n'"$(record 5)"
	assert_match "$err" '^dlock: .*state.*No space left'

	try in_small_folder 16 2 sh -c '
		: >last
		dlock guard --fence 5 state touch ran
		echo $?
		ls'
	assert_equal "$out" $'71\nlast'
	assert_match "$err" '^dlock: .*state.*No space left'
}

@test "full disk: a token that is there is kept, and a newer one goes in its place" {
	needs mount
	try in_small_folder 16 100 sh -c '
		dlock guard --fence 5 state true
		head -c 1000000 /dev/zero >filler 2>/dev/null
		dlock guard --fence 4 state true
		echo $?
		dlock guard --fence 6 state cat state'
	assert_equal "$status" 0
	assert_equal "$out" "82"$'\n'"$(record 6)"
}

@test "a write that fails: exit 71, COMMAND not run, the old token still there" {
	record 5 >state
	local fault
	for fault in ENOSPC EIO EDQUOT; do
		traced state 6 -e inject=pwrite64:error=$fault
		expect_failure 71 state
		refute_match "$(order state .)" COMMAND
		assert_seen state 5
	done
	traced new 6 -e inject=pwrite64:error=ENOSPC
	expect_failure 71 'new.*No space left'
	refute_match "$(order new .)" COMMAND
	assert_equal "$(stat -c %s new)" 0
}

@test "a sync that fails: exit 71 and COMMAND not run; what is on record never goes back" {
	record 5 >state
	traced state 6 -e inject=fsync:error=EIO
	expect_failure 71 'state.*Input/output error'
	refute_match "$(order state .)" COMMAND
	try dlock guard --fence 4 state touch ran
	expect_failure 82 ''
	try dlock guard --fence 6 state echo again
	expect 0 again

	# The folder's is the first.
	traced new 6 -e inject=fsync:error=EIO:when=1
	expect_failure 71 'new.*Input/output error'
	assert_equal "$(order new .)" 'open lock sync-folder unlock'
	assert_equal "$(stat -c %s new)" 0
}

@test "a write that goes in only in part is taken back" {
	record 5 >state
	: >empty
	local most
	for most in 1 10 20 39; do
		limited $most state
		assert_seen state 5
		limited $most empty
		assert_equal "$(stat -c %s empty)" 0
	done
	limited 0 state
	assert_seen state 5
	limited 0 new
	assert_equal "$(stat -c %s new)" 0
}

@test "the limit of a file's size is an error, not the end by SIGXFSZ; COMMAND gets it as it was" {
	try dlock guard --fence 5 state sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status
	expect 0 "$(sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status)"
	try prlimit --fsize=100 dlock guard --fence 6 state sh -c 'head -c 1000 /dev/zero >big'
	assert_equal "$status" 153
	assert_seen state 6
}

# ---- COMMAND -------------------------------------------------------------------------------------

@test "every exit code from 0 to 255 comes through; a signal N becomes 128+N" {
	local code
	for code in {0..255}; do
		try dlock guard --fence 1 state witness exit "$code"
		expect "$code"
	done
	for code in 1 2 3 6 9 11 13 14 15 24 31 34 64; do
		status=0
		launch default outcome=outcome dlock guard --fence 1 state witness kill "$code" || status=$?
		assert_file outcome "exit $((128 + code))"
	done
}

@test "COMMAND is looked up before anything is recorded" {
	try dlock guard --fence 5 state /no/such/thing
	expect_failure 127 '/no/such/thing'
	try dlock guard --fence 5 state no-such-word-anywhere
	expect_failure 127 'no-such-word-anywhere'
	: >plain
	try dlock guard --fence 5 state ./plain
	expect_failure 126 'plain'
	refute_file state
	record 4 >state
	try dlock guard --fence 5 state no-such-word-anywhere
	assert_seen state 4
}

@test "what exec refuses ends with 126" {
	printf '#!/no/such/interpreter\n' >script
	chmod +x script
	try dlock guard --fence 5 state ./script
	expect_failure 126 'script'
	assert is_unlocked state
}

@test "COMMAND gets what the caller gave, and one descriptor more: the state file's" {
	echo given >in
	launch default witness record plain <in 5>five
	launch default dlock guard --fence 1 state witness record guarded <in 5>five
	local what
	for what in plain guarded; do
		grep -vE '^(pid|parent|group) ' $what | sort >$what.sorted
	done
	diff plain.sorted guarded.sorted | grep '^[<>]' >difference
	assert_equal "$(grep -cE '^> fd[0-9]+ .*/state ' difference)" 1
	assert_equal "$(grep -cE '^> .*DLOCK_FENCE=1$' difference)" 1
	assert_equal "$(wc -l <difference)" 2
	local fd
	fd=$(sed -n 's/^> fd\([0-9]*\) .*/\1/p' difference)
	assert_between "$fd" 10 99 'its number'
}

@test "standard streams that are closed do not let the state file become one" {
	status=0
	launch close=0,1,2 dlock guard --fence 5 state sh -c 'echo out; echo err >&2; exit 3' || status=$?
	assert_equal "$status" 3
	assert_seen state 5
	status=0
	launch close=0,1,2 dlock guard --fence 4 state true || status=$?
	assert_equal "$status" 82
	assert_seen state 5
}

# ---- The flock -----------------------------------------------------------------------------------

@test "the flock is held until COMMAND has ended, not longer, and others wait for it" {
	start one dlock guard --fence 5 state sh -c 'echo >running; sleep 60 & wait'
	wait_until is_file running
	assert is_locked state
	start two dlock guard --fence 6 state sh -c 'cat state >two'
	wait_until is_quiet $two_pid
	assert stays 200 is_alive $two_pid
	refute_file two
	assert_seen state 5
	kill -TERM $one_pid # ends the shell; its child lives on
	finish one
	expect 143
	finish two
	expect 0
	assert_seen two 6
	assert [ -n "$(marked_pids)" ] # that child
	assert is_unlocked state
	kill $(marked_pids)
}

@test "a COMMAND that closes every descriptor still has the flock" {
	start one dlock guard --fence 5 state "$PYTHON" -c '
import os, time
os.closerange(3, 1000)
open("running", "w").write("x")
time.sleep(60)'
	wait_until is_file running
	assert is_locked state
	kill $one_pid
	finish one
	assert is_unlocked state
}

@test "dlock killed: COMMAND dies, and the flock stays with what it had started" {
	start one dlock guard --fence 5 state sh -c 'sleep 60 & echo $! $$ >running; wait'
	wait_until is_file running
	local child command
	read -r child command <running
	start two dlock guard --fence 6 state touch two
	wait_until is_quiet $two_pid
	kill -KILL $one_pid
	wait_until is_gone "$command"
	assert stays 200 is_alive $two_pid
	refute_file two
	kill -KILL "$child"
	finish two
	expect 0
	assert [ -e two ]
}

@test "a stale token waits its turn too, and is refused then" {
	start one dlock guard --fence 5 state sh -c 'echo >running; exec sleep 60'
	wait_until is_file running
	start old dlock guard --fence 4 state touch ran
	start new dlock guard --fence 6 state true
	wait_until is_quiet $old_pid $new_pid
	kill $one_pid
	finish one
	finish old
	assert_equal "$status" 82
	finish new
	assert_equal "$status" 0
	refute_file ran
}

@test "fifty writers at once: tokens never go back, no two at a time, each is let in or told" {
	cat >write <<-'END'
		#!/bin/sh
		# The kernel is the oracle: the second of two at a time would not get this flock.
		exec 9>>oracle
		flock -n 9 || echo overlap >>log
		echo $DLOCK_FENCE >>log
	END
	chmod +x write
	local token pids=() stale=0 passed=0 code
	for token in $(seq 1 50 | shuf); do
		dlock guard --fence "$((1795232512345600 + token))" state ./write 2>"err.$token" 3>&- 4>&- &
		pids+=($!)
	done
	for code in "${pids[@]}"; do
		status=0
		wait "$code" || status=$?
		case $status in
		0) passed=$((passed + 1)) ;;
		82) stale=$((stale + 1)) ;;
		*) fail "status $status: $(cat err.*)" ;;
		esac
	done
	assert_equal "$((passed + stale))" 50
	assert_equal "$(wc -l <log)" "$passed"
	sort -nc log
	refute grep overlap log
	assert_equal "$(cat err.* | grep -c stale)" "$stale"
	assert_equal "$(tail -n 1 log)" 1795232512345650
	assert_seen state 1795232512345650
}

@test "fifty writers with one token all pass" {
	local i pids=()
	for i in {1..50}; do
		dlock guard --fence 9 state sh -c 'echo >>log' 3>&- 4>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i"; done
	assert_equal "$(wc -l <log)" 50
}

@test "guards killed at random never let the record go back" {
	record 1 >state
	local token=1 last=1 now i
	for i in {1..40}; do
		token=$((token + 1))
		dlock guard --fence $token state true 3>&- 4>&- &
		sleep "0.00$((RANDOM % 6))"
		kill -KILL $! 2>/dev/null || true
		wait $! 2>/dev/null || true
		read -r now _ <state
		assert_seen state "$now"
		assert_between "$now" $last $token
		last=$now
	done
}

# ---- Signals -------------------------------------------------------------------------------------

# guard_witness: a guard whose COMMAND counts signals: one_pid and one_command.
guard_witness() {
	start one "$@" dlock guard --fence 5 state witness count "$PWD/one.count"
	wait_until file_has one.count '^ready'
	one_command=$(sed -n 's/^ready //p' one.count)
}

# once SIGNAL TARGET: reaches COMMAND one time.
once() {
	local before
	before=$(received one)
	kill -"$1" -- "$2"
	wait_until file_has one.count "^$1 "
	wait_until is_quiet $one_pid $one_command
	assert_equal "$(received one)" "$before${before:+$'\n'}$1" "received after $1"
}

@test "a signal to dlock, or to its process group, reaches COMMAND once" {
	local signal target
	for target in one group; do
		guard_witness
		[[ $target == one ]] && target=$one_pid || target=-$one_pid
		for signal in HUP INT QUIT TERM USR1 USR2 ALRM WINCH CONT; do
			once $signal "$target"
		done
		let_go one
		expect 0
		rm one.count
	done
}

@test "nohup: what the caller ignored stays ignored" {
	guard_witness ignore=HUP
	kill -HUP $one_pid
	once USR1 $one_pid
	assert_equal "$(received one)" USR1
	let_go one
}

@test "a signal ends the wait for the flock, and nothing is recorded" {
	start one dlock guard --fence 5 state sh -c 'echo >running; exec sleep 60'
	wait_until is_file running
	local signal
	for signal in TERM INT HUP QUIT; do
		start two outcome=outcome pid=waiter dlock guard --fence 6 state touch ran
		wait_until is_file waiter
		wait_until is_quiet "$(<waiter)"
		kill -$signal "$(<waiter)"
		wait_until is_file outcome
		assert_file outcome "signal $signal"
		rm outcome waiter
	done
	kill $one_pid
	finish one
	refute_file ran
	assert_seen state 5
}

@test "terminal: Ctrl-C ends COMMAND and a shell loop around dlock" {
	cat >loop <<-'END'
		#!/bin/bash
		while :; do
			dlock guard --fence 5 state sh -c 'echo up; exec sleep 60'
			echo again
		done
	END
	python <<-'END'
		from terminal import *

		terminal = Terminal("bash", "loop")
		terminal.expect("up")
		terminal.send("\x03")
		status = terminal.wait()
		check(status == ("signal", 2), status, terminal.seen)
		check("again" not in terminal.seen, terminal.seen)
	END
}

@test "terminal: when it hangs up COMMAND ends, and the flock with it" {
	python <<-'END'
		import os
		from terminal import *

		terminal = Terminal("dlock", "guard", "--fence", "5", "state", "sh", "-c",
		    "trap 'echo >hung-up; exit 0' HUP; echo up; while :; do sleep 0.05; done")
		terminal.expect("up")
		terminal.hang_up()
		wait_until(lambda: is_gone(terminal.pid), "the end of dlock")
		check(os.path.exists("hung-up"), "COMMAND got the HUP")
	END
	assert is_unlocked state
}

@test "terminal: Ctrl-Z stops dlock and COMMAND, the flock stays, fg continues both" {
	python <<-'END'
		import os
		import subprocess
		from terminal import *

		def states(*pids):
		    return "".join(process_state(pid) for pid in pids)

		shell = Shell()
		for turn in range(5):
		    shell.send("dlock guard --fence 5 state sh -c 'echo $$ >pid; exec sleep 60'\n")
		    wait_until(lambda: os.path.exists("pid") and open("pid").read(), "COMMAND")
		    command = int(open("pid").read())
		    guard = int(re.search(r"PPid:\s*(\d+)", open(f"/proc/{command}/status").read())[1])
		    for again in range(3):
		        shell.send("\x1a")
		        shell.expect("Stopped")
		        shell.expect(shell.PROMPT)
		        wait_until(lambda: states(guard, command) == "TT", "both stopped")
		        check(subprocess.run(["flock", "-n", "state", "true"]).returncode == 1, "the flock stays")
		        # A SIGCONT to dlock alone is for both; fg sends it to the whole group.
		        if again == 2:
		            os.kill(guard, signal.SIGCONT)
		            wait_until(lambda: states(guard, command) == "SS", "both continued by kill")
		        shell.send("fg\n")
		        shell.expect("fg\r?\ndlock guard") # COMMAND may go on already, and a busy shell not know
		        wait_until(lambda: states(guard, command) == "SS", "both continued")
		        time.sleep(0.05)
		        check(states(guard, command) == "SS", "they go on")
		    os.kill(command, signal.SIGTERM)
		    shell.expect(shell.PROMPT)
		    check(shell.run("echo status $?") == "status 143\n", shell.seen)
		    os.remove("pid")
		shell.leave()
	END
}

@test "terminal: a COMMAND that stops itself gives the shell its prompt" {
	python <<-'END'
		from terminal import *

		shell = Shell()
		shell.send("dlock guard --fence 5 state sh -c 'echo up; kill -STOP $$; echo on; exit 7'\n")
		shell.expect("up\r")
		shell.expect("Stopped")
		shell.expect(shell.PROMPT)
		shell.send("fg\n")
		shell.expect("on\r")
		shell.expect(shell.PROMPT)
		check(shell.run("echo status $?") == "status 7\n", shell.seen)
		shell.leave()
	END
}

# ---- With a lock ---------------------------------------------------------------------------------

@test "under a lock the token is the lock's; one that comes late is refused" {
	export DLOCK_SERVER=unix://$SERVER/socket
	try dlock x dlock guard state sh -c 'echo $DLOCK_FENCE'
	assert_equal "$status" 0
	assert_seen state "$out"
	try dlock x sh -c 'dlock guard state true && echo $DLOCK_FENCE'
	assert_equal "$status" 0
	assert_seen state "$out"
	try dlock guard --fence $((out - 1)) state touch ran
	expect_failure 82 "$out"
	refute_file ran
}

@test "a server is neither needed nor asked" {
	DLOCK_SERVER=unix:///no/such/socket try dlock guard --fence 5 state echo yes
	expect 0 yes
	try dlock guard --fence 5 state echo yes
	expect 0 yes
}

@test "-q says nothing about warnings, -qq nothing at all" {
	record 5 >state
	try dlock guard -q --fence 4 state true
	expect_failure 82 stale
	try dlock guard -qq --fence 4 state true
	expect 82
}
