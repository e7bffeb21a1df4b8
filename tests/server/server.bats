# How servers are reached, named, refused, and what is no server.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

held_within() { # URL REDIS-CLI-ARGUMENT...: the lock is at that server while COMMAND runs
	local url=$1
	shift
	try dlock -S "$url" x redis-cli "$@" --no-auth-warning EXISTS lock:x
	expect 0 1
}

@test "a unix socket, TCP by name and address, IPv6 in brackets" {
	unset DLOCK_SERVER
	local port
	port=$(<"$SERVER/port")
	held_within "unix://$SERVER/socket" -p "$port"
	held_within "redis://127.0.0.1:$port" -p "$port"
	held_within "redis://localhost:$port" -p "$port"
	held_within "redis://localhost:$port/0" -p "$port"
	held_within "redis://127.0.0.1:$port/" -p "$port"
	needs ipv6
	held_within "redis://[::1]:$port" -p "$port"
	held_within "redis://[0:0:0:0:0:0:0:1]:$port/0" -p "$port"
}

@test "-S outranks DLOCK_SERVER, which outranks the configuration; the configuration will do" {
	echo "server = unix://$SERVER/socket?db=5" >>config/dlock.conf
	DLOCK_SERVER="unix://$SERVER/socket?db=4"
	try dlock -S "unix://$SERVER/socket?db=3" x redis-cli -s "$SERVER/socket" -n 3 EXISTS lock:x
	expect 0 1
	try dlock x redis-cli -s "$SERVER/socket" -n 4 EXISTS lock:x
	expect 0 1
	unset DLOCK_SERVER
	try dlock x redis-cli -s "$SERVER/socket" -n 5 EXISTS lock:x
	expect 0 1
}

@test "a path with odd characters, %-encoded" {
	mkdir 'a b%'
	ln -s "$SERVER/socket" 'a b%/s?'
	try dlock -S "unix://$PWD/a%20b%25/s%3F" x echo ran
	expect 0 ran
}

@test "another database: the lock is there and nowhere else, with its companions" {
	local url
	for url in "unix://$SERVER/socket?db=7" "redis://127.0.0.1:$(<"$SERVER/port")/7"; do
		try dlock -S "$url" x redis-cli -s "$SERVER/socket" -n 7 EXISTS lock:x
		expect 0 1
		assert_equal "$(cli INFO keyspace | grep -c '^db')" 1
		assert_match "$(cli INFO keyspace)" 'db7:'
		try dlock -S "$url" -n x dlock status -S "$url" -q x
		expect 0
	done
}

@test "a database that does not exist or is refused: no lock in database 0" {
	try dlock -S "unix://$SERVER/socket?db=16" x touch ran
	expect_failure 64 'db=16'
	own_server acl --user limited on '>pw' '~*' +@all -select
	try dlock -S "redis://limited:pw@127.0.0.1:$(<acl/port)/1" x touch ran
	expect_failure 77 ''
	refute_file ran
	assert_equal "$(cli DBSIZE)" 0 'keys'
	assert_equal "$(redis-cli -s acl/socket DBSIZE)" 0 'keys'
}

@test "a password, by URL and by environment" {
	own_server auth --requirepass 's3cret word'
	local port
	port=$(<auth/port)
	export DLOCK_SERVER=redis://127.0.0.1:$port
	try dlock -S "redis://:s3cret%20word@127.0.0.1:$port" x echo ran
	expect 0 ran
	try dlock -S "redis://default:s3cret%20word@127.0.0.1:$port/2" x echo ran
	expect 0 ran
	DLOCK_PASSWORD='s3cret word' try dlock x echo ran
	expect 0 ran
	REDISCLI_AUTH='s3cret word' try dlock x echo ran
	expect 0 ran
	DLOCK_PASSWORD='s3cret word' REDISCLI_AUTH=wrong try dlock x echo ran
	expect 0 ran
	DLOCK_PASSWORD='s3cret word' try dlock -S "unix://$PWD/auth/socket" x echo ran
	expect 0 ran
	DLOCK_PASSWORD='s3cret word' try dlock status --json
	expect 0 '[]'
}

@test "a password from a file, which COMMAND does not get" {
	own_server auth --requirepass s3cret
	echo s3cret >pw
	chmod 600 pw
	printf 'server = redis://127.0.0.1:%s\npassword-file = %s\n' "$(<auth/port)" "$PWD/pw" >>config/dlock.conf
	unset DLOCK_SERVER
	try dlock x env
	assert_equal "$status$err" 0
	refute_match "$out" 's3cret'
}

@test "a user by ACL, with no more rights than the prefix" {
	needs acl
	own_server acl --user locker on '>pw' '~lock:*' +@all -@dangerous --user default off
	local url
	url=redis://locker:pw@127.0.0.1:$(<acl/port)
	try dlock -S "$url" x echo ran
	expect 0 ran
	try dlock -S "$url" 'odd {name} }{' echo ran
	expect 0 ran
	try dlock -S "$url" --prefix other: x echo ran
	expect_failure 77 ''
}

@test "wrong password, unknown user, no password, user without rights: 77" {
	needs acl
	own_server acl --requirepass right --user nothing on '>pw' --user readonly on '>pw' '~*' +@read
	local host
	host=127.0.0.1:$(<acl/port)
	local url
	for url in "redis://$host" "redis://:wr0ng@$host" "redis://default:wr0ng@$host/3" \
		"redis://nobody:wr0ng@$host" "redis://nothing:pw@$host" "redis://readonly:pw@$host" \
		"redis://$host/3" "unix://$PWD/acl/socket"; do
		try dlock -S "$url" x touch ran
		expect_failure 77 '' || fail "$url"
		refute_match "$err" 'wr0ng'
		try dlock -S "$url" -w 2 x touch ran
		expect_failure 77 '' || fail "$url"
	done
	DLOCK_PASSWORD=wr0ng try dlock -S "redis://$host" x touch ran
	expect_failure 77 ''
	try dlock status -S "redis://$host"
	expect_failure 77 ''
	refute_file ran
	assert_equal "$(redis-cli -s acl/socket -a right --no-auth-warning DBSIZE)" 0 'keys'
}

@test "a password that a server does not want is no reason to go on without: 77" {
	# What follows the refused AUTH runs as the default user, which may do everything here: the lock
	# is granted, and must be released. With the scripts known to the server, and without.
	local round
	for round in cold warm; do
		try dlock -S "redis://somebody:wr0ng@127.0.0.1:$(<"$SERVER/port")" x touch ran
		expect_failure 77 '' || fail "$round"
		refute_match "$err" 'wr0ng'
		refute_file ran
		assert is_free x
		dlock x true
	done
	try dlock status -S "redis://somebody:wr0ng@127.0.0.1:$(<"$SERVER/port")"
	expect_failure 77 ''
}

@test "the password is in no process list, no message, no status, and no key" {
	own_server auth --requirepass s3cretword
	local url
	url=redis://:s3cretword@127.0.0.1:$(<auth/port)
	begin_holder one x -vv -S "$url"
	local pid
	for pid in $one_pid $one_keeper; do
		refute_match "$(tr '\0' ' ' <"/proc/$pid/cmdline")" 's3cretword'
	done
	refute_match "$(tr '\0' '\n' <"/proc/$one_command/environ")" 's3cretword'
	refute_match "$(DLOCK_PASSWORD=s3cretword dlock status --json -S "${url/:s3cretword@/}" -vv 2>&1)" 's3cretword'
	refute_match "$(redis-cli -s auth/socket -a s3cretword --no-auth-warning --scan | paste -sd ' ')" 's3cretword'
	let_go one
	assert_equal "$status" 0
	refute_match "$err" 's3cretword'
	assert_match "$err" "127.0.0.1:$(<auth/port)"
}

@test "the scrubbed URL keeps the rest of the command line readable" {
	own_server auth --requirepass s3cretword
	begin_holder one x --server="redis://:s3cretword@127.0.0.1:$(<auth/port)"
	local line
	line=$(tr '\0' ' ' <"/proc/$one_pid/cmdline")
	refute_match "$line" 's3cretword'
	assert_match "$line" "@127.0.0.1:$(<auth/port) .*witness"
	let_go one
}

@test "a port where nobody listens: 69 at once, though -w would allow more" {
	local port
	port=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	local option
	for option in '' -n '-w 20'; do
		try dlock $option -S "redis://127.0.0.1:$port" x touch ran
		expect_failure 69 "127.0.0.1:$port"
		assert_between "$took" 0 $((1500 * TEST_PATIENCE)) ms
	done
	try dlock -S "unix://$PWD/none" x touch ran
	expect_failure 69 "$PWD/none"
	assert_between "$took" 0 $((1500 * TEST_PATIENCE)) ms
	touch plain
	try dlock -S "unix://$PWD/plain" x touch ran
	expect_failure 69 ''
	try dlock status -S "unix://$PWD/none"
	expect_failure 69 ''
	refute_file ran
}

@test "a host name that does not exist: 69" {
	try dlock -w 5 -S redis://no-such-host.invalid x touch ran
	expect_failure 69 'no-such-host.invalid'
	refute_file ran
}

@test "a server that never answers: 69 after 5 s, or after -w if that is shorter" {
	fake_server silent
	local url
	for url in "unix://$PWD/silent/socket" "redis://127.0.0.1:$(<silent/port)"; do
		try dlock -S "$url" -w 0.7 x touch ran
		expect_failure 69 ''
		assert_between "$took" 700 $((1200 * TEST_PATIENCE)) 'ms with -w 0.7'
	done
	try dlock -S "$url" -w 60 x touch ran
	expect_failure 69 ''
	assert_between "$took" 4900 $((6000 * TEST_PATIENCE)) 'ms with -w 60'
	try dlock -S "$url" -n x touch ran
	expect_failure 69 ''
	assert_between "$took" 4900 $((6000 * TEST_PATIENCE)) 'ms with -n'
	try dlock status -S "$url"
	expect_failure 69 ''
	refute_file ran
}

@test "a server that is stopped: 69, and nothing is left for the time when it goes on" {
	server_stop
	try dlock -w 1 x touch ran
	expect_failure 69 ''
	server_continue
	wait_until is_free x
	refute_file ran
}

@test "a signal ends dlock while the server does not answer" {
	fake_server silent
	start one outcome=outcome pid=front dlock -S "unix://$PWD/silent/socket" x touch ran
	wait_until is_file front
	wait_until asks "$(<front)"
	kill -TERM "$(<front)"
	wait_until -t 3 is_file outcome
	assert_file outcome 'signal TERM'
	refute_file ran
}

asks() { has_socket "$(keeper_of "$1")"; } # FRONT

@test "what is not a Redis: 76 or 69, one line, no long wait, no memory" {
	# A sanitizer needs more than any limit.
	local limit=$((4 << 20))
	(ulimit -S -v $limit && ASAN_OPTIONS='' TSAN_OPTIONS='' dlock -V >/dev/null 2>&1) || limit=unlimited
	local mode
	for mode in garbage http ssh ok number nil empty-list huge-string huge-list deep-list \
		negative half strange-list close close-late error; do
		fake_server $mode
		ulimit -S -v $limit
		try dlock -w 2 -S "unix://$PWD/$mode/socket" x touch ran
		[[ $status == 76 || $status == 69 ]] || fail "$mode: exit $status, $err"
		expect_failure "$status" '' || fail "$mode"
		refute_match "$err" $'[\e\a]' "$mode"
		assert_between "$took" 0 $((2600 * TEST_PATIENCE)) "ms, $mode"
		try timeout 20 dlock status -S "unix://$PWD/$mode/socket"
		[[ $status == 76 || $status == 69 ]] || fail "status, $mode: exit $status, $out $err"
	done
	refute_file ran
}

@test "what a list takes in memory is not what a server wants" {
	local most
	fake_server wide-list
	# Each of eight million lists that it sends in 32 MB would take twenty times as much.
	most=$(python <<-END
		import resource, subprocess
		for words in ["-n", "x", "touch", "ran"], ["status"]:
		    done = subprocess.run(["dlock", "-S", "unix://$PWD/wide-list/socket", *words],
		        stderr=subprocess.DEVNULL)
		    assert done.returncode == 76, done
		print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
	END
	)
	assert_between "$most" 1 400 MiB
	refute_file ran
}

@test "a server that does not know the script, and then says nothing: no answer, 69" {
	fake_server unknown-script
	export DLOCK_SERVER=unix://$PWD/unknown-script/socket
	try dlock -w $((500 * TEST_PATIENCE))ms x touch ran
	expect_failure 69 'does not answer'
	rm unknown-script/asked-again
	# The same where the front has to say it for a keeper that is slow.
	start one dlock -w $((1000 * TEST_PATIENCE))ms x touch ran
	wait_until test -e unknown-script/asked-again
	kill -STOP "$(pgrep -P $one_pid)"
	finish one
	expect_failure 69 'no answer'
	refute_file ran
}

@test "a Redis in protected mode: 77 or 76, with what it said" {
	fake_server denied
	try dlock -w $((2 * TEST_PATIENCE)) -S "unix://$PWD/denied/socket" x touch ran
	[[ $status == 76 || $status == 77 ]] || fail "exit $status, $err"
	expect_failure "$status" 'protected mode'
}

@test "a server without scripts: an answer that says so, and no lock" {
	own_server crippled --rename-command EVALSHA '' --rename-command EVAL ''
	try dlock -w $((2 * TEST_PATIENCE)) -S "unix://$PWD/crippled/socket" x touch ran
	expect_failure 76 ''
	refute_file ran
	assert_equal "$(redis-cli -s crippled/socket DBSIZE)" 0
}

@test "a replica that only reads: refused, with a word of why" {
	own_server replica --replicaof 127.0.0.1 1 --replica-serve-stale-data yes
	try dlock -w 2 -S "unix://$PWD/replica/socket" x touch ran
	refute [ "$status" = 0 ]
	refute_file ran
	assert_match "$err" '^dlock: x: '
}

@test "a server full to its maxmemory: no lock, one line" {
	own_server full --maxmemory 1 --maxmemory-policy noeviction
	try dlock -w 2 -S "unix://$PWD/full/socket" x touch ran
	refute [ "$status" = 0 ]
	expect_failure "$status" ''
	refute_file ran
	redis-cli -s full/socket CONFIG SET maxmemory 0
	assert_equal "$(redis-cli -s full/socket EXISTS lock:x)" 0
}

@test "a waiter that was answered once reconnects to a server that comes back" {
	cli SET lock:x other PX 60000 >/dev/null
	start one dlock x echo ran
	wait_until asks $one_pid
	wait_until is_quiet $one_pid
	server_end "$SERVER"
	stays 1500 is_alive $one_pid
	server_again "$SERVER"
	finish one
	assert_equal "$status$out" 0ran
}

@test "connections cut at any point: 69 only before the first answer, no lock stays behind" {
	local i
	for i in {1..10}; do
		start "c$i" dlock x sh -c 'sleep 0.0$(($$ % 10))'
	done
	for i in {1..15}; do
		cli CLIENT KILL TYPE normal SKIPME yes >/dev/null
		sleep 0.05
	done
	for i in {1..10}; do
		finish "c$i"
		[[ $status == 0 ]] || expect_failure 69 'closed the connection|Connection reset'
	done
	wait_until is_free x
}
