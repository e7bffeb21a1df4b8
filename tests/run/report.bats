# --report and --report-fd: the outcome as one JSON object.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

# is_report FILE: one line that is one object, with the keys of the manual in their order, and
# nothing but what each may be.
is_report() {
	assert_equal "$(wc -l <"$1")" 1 "lines of $1"
	jq -es '
		def null_or(f): . == null or f;
		length == 1 and (.[0] |
		keys_unsorted == ["outcome", "exit", "command_exit", "name", "fence", "server", "waited_ms",
			"held_ms", "reclaimed", "survivors"]
		and (.outcome | IN("ran", "busy", "timeout", "already", "skipped", "lost", "max-run",
			"cancelled", "deadlock", "unreachable", "refused", "protocol", "config", "usage",
			"not-found", "killed", "internal"))
		and (.exit | type == "number" and . >= 0 and . <= 255)
		and (.command_exit | null_or(type == "number" and . >= 0 and . <= 255))
		and (.name | null_or(type == "string"))
		and (.fence | null_or(type == "number" and . > 1000000000000000))
		and (.server | null_or(type == "string"))
		and (.waited_ms | type == "number" and . >= 0)
		and (.held_ms | null_or(type == "number" and . >= 0))
		and (.reclaimed | type == "number" and . >= 0)
		and (.survivors | type == "array" and all(type == "number")))' "$1" >verdict ||
		fail "no report: $(cat "$1")"
}

# reports OUTCOME EXIT COMMAND_EXIT [NAME]: what the file `report` says; the exit is that of the
# last try.
reports() {
	[[ -e report ]] || fail "no report of: $tried"
	is_report report
	assert_equal "$(jq -r '[.outcome, .exit, .command_exit // "none", .name // "none"] | join(" ")' report)" \
		"$1 $2 $3 ${4:-x}" "report of $tried"
	assert_equal "$status" "$2" "exit of $tried"
	rm report
}

# traced OPTION... COMMAND...: strace into the file `trace`.
traced() { unleaked strace -f -o trace "$@"; }


# ---- Every outcome -------------------------------------------------------------------------------

@test "ran, whatever COMMAND's end" {
	local code
	for code in 0 1 64 80 124 255; do
		try dlock --report report x sh -c "exit $code"
		reports ran $code $code
	done
	try dlock --report report x sh -c 'kill -TERM $$'
	reports ran 143 143
}

@test "ran: fence, times, server" {
	begin_holder one x
	start two dlock --report report x sh -c 'echo $DLOCK_FENCE; sleep 0.3'
	wait_until queued x 1
	sleep 0.2
	let_go one
	finish two
	is_report report
	assert_equal "$(jq .fence report)" "$out"
	assert_between "$(jq .waited_ms report)" 200 $((15000 * TEST_PATIENCE))
	assert_between "$(jq .held_ms report)" 300 $((15000 * TEST_PATIENCE))
	assert_equal "$(jq -r .server report)" "$DLOCK_SERVER"
	assert_equal "$(jq -c '[.reclaimed, .survivors]' report)" '[0,[]]'
}

@test "ran: what COMMAND left running is named, and the report does not wait for it" {
	try dlock --report report x bash -c 'setsid sleep 60 & echo $!'
	assert_equal "$status" 0
	assert_equal "$(jq -c '[.outcome, .survivors[]]' report)" "[\"ran\",$out]"
	kill -KILL "$out"
	wait_until is_free x
}

@test "reclaimed: how often the lock was set again" {
	begin_holder one x -t 2 --report report
	cli FLUSHALL >/dev/null
	wait_until is_held x
	let_go one
	reports_reclaimed=$(jq .reclaimed report)
	assert_equal "$reports_reclaimed" 1
	rm report
}

@test "busy and timeout, with -E too" {
	begin_holder one x
	try dlock -n --report report x true
	reports busy 1 none
	try dlock -n -E 0 --report report x true
	reports busy 0 none
	try dlock -w 0.2 -E 9 --report report x true
	reports timeout 9 none
	try dlock -w 0.4 --report report x true
	assert_between "$(jq .waited_ms report)" 400 $((3000 * TEST_PATIENCE))
	assert_equal "$(jq -c '[.fence, .held_ms]' report)" '[null,null]'
	let_go one
}

@test "already, skipped" {
	try dlock x true
	try dlock --cooldown 1h --report report x false
	reports already 0 none
	try dlock -S unix:///nowhere --if-unreachable skip --report report x true
	reports skipped 0 none
}

@test "lost" {
	try dlock --report report x sh -c 'redis-cli -s "${DLOCK_SERVER#unix://}" SET lock:x other PX 50 >/dev/null; exit 3'
	reports lost 80 3
}

@test "max-run" {
	try dlock --max-run 200ms --report report x sh -c 'trap "exit 0" TERM; sleep 30 & wait'
	reports max-run 124 0
	try dlock --max-run 200ms --report report x sleep 30
	reports max-run 124 143
}

@test "cancelled: the report is there before dlock dies of the signal" {
	local signal
	begin_holder one x
	for signal in INT TERM HUP QUIT; do
		start two dlock --report report x true
		wait_until queued x 1
		kill -$signal $two_pid
		finish two
		reports cancelled $((128 + $(kill -l $signal))) none
	done
	let_go one
}

@test "killed" {
	begin_holder one x --report report
	kill -KILL $one_keeper
	finish one
	reports killed 70 137
}

@test "unreachable, refused, protocol" {
	try dlock -S unix:///nowhere --report report x true
	reports unreachable 69 none
	own_server auth --requirepass pw
	try dlock -S "unix://$PWD/auth/socket" --report report x true
	reports refused 77 none
	cli RPUSH lock:x a >/dev/null
	try dlock --report report x true
	reports protocol 76 none
	cli DEL lock:x >/dev/null
}

@test "config" {
	env -u DLOCK_SERVER true
	try env -u DLOCK_SERVER dlock --report report x true
	reports config 78 none
	echo 'nonsense = 1' >bad.conf
	try dlock --report report --config bad.conf x true
	reports config 78 none none
}

@test "usage, wherever on the command line it goes wrong" {
	try dlock --report report --nonsense x true
	reports usage 64 none none
	try dlock --nonsense --report report x true
	reports usage 64 none none
	try dlock -u --report report x true
	reports usage 64 none none
	try dlock --ttl never --report report x true
	reports usage 64 none none
	try dlock --report report
	reports usage 64 none none
	try dlock --report report x
	reports usage 64 none
	try dlock --report report $'a\xffb' true
	reports usage 64 none 'a?b'
	try dlock --report report -t 3 --grace 2 x true
	reports usage 64 none
	try dlock --report report hold true
	reports usage 64 none none
}

@test "not-found" {
	try dlock --report report x ./nothing
	reports not-found 127 none
	: >plain
	try dlock --report report x ./plain
	reports not-found 126 none
	printf '#!/no/such/interpreter\n' >bad
	chmod +x bad
	try dlock --report report x ./bad
	reports not-found 126 none
}

@test "a password is in none of it" {
	own_server auth --requirepass sesame
	try dlock -S "unix://:sesame@$PWD/auth/socket" --report report x true
	reports ran 0 0
	try dlock -S "unix://:sesame@$PWD/auth/socket" --report report x true
	refute grep sesame report
	try dlock -S "redis://:wrong@127.0.0.1:$(<auth/port)" --report report x true
	assert_equal "$status" 77
	refute grep wrong report
}

# ---- The file ------------------------------------------------------------------------------------

@test "the report of an earlier run is gone while COMMAND runs, and the new one comes as a whole" {
	echo old >report
	ln report other
	try dlock --report report x sh -c 'ls'
	assert_equal "$status" 0
	refute_match "$out" report
	assert_file other old
	is_report report
	assert_equal "$(stat -c %a report)" "$(umask | awk '{printf "%o", 438 - ($1 % 10) - 8 * (int($1 / 10) % 10)}')"
	assert_equal "$(ls -A | grep -c 'report')" 1 'files beside it'
	# Renamed into place: no reader ever sees half of it.
	traced -e trace=openat,write,rename,renameat,renameat2,unlink dlock --report report x true
	assert_match "$(grep -E 'rename' trace)" "\"report\.[0-9a-f]{8}~\", \"report\"\) = 0"
	refute grep -E 'openat\(.*"report", .*O_(WRONLY|RDWR)' trace
}

@test "an old report is gone after a usage error and where dlock is killed" {
	echo old >report
	try dlock --report report --nonsense x true
	is_report report
	echo old >report
	begin_holder one x --grace 0.2 --report report
	kill -KILL $one_pid
	finish one
	refute_file report
	assert_equal "$(ls -A | grep -c 'report')" 0 'files left'
	wait_until is_free x
}

@test "unwritable: 64 before the lock is taken" {
	cli CONFIG RESETSTAT >/dev/null
	try dlock --report /no/such/directory/report x touch ran
	expect_failure 64 "--report: cannot write '/no/such/directory/report': No such file"
	try dlock --report . x touch ran
	expect_failure 64 "--report: cannot write '.': Is a directory"
	try dlock --report '' x touch ran
	expect_failure 64 "--report"
	mkfifo pipe
	try dlock --report pipe x touch ran
	expect_failure 64 "--report: cannot write 'pipe'"
	try dlock --report-fd 17 x touch ran
	expect_failure 64 '--report-fd: cannot write to 17: Bad file descriptor'
	try sh -c 'exec dlock --report-fd 17 x touch ran 17</dev/null'
	expect_failure 64 '--report-fd: cannot write to 17'
	try sh -c 'exec dlock --report-fd 0 x touch ran <&-'
	expect_failure 64 '--report-fd: cannot write to 0'
	try dlock --report-fd one x touch ran
	expect_failure 64 "--report-fd: 'one'"
	refute_file ran
	assert_equal "$(cli INFO commandstats | grep -c evalsha || true)" 0
}

@test "a full disk: a warning, COMMAND's code, nothing left" {
	try dlock --report /dev/full x sh -c 'exit 3'
	assert_equal "$status $err" '3 dlock: x: cannot write the report to /dev/full: No space left on device'
	try sh -c 'exec dlock --report-fd 3 x sh -c "exit 4" 3>/dev/full'
	assert_equal "$status $err" '4 dlock: x: cannot write the report to descriptor 3: No space left on device'
	# A file that must not grow.
	skip_where_files_must_grow
	echo old >report
	try bash -c '(ulimit -f 0; exec dlock --report report x bash -c "exit 5") 2>&1 | cat; exit ${PIPESTATUS[0]}'
	assert_equal "$status" 5
	assert_match "$out" '^dlock: x: cannot write the report to report: File too large$'
	assert_equal "$(ls -A | grep -c 'report')" 0 'files left'
}

@test "devices, links and pipes are written to once, and stay what they are" {
	try dlock --report /dev/stdout x echo first
	assert_equal "$status" 0
	assert_equal "$(head -1 try.out)" first
	tail -1 try.out >report
	reports ran 0 0
	: >target
	ln -s target link
	try dlock --report link x true
	assert test -L link
	is_report target
	mkfifo pipe
	timeout 20 cat pipe >got &
	wait_until eval 'try dlock --report pipe x true; [[ $status == 0 ]]'
	wait $!
	is_report got
	traced -e trace=write dlock --report /dev/null x true
	assert_match "$(grep -E 'outcome|\\"ran' trace)" '^[0-9]+ +write\([0-9]+, "\{\\"outcome[^'$'\n'']*$'
}

@test "--report-fd: one write to a descriptor of the caller, which COMMAND has as well" {
	try sh -c 'exec dlock --report-fd 3 x sh -c "echo from COMMAND >&3" 3>report'
	assert_equal "$status" 0
	assert_equal "$(head -1 report)" 'from COMMAND'
	sed -i 1d report
	reports ran 0 0
	traced -e trace=write dlock --report-fd 1 x true >got
	assert_match "$(grep 'write(1,' trace)" "^[0-9]+ +write\(1, \"\{[^"$'\n'"]* = $(stat -c %s got)\$"
	is_report got
	try dlock --report-fd 1 --nonsense
	printf '%s\n' "$out" >report
	reports usage 64 none none
}

@test "both at once" {
	dlock --report report --report-fd 1 x true >got
	diff report got
	is_report report
}

@test "a reader that is gone: a warning, and no death by SIGPIPE" {
	try bash -c 'dlock --report-fd 3 x sh -c "sleep 0.5; exit 6" 3> >(exec 0<&-)'
	assert_equal "$status" 6
	assert_match "$err" 'cannot write the report to descriptor 3: Broken pipe'
	try bash -c 'exec 3> >(exec true); wait $!; exec dlock --report-fd 3 --nonsense x true'
	assert_equal "$status" 64
}

@test "closed standard streams do not turn into the report" {
	try sh -c 'exec dlock --report report x sh -c "echo out; echo err >&2" >&- 2>&-'
	is_report report
	: >target
	ln -s target link
	try sh -c 'exec dlock --report link x sh -c "echo out; echo err >&2; :" >&- 2>&- <&-'
	is_report target
}

@test "from the configuration" {
	echo "report = $PWD/report" >dlock.conf
	try dlock --config dlock.conf x true
	reports ran 0 0
}
