# The lock service `file:`: what it promises beside what every service does, and what could go wrong in a
# folder. The kernel judges overlaps: each COMMAND takes a flock(2) of its own, and never waits.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
teardown() { test_end; }

setup() {
	test_begin
	export DLOCK_SERVER=file://$PWD/locks
	cat >work <<-'END'
		#!/bin/sh
		# work NAME [SECONDS]: says in `log` when it begins and ends, or that another one runs.
		exec 9>>judge
		flock -n 9 || echo "overlap $1" >>overlaps
		echo "$1" >>log
		sleep "${2:-0}"
		echo "/$1" >>log
	END
	chmod +x work
}

held() { dlock -q status "${1:-x}"; }
waiting() { dlock status --json x | jq '.[0].waiting // 0'; }
wait_for_waiters() { wait_until waiters_are "$1"; }
waiters_are() { [[ $(waiting) == "$1" ]]; }
assert_log() { # NAME...: those that ran, in that order
	assert_equal "$(grep -v / log | tr '\n' ' ')" "$* " order
	refute_file overlaps
}
needs_root() { [[ $(id -u) == 0 ]] || left_out "only root may $1"; }
# A folder that another user can reach, with dlock in it: the tree may lie below /root.
open_folder() {
	OPEN=$(mktemp -d)
	chmod 711 "$OPEN"
	cp "$BIN/dlock" "$OPEN/dlock"
}
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }

# ---- The folder ----------------------------------------------------------------------------------

@test "a run: the folder is made, the fencing token grows, the file has the name of the lock" {
	try dlock x printenv DLOCK_FENCE
	assert_equal "$status$err" 0
	local before=$out
	try dlock x printenv DLOCK_FENCE
	((out > before)) || fail "$out after $before"
	assert_equal "$(stat -c %a locks)" 700
	assert test -f locks/x
	assert test ! -s locks/x
	refute held
}

@test "names: what is not plain is encoded, what is long is cut; a prefix belongs to the name" {
	local long
	long=$(printf 'n%.0s' {1..300})
	try dlock 'a b/é' flock -n 'locks/a%20b%2F%C3%A9' true
	assert_equal "$status" 1
	try dlock .hidden flock -n locks/%2Ehidden true
	assert_equal "$status" 1
	try dlock --prefix app: x flock -n locks/app%3Ax true
	assert_equal "$status" 1
	try dlock "$long" sh -c "! flock -n locks/${long:0:160}~* true && dlock -q status $long && ! dlock -q status ${long}n"
	expect 0
}

@test "long names that begin alike are two locks" {
	local long
	long=$(printf 'n%.0s' {1..300})
	begin_holder one "$long"
	try dlock -n "${long}n" echo both
	expect 0 both
	let_go one
}

@test "file: alone is one folder for one user, in the home, whatever the environment says" {
	needs mount
	needs_root 'become another user'
	open_folder
	mkdir "$OPEN/home" "$OPEN/other"
	chown 65534 "$OPEN/home" "$OPEN/other"
	printf '%s\n' 'root:x:0:0::/root:/bin/sh' "self:x:65534:65534::$OPEN/home:/bin/sh" >listed
	echo 'root:x:0:0::/root:/bin/sh' >unlisted
	# As cron and a job after the last logout have it, and as sudo and CI may.
	cat >own <<-END
		mount --bind \$1 /etc/passwd || exit 99
		as='setpriv --reuid 65534 --regid 65534 --clear-groups env -i'
		\$as XDG_RUNTIME_DIR=$OPEN/other \$2 $OPEN/dlock -S file: acquire -t 60s x >token || exit
		\$as \$2 $OPEN/dlock -nS file: x echo free
		\$as \$3 $OPEN/dlock -nS file: x echo free
	END
	try in_mounts sh own listed HOME=$OPEN/other HOME=/root
	assert_equal "$status$out" 1
	assert test -f "$OPEN/home/.local/state/dlock/x"
	assert_equal "$(stat -c %a "$OPEN"/home/.local{,/state{,/dlock}} | sort -u)" 700
	try in_mounts sh own unlisted HOME=$OPEN/other HOME=$OPEN/other/
	assert_equal "$status$out" 1
	assert test -f "$OPEN/other/.local/state/dlock/x"
	try in_mounts sh own unlisted HOME= HOME=
	expect_failure 78 'in the user.s home, and user 65534 has none'
	chmod 500 "$OPEN/home"
	rm -r "$OPEN/home/.local"
	try in_mounts sh own listed HOME=$OPEN/other HOME=$OPEN/other
	expect_failure 78 "no lock folder $OPEN/home/.local/state/dlock: "
	rm -r "$OPEN"
}

@test "a server file: that is no folder: 78, or no path: 64" {
	try dlock -S file:///etc/passwd x true
	expect_failure 78 'no lock folder /etc/passwd: Not a directory'
	try dlock -S "file://$PWD/no/where" x true
	expect_failure 78 'no lock folder'
	try dlock -S file:locks x true
	expect_failure 64 'no absolute path'
	try dlock -S "file://$PWD/locks?a=b" x true
	expect_failure 64 'a parameter'
}

@test "what is in the lock's place and no plain file of its own is not touched: 76" {
	local odd
	mkdir -p locks/folder
	mkfifo locks/pipe
	ln -s "$PWD/elsewhere" locks/link
	echo data >locks/twice
	ln locks/twice locks/again
	ln -s "$PWD/elsewhere" locks/.record
	[[ $(id -u) != 0 ]] || mknod locks/pipe2 c 1 3
	for odd in folder pipe link twice record $(cd locks && ls pipe2 2>/dev/null); do
		try dlock -n $odd true
		expect_failure 76 'no plain file'
	done
	refute_file elsewhere
	echo 'somebody else had this idea first' >locks/.mine
	try dlock mine true
	expect_failure 76 'no record of dlock'
	assert_file locks/.mine 'somebody else had this idea first'
}

@test "what is in the place of the pipes beside a lock is not touched: 76, and waiters are told" {
	local token odd made
	for made in 'mkdir' 'ln -s /dev/null' 'touch' 'mknod=p'; do
		mkdir -p locks
		if [[ $made == mknod=p ]]; then
			mkfifo locks/pipe
			ln locks/pipe locks/.x+ended
			ln locks/pipe locks/.x+bell
		else
			for odd in ended bell; do $made locks/.x+$odd; done
		fi
		try dlock x touch ran
		expect_failure 76 'x\+ended is no pipe with one name'
		refute_file ran
		token=$(dlock acquire -t 60s x | cut -d' ' -f1)
		try dlock -w 10 x true
		expect_failure 76 'x\+bell is no pipe with one name'
		[[ $made == mknod=p ]] || try dlock renew x "$token"
		[[ $made == mknod=p ]] || expect_failure 76 'x\+bell is no pipe'
		[[ $made == mknod=p ]] || try dlock release --force x
		[[ $made == mknod=p ]] || expect_failure 76 'x\+ended is no pipe'
		try dlock -n x true
		expect_failure 1 'held by'
		rm -r locks
	done
}

@test "what is in the place of a lock's successes is not touched: 76, and COMMAND does not run" {
	mkdir -p locks/.x+once
	try dlock --once A x touch ran
	expect_failure 76 'x\+once is no plain file with one name'
	refute_file ran
	try dlock -n x true
	expect 0
}

@test "release --force says so if the pipe to the holder is no longer there, and breaks nothing" {
	begin_holder one x
	rm locks/.x+ended
	try dlock release --force x
	expect_failure 76 'x\+ended was removed: its holder cannot be told'
	mkdir locks/.x+ended
	try dlock release --force x
	expect_failure 76 'x\+ended is no pipe'
	try dlock -n x true
	expect_failure 1 'held by'
	let_go one
}

# flip FILE BYTE: one bit of it.
flip() {
	local byte
	byte=$(od -An -tu1 -j "$2" -N 1 "$1")
	printf '%b' "\\x$(printf %02x $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

@test "a bit that changes in a record gives a lock to nobody else: 76" {
	local at good token
	token=$(dlock acquire -t 60s x | cut -d' ' -f1)
	cp locks/.x good
	# The head, its end, the first slot: each field.
	for at in {0..128..5} 736 737 1023 {1024..1151..3} 1151; do
		cp good locks/.x
		flip locks/.x "$at"
		try dlock -n x touch ran
		expect_failure 76 '\.x is no record of dlock, or was damaged'
		refute_file ran
	done
	cp good locks/.x
	try dlock -n x touch ran
	expect_failure 1 'held by'
	try dlock release x "$token"
	expect 0
	# Of a queue that goes beyond the first page as well.
	for at in {1..30}; do
		dlock acquire -t 60s --permits 40 x >token
	done
	flip locks/.x $((1024 + 29 * 128 + 20))
	try dlock -n --permits 31 x touch ran
	expect_failure 76 'damaged'
}

# fill RECORD COUNT: so many holders, each a copy of the first.
fill() {
	"$PYTHON" - "$@" <<-'END'
		import struct, sys

		def check_of(block):  # file_record.c
		    sum = 0
		    for (word,) in struct.iter_unpack("<Q", block[8:]):
		        sum = ((sum ^ word) * 0x9E3779B97F4A7C15) % (1 << 64)
		        sum ^= sum >> 29
		    return struct.pack("<Q", sum) + block[8:]

		with open(sys.argv[1], "r+b") as record:
		    head, first = record.read(1024), record.read(128)
		    assert check_of(head) == head and check_of(first) == first
		    record.seek(0)
		    record.write(check_of(head[:16] + struct.pack("<i", int(sys.argv[2])) + head[20:]))
		    record.write(first * int(sys.argv[2]))
	END
}

@test "4,096 hold the lock: no more get in, nor can anybody wait, one line, 71; --force frees it" {
	dlock acquire -t 600s --permits 5000 x >token
	fill locks/.x 4095
	try dlock -n --permits 5000 x echo in
	expect 0 in
	# A waiter would be the 4,097th.
	fill locks/.x 4096
	try dlock -n --permits 5000 x touch ran
	expect_failure 71 '4096 processes hold the lock or wait for it'
	try dlock -w 5 x touch ran
	expect_failure 71 '4096 processes hold the lock or wait for it'
	refute_file ran
	assert_equal "$(dlock status --json x | jq '.[0].holders | length')" 4096
	dlock release --force x 2>forced
	assert_equal "$(wc -l <forced)" 4096
	try dlock -n x true
	expect 0
}

@test "two users in a folder for all; one who has no right: 77" {
	needs_root 'become another user'
	local dlock
	open_folder
	dlock=$OPEN/dlock
	mkdir -m 1777 "$OPEN/all"
	DLOCK_SERVER=file://$OPEN/all
	dlock x true
	(umask 077 && as_nobody "$dlock" y true)
	try as_nobody "$dlock" x "$dlock" -n y echo in
	expect 0 in
	begin_holder one y
	try as_nobody "$dlock" -n y true
	expect_failure 1 'held by'
	start two setpriv --reuid 65534 --regid 65534 --clear-groups "$dlock" y echo next
	wait_until sh -c '[ "$(dlock status --json y | jq ".[0].waiting")" = 1 ]'
	let_go one
	finish two
	expect 0 next
	chmod 600 "$OPEN/all/x"
	try as_nobody "$dlock" x true
	expect_failure 77 'Permission denied'
	rm -r "$OPEN"
}

@test "no room for the record: one line, 71, and the lock is free" {
	skip_where_files_must_grow
	try sh -c 'ulimit -f 1; exec dlock x touch ran'
	expect_failure 71 'cannot write'
	refute_file ran
	try dlock -n x true
	expect 0
}

@test "a disk that is full: one line, 71, nobody has the lock; what was held is given back" {
	needs mount
	mkdir locks
	cat >full <<-'END'
		mount -t tmpfs -o size=64k none locks || exit 99
		dlock x true || exit 98
		token=$(dlock acquire -t 60s x | cut -d' ' -f1)
		dlock --once A y sh -c 'cat /dev/zero >locks/fill 2>/dev/null; exit 0' 2>once.err
		echo $? >once.status
		dlock z touch ran 2>err
		echo $? >status
		dlock -n x touch ran
		echo $? >busy
		dlock release x "$token" && dlock -n x true || exit 97
		rm locks/fill
		dlock -n y true && dlock -n z true
	END
	try in_mounts sh full
	assert_equal "$status" 0
	assert_file status 71
	assert_match "$(cat err)" '^dlock: .*No space left on device$'
	assert_file busy 1
	assert_file once.status 0
	assert_equal "$(cat once.err)" 'dlock: y: cannot note the success: No space left on device'
	refute_file ran
}

@test "a folder that is read only: one line, 71" {
	needs mount
	mkdir locks
	cat >readonly <<-'END'
		mount -t tmpfs none locks && dlock x true || exit 99
		mount -o remount,ro,bind locks || exit 98
		dlock y touch ran
		dlock x touch ran
	END
	try in_mounts sh readonly
	assert_equal "$status" 71
	assert_equal "$(grep -c 'dlock: .*Read-only file system$' <<<"$err")" 2
	refute_file ran
}

@test "a folder of a file system in user space: 78, as other hosts may see it" {
	needs mount fuse
	mkdir locks
	cat >fuse.py <<-'END'
		# Mounts a file system that knows its root and answers nothing else.
		import ctypes, os, struct, sys
		fuse = os.open("/dev/fuse", os.O_RDWR)
		libc = ctypes.CDLL(None, use_errno=True)
		data = f"fd={fuse},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
		if libc.mount(b"none", b"locks", b"fuse", 0, data.encode()):
		    sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
		if os.fork():
		    os.execvp(sys.argv[1], sys.argv[1:])
		INIT, GETATTR, STATFS = 26, 3, 17
		answers = {
		    INIT: struct.pack("<IIIIHHIIHHIIHH7I", 7, 31, 4096, 0, 1, 1, 4096, 1, 1, 0, 0, 0, 0, 0, *[0] * 7),
		    GETATTR: struct.pack("<QII", 1, 0, 0)
		    + struct.pack("<QQQQQQIIIIIIIIII", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40777, 2, 0, 0, 0, 4096, 0),
		    STATFS: bytes(80),
		}
		while True:
		    try:
		        _, opcode, unique = struct.unpack("<IIQ", os.read(fuse, 1 << 20)[:16])
		        answer = answers.get(opcode)
		        error = 0 if answer is not None else -38
		        os.write(fuse, struct.pack("<IiQ", 16 + len(answer or b""), error, unique) + (answer or b""))
		    except OSError:  # it is over
		        break
	END
	try timeout 20 in_mounts "$PYTHON" fuse.py dlock x touch ran
	expect_failure 78 'two hosts would not see each other.s locks'
	refute_file ran
}

@test "fs.protected_regular: two users, and root, in a folder for all" {
	needs users sysctl
	local before dlock level
	before=$(</proc/sys/fs/protected_regular)
	as_user 65534
	for level in 1 2; do
		echo $level >/proc/sys/fs/protected_regular
		open_folder
		dlock=$OPEN/dlock
		mkdir -m 1777 "$OPEN/all"
		DLOCK_SERVER=file://$OPEN/all
		"${become[@]}" "$dlock" --once A x true
		try dlock x echo root
		expect 0 root
		dlock y true
		try "${become[@]}" "$dlock" y echo nobody
		expect 0 nobody
		try setpriv --reuid=65533 --regid=65533 --clear-groups "$dlock" --once B x echo other
		expect 0 other
		try "${become[@]}" "$dlock" release x "$(dlock acquire -t 60s x | cut -d' ' -f1)"
		expect 0
		# That it is in force: what dlock does not do.
		refute sh -c ": >>'$OPEN/all/x'"
		rm -r "$OPEN"
	done 2>&1 || { echo "$before" >/proc/sys/fs/protected_regular; return 1; }
	echo "$before" >/proc/sys/fs/protected_regular
}

@test "the folder is removed under the waiters: they say so at once, and do not hang" {
	begin_holder one x
	start two dlock x touch ran
	wait_for_waiters 1
	start three dlock x touch ran
	wait_for_waiters 2
	dlock acquire -t 600s y >token
	start four dlock y touch ran
	wait_until sh -c '[ "$(dlock status --json y | jq ".[0].waiting")" = 1 ]'
	rm -r locks
	local each
	for each in two three four; do
		finish $each
		assert_equal "$status" 71
		assert_match "$err" '/[xy] was removed while dlock waited for it'
	done
	assert_match "$(cat /proc/$one_pid/comm)" dlock
	let_go one
	refute_file ran
}

@test "the folder is removed under one that waits behind flock: it says so at once" {
	dlock x true
	start foreign flock locks/x sh -c 'until [ -e go ]; do sleep 0.02; done'
	wait_until refute flock -n locks/x true
	start two dlock x touch ran
	wait_for_waiters 1
	rm -r locks
	finish two
	assert_equal "$status" 71
	assert_match "$err" 'x was removed while dlock waited for it'
	: >go
	finish foreign
}

# ---- flock(1) ------------------------------------------------------------------------------------

@test "flock excludes dlock and is excluded, shared as well" {
	begin_holder one x
	try flock -n locks/x true
	assert_equal "$status" 1
	try flock -n -s locks/x true
	assert_equal "$status" 1
	let_go one
	begin_holder one x -s
	try flock -n locks/x true
	assert_equal "$status" 1
	try flock -n -s locks/x dlock -n -s x true
	expect 0
	let_go one
	try flock locks/x dlock -n x true
	expect_failure 1 'held by another program \(flock\), for as long as that runs'
	try flock -s locks/x dlock -n x true
	assert_equal "$status" 1
	try flock locks/x dlock status x
	assert_match "$out" 'x +foreign'
	try flock locks/x dlock release --force x
	expect_failure 77 'another program holds it'
}

@test "flock between two dlocks, and a dlock between two flocks: each has its turn, at once" {
	start one dlock x ./work one "$((2 * TEST_PATIENCE))"
	wait_until held
	start two flock locks/x ./work two 0.3
	sleep 0.1
	start three dlock x ./work three 0.3
	wait_for_waiters 1
	start four flock locks/x ./work four 0.1
	finish one && finish two && finish three && finish four
	assert_equal "$(grep -c / log)" 4
	refute_file overlaps
}

# ---- Waiting -------------------------------------------------------------------------------------

@test "300 waiters are served in the order in which they came" {
	begin_holder one x
	local i pids=()
	for ((i = 0; i < 300; i++)); do
		dlock --label "$i" x sh -c "echo $i >>order" 3>&- 4>&- &
		pids+=($!)
		((i % 20)) || sleep 0.1
	done
	wait_until -t 60 waiters_are 300
	dlock status --json x | jq -r '.[0].waiters[].label' >came
	let_go one
	wait "${pids[@]}"
	cmp came order
}

# made_no_call TRACE...: what it was in when it was looked at, and nothing else. ThreadSanitizer has a thread
# of its own, which looks around ten times a second.
made_no_call() {
	local own=''
	! built_with tsan || own='|gettimeofday|nanosleep'
	refute grep -vE "unfinished|resumed|detached|restart_syscall|= \\?$own" "$@"
}

@test "one that waits makes no system call, behind a dlock and behind flock" {
	needs_root 'trace what is not its child'
	dlock x true
	start foreign flock locks/x sleep $((6 * TEST_PATIENCE))
	sleep 0.1
	start one dlock x true
	wait_for_waiters 1
	start two dlock x true
	wait_for_waiters 2
	sleep $TEST_PATIENCE
	timeout 3 strace -f -qq -o one.trace -p "$one_pid" -p "$(keeper_of "$one_pid")" 3>&- 4>&- &
	timeout 3 strace -f -qq -o two.trace -p "$two_pid" -p "$(keeper_of "$two_pid")" 3>&- 4>&- || true
	wait $! || true
	made_no_call one.trace two.trace
	finish foreign && finish one && finish two
}

# asks_of NAME: from now on NAME.trace has when it asks, and no more.
asks_of() {
	local pid=${1}_pid
	unleaked strace -f -ttt -qq -o "$1.trace" -e trace=pread64 -p "$(keeper_of "${!pid}")" 3>&- 4>&- &
	wait_until is_traced "$(keeper_of "${!pid}")"
}
asked_at() { sed -nE '/pread64/ { s/^[0-9]+ +([0-9]+)\.([0-9]{3}).*/\1\2/p; q }' "$1.trace"; } # NAME: in ms

@test "a handoff wakes the next one; those behind ask when those ahead have had a second each" {
	needs_root 'trace what is not its child'
	local name count=0 released
	begin_holder one x
	start two dlock x sh -c 'echo two >>log; until [ -e go ]; do sleep 0.02; done'
	for name in three four five; do
		wait_for_waiters $((++count))
		start $name dlock x true
	done
	wait_for_waiters 4
	asks_of three
	asks_of five
	released=$(now_ms)
	let_go one
	wait_until grep two log
	wait_until grep -q pread64 three.trace
	assert_between $(($(asked_at three) - released)) 1000 99999 'ms until the second asked'
	wait_until grep -q pread64 five.trace
	assert_between $(($(asked_at five) - released)) 3000 99999 'ms until the fourth asked'
	: >go
	finish two && finish three && finish four && finish five
}

@test "a waiter behind a dlock never stands in the line of flock: stopped, it would keep the lock" {
	local inode
	begin_holder one x
	start two dlock x true
	wait_for_waiters 1
	start three dlock x true
	wait_for_waiters 2
	inode=$(stat -c %i locks/x)
	wait_until sh -c '[ "$(grep -c -- "-> OFDLCK" /proc/locks)" -ge 2 ]'
	refute grep -E -- "-> FLOCK.*:$inode " /proc/locks
	let_go one
	finish two && finish three
	# Behind flock there is no other way. When it is over the kernel wakes both, and either may be faster.
	local round
	for round in 1 2 3 4; do
		rm -f go go2 began
		start foreign flock locks/x sh -c 'until [ -e go ]; do sleep 0.02; done'
		wait_until refute flock -n locks/x true
		start two dlock x sh -c 'echo >began; until [ -e go2 ]; do sleep 0.02; done'
		wait_until grep -E -- "-> FLOCK.*:$inode " /proc/locks
		start three dlock x true
		wait_until sh -c "[ \"\$(grep -cE -- '-> FLOCK.*:$inode ' /proc/locks)\" = 2 ]"
		: >go
		wait_until is_file began
		wait_until refute grep -E -- "-> FLOCK.*:$inode " /proc/locks
		: >go2
		finish foreign && finish two && finish three
	done
}

# The least of three, as other load only adds.
@test "a holder that is killed with its keeper: the next one runs within 50 ms" {
	local killed try least=9999
	for try in 1 2 3; do
		begin_holder one x
		start two dlock x sh -c 'date +%s%3N'
		wait_for_waiters 1
		killed=$(now_ms)
		kill -KILL "$one_pid" "$one_keeper"
		finish two
		((out - killed >= least)) || least=$((out - killed))
		finish one
	done
	assert_between $least 0 $((50 * TEST_PATIENCE)) 'ms to the next'
}

@test "waiters that are killed hold nobody up: the first, one in the middle, of permits too" {
	local mode killed least=9999
	for mode in '' '--permits 1' '-s'; do
		rm -f log
		begin_holder one x
		start two dlock $mode x ./work two
		wait_for_waiters 1
		start three dlock $mode x ./work three
		wait_for_waiters 2
		start four dlock x sh -c './work four; date +%s%3N'
		wait_for_waiters 3
		signal_waiters KILL "$two_pid" "$three_pid"
		killed=$(now_ms)
		let_go one
		finish four
		((out - killed >= least)) || least=$((out - killed))
		assert_log four
	done
	# Each would have a second, if it were only stopped.
	assert_between $least 0 $((900 * TEST_PATIENCE)) 'ms to the next, the least of three'
}

@test "the first is stopped: the second goes ahead soon, and the first is back at its place" {
	begin_holder one x
	start two dlock x ./work two
	wait_for_waiters 1
	start three dlock x ./work three
	wait_for_waiters 2
	start four dlock x ./work four
	wait_for_waiters 3
	signal_waiters STOP "$three_pid"
	wait_until is_stopped "$three_pid"
	let_go one
	finish two && finish four
	assert_log two four
	two_pid=$three_pid
	begin_holder one x
	start five dlock x ./work five
	wait_for_waiters 2
	signal_waiters CONT "$two_pid"
	let_go one
	finish three && finish five
	assert_equal "$(sort log | grep -cv /)" 4
	refute_file overlaps
}

# hear_of_the_end N: so many waiters stand before the byte of x's holder.
hear_of_the_end() {
	(($(awk -v file=":$(stat -c %i locks/.x)\$" '$2 == "->" && $7 ~ file { n[$8]++ }
		END { for (byte in n) if (n[byte] > most) most = n[byte]; print most + 0 }' /proc/locks) == $1))
}

# lame NAME: a waiter. From now on each of its keeper's threads comes out of its wait ten seconds too late, and has by then
# what the kernel gave it.
lame() {
	local pid=${1}_pid keeper
	keeper=$(keeper_of "${!pid}")
	strace -f -qq -o /dev/null -e trace=fcntl,poll,restart_syscall \
		-e inject=fcntl,poll,restart_syscall:delay_exit=$((10 * TEST_PATIENCE))s:when=1 -p "$keeper" 3>&- 4>&- &
	lamed+=($!)
	wait_until are_traced "/proc/$keeper"/task/*
}
are_traced() { [[ -z $(grep -L '^TracerPid:.*[1-9]' "${@/%//status}") ]]; }

@test "two are slow just as the release wakes them: the third has it after a second each" {
	needs_root 'trace what is not its child'
	local end ended lamed
	for end in released killed; do
		rm -f log
		begin_holder one x
		lamed=()
		start two dlock x ./work two
		wait_for_waiters 1
		wait_until hear_of_the_end 1
		lame two
		wait_until hear_of_the_end 1
		start three dlock x ./work three
		wait_for_waiters 2
		wait_until hear_of_the_end 2
		lame three
		wait_until hear_of_the_end 2
		start four dlock x sh -c 'date +%s%3N; ./work four'
		wait_for_waiters 3
		wait_until hear_of_the_end 3
		ended=$(now_ms)
		if [[ $end == released ]]; then
			kill -RTMIN "$one_command"
		else
			kill -KILL "$one_pid" "$one_keeper"
		fi
		finish four
		assert_between $((out - ended)) 0 $((3500 * TEST_PATIENCE)) 'ms to the third'
		kill -KILL "${lamed[@]}"
		finish one && finish two && finish three
		assert_log four two three
	done
}

@test "the holder ends while its waiters are stopped, another comes: they see that it is another" {
	local began took=1500 tries=0
	# Two seconds after it has come the third may have what the two ahead do not take: again, if most of that is over
	# before they may.
	until ((took < 1500)); do
		((++tries <= 9)) || fail "the waiters were continued after $took ms"
		rm -f log
		begin_holder one x
		start two dlock x ./work two
		wait_for_waiters 1
		start three dlock x ./work three
		wait_for_waiters 2
		signal_waiters STOP "$two_pid" "$three_pid"
		wait_until is_stopped "$two_pid" && wait_until is_stopped "$three_pid"
		let_go one
		began=$(now_ms)
		start four dlock x ./work four
		wait_for_waiters 3
		signal_waiters CONT "$two_pid" "$three_pid"
		took=$(($(now_ms) - began))
		finish two && finish three && finish four
	done
	assert_log two three four
}

@test "priority, readers and permits" {
	begin_holder one x
	start late dlock x ./work late
	wait_for_waiters 1
	start first dlock --priority 1 x ./work first
	wait_for_waiters 2
	let_go one
	finish late
	assert_log first late
	begin_holder r1 x -s
	begin_holder r2 x -s
	start writer dlock x ./work writer
	wait_for_waiters 1
	try dlock -n -s x true
	assert_equal "$status" 1 'a reader overtakes'
	let_go r1
	assert_equal "$(waiting)" 1
	let_go r2
	finish writer
	begin_holder p1 x --permits 2
	begin_holder p2 x --permits 2
	start p3 dlock --permits 2 x ./work p3
	wait_for_waiters 1
	try dlock -n -s x true
	assert_equal "$status" 1 'a reader beside permits'
	kill -KILL "$p2_pid" "$p2_keeper"
	finish p3
	expect 0
	let_go p1
	assert_log first late writer p3
}

@test "a circle is found: 81 for the one that came last" {
	start one dlock a sh -c 'until [ -e go ]; do sleep 0.02; done; dlock b true'
	start two dlock b sh -c 'until [ -e go2 ]; do sleep 0.02; done; dlock a true'
	wait_until held a && wait_until held b
	: >go
	wait_until sh -c '[ "$(dlock status --json b | jq ".[0].waiting")" = 1 ]'
	: >go2
	finish two
	assert_equal "$status" 81
	assert_match "$err" 'waiting would deadlock: a is held by .*, which waits for b, which is held by a dlock around'
	finish one
	expect 0
}

# ---- What is on record ---------------------------------------------------------------------------

@test "--once and --cooldown" {
	try dlock --once A x echo one
	expect 0 one
	try dlock --once A x echo two
	expect 0
	try dlock --once B x false
	try dlock --once B x echo three
	expect 0 three
	try dlock --cooldown 1h x echo four
	expect 0
	try dlock --cooldown 1ms x echo five
	expect 0 five
	try dlock --once C --once-for 1s x true
	sleep 1.1
	try dlock --once C --once-for 1s x echo again
	expect 0 again
}

@test "--at-least: the lock stays when the run is over, and when it was killed" {
	local began
	began=$(now_ms)
	try dlock --at-least $((1000 * TEST_PATIENCE))ms x true
	try dlock -n x true
	expect_failure 1 'held by'
	try dlock x true
	assert_between $(($(now_ms) - began)) $((1000 * TEST_PATIENCE)) $((1800 * TEST_PATIENCE)) ms
	begin_holder one x --at-least $((4000 * TEST_PATIENCE))ms
	kill -KILL "$one_pid" "$one_keeper"
	wait_until is_gone "$one_command" # as long as it lives, the lock is held for its sake
	try dlock -n x true
	expect_failure 1 'held by'
	try dlock x true
	expect 0
}

@test "a detached lock: by its token only; its release wakes the next one, its end too" {
	local token began
	token=$(dlock acquire -t 60s x | cut -d' ' -f1)
	try dlock -n x true
	expect_failure 1 'held by'
	try dlock renew x other:1:token
	expect_failure 1 'wrong, or has expired'
	try dlock renew -t 30s x "$token"
	expect 0
	assert_between "$(dlock status --json x | jq '.[0].holders[0].ttl_ms')" 20000 30000 ttl_ms
	start next dlock x sh -c 'date +%s%3N'
	wait_for_waiters 1
	began=$(now_ms)
	try dlock release x "$token"
	expect 0
	finish next
	assert_between $((out - began)) 0 $((300 * TEST_PATIENCE)) 'ms to the next'
	try dlock release x "$token"
	assert_equal "$status" 1
	token=$(dlock acquire -t ${TEST_PATIENCE}s x)
	try dlock x true
	expect 0
	assert_between "$took" 500 $((1500 * TEST_PATIENCE)) ms
}

@test "a detached lock that is released at the moment in which another begins to wait" {
	local token
	token=$(dlock acquire -t 60s x | cut -d' ' -f1)
	start next env ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" strace -f -qq -o trace -e trace=mknodat,mknod -e inject=mknodat,mknod:delay_enter=1s dlock -w 15s x true
	wait_for_waiters 1
	try dlock release x "$token"
	expect 0
	finish next
	expect 0
}

@test "a detached lock is released while the first is stopped: that one has it once it goes on" {
	local token
	token=$(dlock acquire -t 60s x | cut -d' ' -f1)
	start one dlock -w 20s x ./work one
	wait_for_waiters 1
	start two dlock x ./work two
	wait_for_waiters 2
	kill -STOP "$one_pid"
	wait_until is_stopped "$one_pid"
	dlock release x "$token"
	finish two
	kill -CONT "$one_pid"
	finish one
	expect 0
	assert_log two one
}

@test "a lock that no process holds ends by the host's clock, in every time namespace" {
	needs time
	local later=(unshare "${AS_ROOT[@]}" --time --boottime 1000000 --fork) token name
	token=$(dlock acquire -t 60s x | cut -d' ' -f1)
	"${later[@]}" dlock acquire -t 60s y >token
	"${later[@]}" dlock --at-least 60s z true
	for name in x y z; do
		try "${later[@]}" dlock -n $name true
		expect_failure 1 'held by'
		try dlock -n $name true
		expect_failure 1 'held by'
		assert_between "$("${later[@]}" dlock status --json $name | jq '.[0].holders[0].ttl_ms')" 30000 60000 ttl_ms
		assert_between "$(dlock status --json $name | jq '.[0].holders[0].ttl_ms')" 30000 60000 ttl_ms
	done
	try "${later[@]}" dlock renew -t 90s x "$token"
	expect 0
	assert_between "$(dlock status --json x | jq '.[0].holders[0].ttl_ms')" 60001 90000 ttl_ms
}

@test "release --force of one of several locks: COMMAND is stopped" {
	local name
	for name in a x z; do
		start one dlock --also a --also z x ./work one 60
		wait_until held x
		wait_until held z
		try dlock release --force $name
		assert_equal "$status" 0
		finish one
		assert_equal "$status" 80 "the exit code after $name was broken"
		try dlock -n --also a --also z x true
		expect 0
	done
}

@test "release --force: COMMAND is stopped, and dead before the next one has the lock" {
	start one dlock x ./work one 60
	wait_until held
	start two dlock x ./work two
	wait_for_waiters 1
	try dlock release --force x
	assert_equal "$status" 0
	assert_match "$err" 'released by force: held by'
	finish one
	assert_equal "$status" 80
	finish two
	expect 0
	assert_log one two
	try dlock release --force x
	assert_equal "$status" 1
	dlock acquire -t 60s x >token
	try dlock release --force x
	assert_equal "$status" 0
	try dlock -n x true
	expect 0
}

@test "one that holds it inside another keeps it, against flock too, when the outer one has ended" {
	try dlock -o x sh -c 'dlock x ./work inner 1 >&2 & until [ -s log ]; do sleep 0.02; done'
	assert_match "$err" 'the lock stays with '
	try flock -n locks/x true
	assert_equal "$status" 1
	try dlock -n x true
	assert_equal "$status" 1
	start next dlock x ./work next
	finish next
	assert_log inner next
	wait_until flock -n locks/x true
}

# with_clock SECONDS COMMAND...: the wall clock that it sees is off by so much.
with_clock() {
	printf '%-8s' "$1" >clock
	cc -std=c17 -D_GNU_SOURCE -O1 -shared -fPIC -o clock.so "$BATS_TEST_DIRNAME/../programs/clock.c"
	PATH=$LOADING:$PATH TEST_CLOCK=$PWD/clock LD_PRELOAD=$PWD/clock.so "${@:2}"
}

@test "the clock is set back: fences grow, the order stays, no time held is below nothing" {
	local fence
	fence=$(with_clock +3600 dlock x sh -c 'echo $DLOCK_FENCE')
	try dlock x sh -c 'echo $DLOCK_FENCE'
	assert_equal "$out" $((fence + 1))
	with_clock +3600 dlock acquire -t 60s x >token
	try dlock -n x true
	expect_failure 1 'held by .*, acquire\) for 0s'
	with_clock +3600 launch default dlock x ./work one >one.out 2>one.err </dev/null 3>&- 4>&- &
	one_pid=$!
	wait_for_waiters 1
	start two dlock x ./work two
	wait_for_waiters 2
	dlock release x "$(cut -d' ' -f1 token)"
	finish one && finish two
	assert_log one two
}

# ---- Death at the worst moment -------------------------------------------------------------------

@test "SIGKILL at each system call that reads, writes or locks: the next one reads all right" {
	needs_root 'trace what is not its child'
	local call when last=0 kind
	for call in pwrite64 fcntl flock openat; do
		for when in 1 2 3 4 5 6 7 8; do
			for kind in plain queued detached inside; do
				killed_at "$call" "$when" "$kind"
				try timeout 20 dlock -w 15 x sh -c 'flock -n judge echo $DLOCK_FENCE'
				assert_equal "$status$err" 0 "$kind killed at $call $when"
				((out > last)) || fail "$kind killed at $call $when: fence $out after $last"
				last=$out
			done
		done
	done
	assert_equal "$(dlock status --json)" '[]'
}

killed_at() { # CALL WHEN KIND
	local strace=(unleaked strace -f -qq -o trace -e "trace=$1" -e "inject=$1:signal=KILL:when=$2")
	case $3 in
	plain) "${strace[@]}" dlock --once "$1$2" x flock -n judge true ;;
	inside) "${strace[@]}" dlock -o x dlock x flock -n judge true ;;
	detached) dlock release x "$("${strace[@]}" dlock acquire -t 1s x | cut -d' ' -f1)" ;;
	queued)
		dlock x sleep 0.1 &
		"${strace[@]}" dlock x flock -n judge true
		wait $!
		;;
	esac >/dev/null 2>&1 3>&- 4>&- || true
}

@test "one stands still while it changes the record: others wait no longer than they say" {
	needs_root 'trace what is not its child'
	start still env ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" strace -f -qq -o trace -e trace=pwrite64 -e inject=pwrite64:delay_enter=$((5 * TEST_PATIENCE))s:when=1 dlock x true
	wait_until file_has trace pwrite64
	try dlock -w 1 x true
	expect_failure 69 'process [0-9]+ stands still while it changes the lock.s record'
	assert_between "$took" 900 $((1500 + 500 * TEST_PATIENCE)) ms
	try dlock status
	assert_equal "$status" 0
	finish still
	try dlock x true
	expect 0
}

# trace_keeper PID [STRACE-OPTION...]: from now on.
trace_keeper() {
	unleaked strace -qq -o trace -e trace=flock,getrandom "${@:2}" -p "$1" 3>&- 4>&- &
	wait_until is_traced "$1"
}
is_traced() { grep -q '^TracerPid:.*[1-9]' "/proc/$1/status"; }
is_free() { ! held; }

@test "the keeper is killed when it has given the lock back: the front takes nothing of the next" {
	needs_root 'trace what is not its child'
	begin_holder two x --permits 1
	# The first random number after the grant is of the token that would be next.
	trace_keeper "$two_keeper" -e inject=getrandom:delay_enter=$((10 * TEST_PATIENCE))s
	kill -RTMIN "$two_command"
	wait_until is_free
	begin_holder three x --permits 1
	kill -KILL "$two_keeper"
	finish two
	assert_equal "$status" 70
	try dlock --permits 1 -n x true
	expect_failure 1 'held by'
	let_go three
}
