# A host that starves dlock, or stands still, for longer than a first answer may take (5 s): what can
# be read is read before time is called. The servers are well.

load ../lib/helper
load ../lib/authority

setup_file() {
	file_begin
	export CERTIFIED=$BATS_FILE_TMPDIR/secure
	make_authority
	make_usual_certificates
	tls_begin "$CERTIFIED"
	local i
	for i in 1 2 3; do
		server_begin "$BATS_FILE_TMPDIR/q$i"
	done
}
setup() {
	test_begin
	export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 # not under strace
	tcp=redis://127.0.0.1:$(<"$SERVER/port")
	quorum=redis+quorum://127.0.0.1:$(<"$BATS_FILE_TMPDIR/q1/port")
	quorum+=,127.0.0.1:$(<"$BATS_FILE_TMPDIR/q2/port"),127.0.0.1:$(<"$BATS_FILE_TMPDIR/q3/port")
	tls="rediss://localhost:$(<"$CERTIFIED/tls")?cacert=$CA/ca.pem"
}
teardown() { test_end; }
teardown_file() {
	local i
	server_end "$CERTIFIED"
	for i in 1 2 3; do
		server_end "$BATS_FILE_TMPDIR/q$i"
	done
	file_end
}

# stalled CALL dlock ...: the first CALL of the front and the first of each thread of the keeper come six seconds late.
stalled() {
	local call=$1
	shift
	strace -f --seccomp-bpf -qq -e signal=none -e "trace=$call" -e "inject=$call:delay_enter=6000000:when=1" -o trace "$@"
}

# granted_late: the last try ran, late, and its report says how late.
granted_late() {
	expect 0 ran
	assert_between "$(jq .waited_ms report)" 5500 $((60000 * TEST_PATIENCE)) 'waited_ms'
}

# stalls CALL SERVER [OPTION]...: dlock in CALL.
stalls() {
	DLOCK_SERVER=$2 try stalled "$1" dlock --report report "${@:3}" x echo ran
	granted_late
}

# stands_still SERVER PID...: all of dlock, and the server as well until then, which PIDs are.
stands_still() {
	kill -STOP "${@:2}"
	DLOCK_SERVER=$1 start one dlock --report report x echo ran
	wait_until has_child $one_pid
	local keeper
	keeper=$(keeper_of $one_pid)
	kill -STOP $one_pid $keeper
	kill -CONT "${@:2}"
	wait_until is_stopped $one_pid
	stays 6000 is_stopped $one_pid
	# The front passes it on to the keeper, and looks at the time before the keeper comes out of its wait.
	strace -qq -o /dev/null -e signal=none -e trace=poll,restart_syscall \
		-e inject=poll,restart_syscall:delay_exit=300000:when=1 -p $keeper 3>&- 4>&- &
	wait_until grep -q '^TracerPid:.*[1-9]' /proc/$keeper/status
	kill -CONT $one_pid
	finish one
	granted_late
}

children_of() { cat "/proc/$1/task/$1/children"; }
has_child() { [[ $(children_of "$1" 2>/dev/null) ]]; }
is_stopped() { [[ $(proc_state "$1") == T ]]; }

@test "connecting takes six seconds: granted" {
	proxy "$SERVER/socket" 0.1
	stalls connect "unix://$PWD/proxy.socket" # so that the answer is not there as soon as it is asked for
	cli SCRIPT FLUSH >/dev/null # then it takes two requests
	stalls connect "$DLOCK_SERVER" -n
	stalls connect "$tcp" -n
}

@test "sending the request takes six seconds: granted" {
	stalls sendto "$DLOCK_SERVER"
	cli SCRIPT FLUSH >/dev/null
	stalls sendto "$DLOCK_SERVER" -n
}

@test "front and keeper wait six seconds too long, with the grant in the socket: granted" {
	try stalled poll dlock --report report x echo ran
	granted_late
	cli SCRIPT FLUSH >/dev/null
	try stalled poll dlock --report report -n x echo ran
	granted_late
}

@test "-w that is over by then: the grant is taken all the same" {
	dlock x true # so that the server knows the scripts
	try stalled poll dlock -w 2 --report report x echo ran
	granted_late
}

@test "all of dlock is stopped for six seconds as it starts: granted" {
	dlock x true
	stands_still "$DLOCK_SERVER" "$(server_pid)"
}

@test "acquire: the same, from a server that takes a tenth of a second" {
	proxy "$SERVER/socket" 0.1
	export DLOCK_SERVER=unix://$PWD/proxy.socket
	local call
	for call in connect sendto; do
		try stalled $call dlock acquire -n x
		assert_equal "$status" 0
		dlock release x "${out% *}"
	done
}

@test "a quorum, dlock in a call: granted" {
	# Of its keeper each thread; a call of one alone is that of a silent server. Three times: all that was late may be
	# there by chance when the thread that counts the votes wakes.
	local i
	for i in 1 2 3; do
		stalls poll "$quorum"
		stalls poll "$quorum" -n
	done
}

@test "a quorum, all of dlock is stopped: granted" {
	DLOCK_SERVER=$quorum dlock x true
	stands_still "$quorum" $(cat "$BATS_FILE_TMPDIR"/q?/pid)
}

@test "TLS, dlock in a call: granted" {
	DLOCK_SERVER=$tls has_tls || return 0
	stalls connect "$tls"
	stalls sendto "$tls" -n
	stalls poll "$tls"
}

@test "a server that never answers: 69 after 5 s all the same, and the report says so" {
	server_stop
	try dlock --report report x touch ran
	server_continue
	expect_failure 69 ''
	assert_between "$took" 5000 $((5900 * TEST_PATIENCE)) ms
	assert_between "$(jq .waited_ms report)" 5000 $((5900 * TEST_PATIENCE)) waited_ms
	refute_file ran
	wait_until is_free x
}
