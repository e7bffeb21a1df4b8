# Where the server's password comes from, and where it must never be seen.

load ../lib/helper

setup_file() {
	file_begin
	cli CONFIG SET requirepass s3cretword >/dev/null
}
teardown_file() { file_end; }

cli() { redis-cli -s "$SERVER/socket" -a s3cretword --no-auth-warning "$@"; }

setup() {
	test_begin
	PLACE=127.0.0.1:$(<"$SERVER/port")
	mkdir -p config
	(umask 077 && echo s3cretword >password)
}

teardown() { test_end; }

# from SOURCE: the environment and the configuration from now on; ARGS are dlock's.
from() {
	unset DLOCK_SERVER DLOCK_PASSWORD REDISCLI_AUTH
	echo 'settle = 0' >config/dlock.conf
	ARGS=()
	case $1 in
	argument) ARGS=(-S "redis://:s3cretword@$PLACE") ;;
	long-argument) ARGS=("--server=redis://:s3cretword@$PLACE") ;;
	variable) export DLOCK_SERVER=redis://:s3cretword@$PLACE ;;
	DLOCK_PASSWORD) export DLOCK_SERVER=redis://$PLACE DLOCK_PASSWORD=s3cretword ;;
	REDISCLI_AUTH) export DLOCK_SERVER=redis://$PLACE REDISCLI_AUTH=s3cretword ;;
	file) printf 'server = redis://%s\npassword-file = %s\n' "$PLACE" "$PWD/password" >>config/dlock.conf ;;
	configuration) echo "server = redis://:s3cretword@$PLACE" >>config/dlock.conf ;;
	esac
}

readonly SOURCES='argument long-argument variable DLOCK_PASSWORD REDISCLI_AUTH file configuration'

# Where a file is the source, no process has it in its environment either.
in_a_file() { [[ $1 == file || $1 == configuration ]]; }

environment() { tr '\0' '\n' <"/proc/$1/environ"; }

# All that the server has, values included.
everything() {
	cli EVAL 'local all = {} for _, key in ipairs(redis.call("KEYS", "*")) do all[#all + 1] = key .. redis.call("DUMP", key) end return all' 0
}

@test "wherever it comes from, no process list, message, report, status or key has it" {
	local source pid
	for source in $SOURCES; do
		from $source
		rm -f holder.count
		begin_holder holder x -vv --report report "${ARGS[@]}"
		for pid in $holder_pid $holder_keeper; do
			refute_match "$(tr '\0' ' ' <"/proc/$pid/cmdline")" 's3cretword' "$source"
		done
		if in_a_file $source; then
			for pid in $holder_pid $holder_keeper $holder_command; do
				refute_match "$(environment $pid)" 's3cretword' "$source"
			done
		fi
		try dlock status --json -vv "${ARGS[@]}"
		assert_equal "$status" 0 "$source"
		refute_match "$out$err" 's3cretword' "$source"
		refute_match "$(everything | tr -d '\0')" 's3cretword' "$source"
		let_go holder
		assert_equal "$status" 0 "$source"
		assert_match "$err" "$PLACE" "$source"
		refute_match "$err$(<report)" 's3cretword' "$source"
	done
}

@test "COMMAND's environment is the caller's: what the caller put into it, and no more" {
	local source
	for source in DLOCK_PASSWORD REDISCLI_AUTH; do
		from $source
		try dlock x printenv $source
		expect 0 s3cretword
	done
	from file
	try dlock x env
	refute_match "$out" 's3cretword'
}

@test "a wrong one, a server that is away or silent, a bad command line: in no message, no report" {
	fake_server silent
	local source place
	for source in $SOURCES; do
		for place in "$PLACE" 127.0.0.1:1 "127.0.0.1:$(<silent/port)" "$PLACE/99" 'h:0' '[::'; do
			PLACE=$place from $source
			cli CONFIG SET requirepass other >/dev/null
			try dlock -vv -w 0.1 --report report "${ARGS[@]}" x touch ran
			redis-cli -s "$SERVER/socket" -a other --no-auth-warning CONFIG SET requirepass s3cretword >/dev/null
			refute [ "$status" = 0 ]
			refute_match "$out$err$(<report)" 's3cretword' "$source at $place"
		done
	done
	refute_file ran
}

@test "the one that counts: of the URL, of DLOCK_PASSWORD, of REDISCLI_AUTH, of the file" {
	from file
	REDISCLI_AUTH=wr0ng try dlock x true
	expect_failure 77 ''
	export REDISCLI_AUTH=wr0ng DLOCK_PASSWORD=s3cretword
	try dlock x true
	expect 0
	DLOCK_PASSWORD=wr0ng
	try dlock -S "redis://:s3cretword@$PLACE" x true
	expect 0
	DLOCK_PASSWORD='' REDISCLI_AUTH=''
	try dlock x true
	expect 0
}

@test "a file that others may read or change, or that holds none: 78, and it is not used" {
	from file
	local mode
	for mode in 604 602 644 640:ok 600:ok 400:ok; do
		chmod "${mode%:*}" password
		try dlock x true
		if [[ $mode == *:ok ]]; then
			expect 0
		else
			expect_failure 78 "password-file $PWD/password: not used.*0${mode%:*}" || fail "$mode"
		fi
	done
	chmod 600 password
	local text
	for text in '' '\n' '\ns3cretword' 's3\0cret'; do
		printf "$text" >password
		try dlock x true
		expect_failure 78 "password-file $PWD/password.*no password"
		refute_match "${err//"$PWD"/}" 's3' # a folder's name may have it
	done
	rm password
	try dlock x true
	expect_failure 78 'password-file'
	mkfifo password
	try dlock x true
	expect_failure 78 'no regular file'
	# A user that names the file in the URL's place is told so.
	echo 'password-file = password' >config/dlock.conf
	try dlock x true
	expect_failure 78 'dlock.conf:1: password-file'
}

@test "what goes to syslog is what is said on stderr" {
	# No server listens: connect(2) is made to succeed, and what follows it fails.
	unleaked try strace -f -qq -s 400 -e trace=connect,sendto -e inject=connect:retval=0 -o trace \
		dlock --syslog -S "redis://u:s3cretword@h:0" x touch ran
	assert_equal "$status" 64
	assert grep -q 'sendto(.*redis://u:...@h:0' trace
	refute grep s3cretword trace
}

@test "a dlock that knows a password leaves no core file, however it dies; COMMAND may" {
	# It is to die of SIGSEGV, which a sanitizer would take for its own business.
	export ASAN_OPTIONS=$ASAN_OPTIONS:handle_segv=0 UBSAN_OPTIONS=$UBSAN_OPTIONS:handle_segv=0
	export TSAN_OPTIONS=$TSAN_OPTIONS:handle_segv=0
	from variable
	start one core dlock x sh -c 'ulimit -c; ulimit -c >limit; exec witness count count'
	wait_until file_has count '^ready'
	local command keeper pid
	command=$(sed -n 's/^ready //p' count)
	keeper=$(parent_of "$command")
	for pid in $one_pid "$keeper"; do
		assert_match "$(grep 'core file' "/proc/$pid/limits")" 'size +0 '
	done
	assert_file limit unlimited
	kill -SEGV "$keeper"
	wait_until is_gone "$one_pid"
	start two core dlock y sh -c 'touch runs; exec sleep 100'
	wait_until test -e runs
	kill -SEGV "$two_pid"
	wait_until is_gone "$two_pid"
	wait_until nothing_runs
	assert_equal "$(find . -name 'core*')" ''

	# Those that start no other command, while they wait for a server that stands still.
	for command in status check 'renew x token' 'release x token' 'release x --force'; do
		server_stop
		start three core dlock $command
		wait_until -t 4 eval '[[ $(readlink /proc/$three_pid/fd/*) == *socket:* ]]'
		kill -SEGV "$three_pid"
		wait_until is_gone "$three_pid"
		server_continue
		assert_equal "$(find . -name 'core*')" '' "$command"
	done
}

# A password is changed while jobs run: first at the server, then in the file. Each connection is new after that.
@test "a file that is changed while COMMAND runs: the next connection has the new password" {
	from file
	begin_holder one x -t 4
	start two dlock x echo had
	wait_until queued x 1
	cli CONFIG SET requirepass changed >/dev/null
	(umask 077 && echo changed >password)
	cli() { redis-cli -s "$SERVER/socket" -a changed --no-auth-warning "$@"; }
	cli CLIENT KILL TYPE normal SKIPME yes >/dev/null
	stays 5000 is_alive "$one_command"
	let_go one
	expect 0
	finish two
	expect 0 had
	cli CONFIG SET requirepass s3cretword >/dev/null
	cli() { redis-cli -s "$SERVER/socket" -a s3cretword --no-auth-warning "$@"; } # for what is left, too
}

@test "a password that stands for a user's name, for want of a colon, is not repeated" {
	own_server secret --requirepass hunter2
	local url
	for url in redis://hunter2@127.0.0.1:$(<secret/port) unix://hunter2@$PWD/secret/socket; do
		try dlock -v -S "$url" -n x true
		assert_equal "$status" 77
		assert_match "$err" 'has a colon before it: redis://:PASSWORD@HOST'
		refute_match "$err" hunter2
	done
	try dlock -S "redis://hunter2@127.0.0.1:0" -n x true
	assert_equal "$status" 64
	refute_match "$err" hunter2
	try dlock -S "redis://:hunter2@127.0.0.1:$(<secret/port)" -n x echo ran
	expect 0 ran
	# With a password from elsewhere it is a user's name.
	DLOCK_PASSWORD=hunter2 try dlock -v -S "redis://default@127.0.0.1:$(<secret/port)" -n x true
	assert_equal "$status" 0
	assert_match "$err" 'redis://default@127.0.0.1'
}
