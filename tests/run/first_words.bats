# What somebody meets who does not know dlock yet: help, and what was probably meant.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

# asked TEXT ARGUMENT...: dlock fails, one line of stderr asks TEXT, and nothing has run.
asked() {
	local text=$1
	shift
	try dlock "$@"
	[[ $status != 0 && $err == *"$text" && $err != *$'\n'* ]] || fail "dlock $*: $status, $err"
	refute_file ran
}

@test "help: what dlock is, in at most 60 lines, with two examples and the manual's place" {
	unset DLOCK_SERVER
	try dlock help
	assert_equal "$status$err" 0
	echo "$out" >help
	assert_between "$(wc -l <help)" 40 60
	assert_equal "$(grep -c '^  dlock ' help)" 2
	assert_match "$out" 'man dlock, man 7 dlock'
	assert_match "$out" 'dlock help server'
	assert_equal "$(dlock --help)" "$out"
	# Both examples are good lines: what fails is that no server is there, or COMMAND.
	local line
	mkdir bin
	for line in backup git make; do
		printf '#!/bin/sh\necho "%s $*" >>ran\n' $line >bin/$line
		chmod +x bin/$line
	done
	while IFS= read -r line; do
		PATH=$PWD/bin:$PATH try sh -c "$line"
		assert_equal "$status" 0 "$line"
	done < <(sed -n 's/^  \(dlock .*\)/\1/p' help | sed "s#redis://redis.example.net#unix://$SERVER/socket#")
	assert_equal "$(<ran)" "backup --all
git pull
make install"
}

@test "help COMMAND is what COMMAND --help prints" {
	local word
	for word in run status hold acquire renew release guard check version; do
		try dlock help "$word"
		assert_equal "$status$err" 0
		assert_match "$out" "^Usage: dlock $word"
		case $word in
		run) assert_match "$out" 'exit codes first: man dlock\.$' ;;
		version) ;;
		*) assert_match "$out" "exit codes first: man dlock-$word\\.\$" ;;
		esac
		assert_equal "$(dlock "$word" --help)" "$out"
	done
	try dlock help stauts
	expect_failure 64 'nothing may follow but.*dlock run help'
	try dlock help run status
	expect_failure 64 'nothing may follow but'
	try dlock version x
	expect_failure 64 'nothing may follow; .*dlock run version'
}

@test "help server: the forms of a URL, in words" {
	unset DLOCK_SERVER
	try dlock help server
	assert_equal "$status$err" 0
	assert_match "$out" 'redis\+quorum://host\[:port\],host,host\[/db\]'
	assert_match "$out" 'cacert=FILE'
	assert_match "$out" 'DLOCK_SERVER'
}

@test "version is -V: each service and the version of its library" {
	unset DLOCK_SERVER
	try dlock version
	assert_equal "$status$err" 0
	echo "$out" >version
	assert_equal "$(dlock -V)" "$out"
	assert_match "$(head -n 1 version)" '^dlock [0-9]+\.[0-9]'
	assert grep -qE '^file +built in$' version
	assert grep -qE '^redis +hiredis [0-9]+\.[0-9]+' version
	assert grep -qE '^redis\+quorum +hiredis [0-9]+\.[0-9]+' version
	local line
	for line in postgres:dlock-postgres:libpq etcd:dlock-etcd:libcurl zookeeper:dlock-zookeeper:libzookeeper; do
		IFS=: read -r scheme program library <<<"$line"
		if build_lacks "$scheme"; then
			assert grep -qE "^$scheme +not there: the package $program " version
		else
			assert grep -qE "^$scheme +$library [0-9]+\.[0-9]+" version
		fi
	done
	# Alone, without the programs beside it.
	cp "$(realpath "$BIN/dlock")" lonely
	try ./lonely -V
	assert_match "$out" 'etcd +not there: the package dlock-etcd is not installed'
}

@test "dlock alone prints two lines of usage" {
	unset DLOCK_SERVER
	try dlock
	assert_equal "$status$out" 64
	assert_equal "$(wc -l <<<"$err")" 2
	assert_match "$err" '^dlock: usage: dlock \[OPTION\]\.\.\. NAME \[--\] COMMAND \[ARG\]'
	assert_match "$err" 'dlock help'
}

@test "a command that is nearly one is asked about" {
	asked 'did you mean dlock status?' stauts
	asked 'did you mean dlock status?' -w 1 statsu
	asked 'did you mean dlock acquire?' aquire job
	asked 'did you mean dlock release?' relase job token
	asked 'did you mean dlock hold?' hodl
	try dlock nightly
	assert_equal "$status" 64
	refute_match "$err" 'did you mean'
	# A lock may be called like that.
	try dlock stauts echo yes
	expect 0 yes
}

@test "127: a string for the shell, and options that stand after NAME" {
	asked 'a string of the shell goes with -c' job 'touch ran'
	asked 'a string of the shell goes with -c' job 'touch&'
	asked 'a string of the shell goes with -c' job 'a|b'
	asked 'a string of the shell goes with -c' job 'a;b'
	asked 'a string of the shell goes with -c' job 'a>ran'
	assert_equal "$status" 127
	asked 'options stand before NAME' job -n touch ran
	assert_equal "$status" 127
	asked 'options stand before NAME' job --wait 5 touch ran
	try dlock job no-such-program
	expect_failure 127 'No such file or directory$'
}

@test "-c NAME STRING is asked about, -c PROGRAM NAME is not" {
	try dlock -c job 'echo hi'
	assert_equal "$status" 127
	assert_match "$err" "did you mean dlock job -c 'echo hi'\?"
	try dlock -c true 'two words'
	expect 0 ''
	try dlock -c 'true; true' 'two words'
	expect 0 ''
}

@test "-c with a SHELL that runs nothing takes /bin/sh" {
	local shell
	for shell in /usr/sbin/nologin /sbin/nologin /bin/false /usr/bin/false; do
		SHELL=$shell
		export SHELL
		try dlock x -c 'echo $0'
		expect 0 /bin/sh
	done
}

@test "a URL that is nearly one gets the form that was meant" {
	asked 'did you mean redis://127.0.0.1:6379?' -S 127.0.0.1:6379 x touch ran
	asked 'did you mean redis://localhost?' -S localhost x touch ran
	asked 'did you mean postgres://db.example.net:5432?' -S db.example.net:5432 x touch ran
	asked 'did you mean etcd://a:2379?' -S a:2379 x touch ran
	asked 'did you mean file:///tmp/locks, or unix:///tmp/locks for a socket?' -S /tmp/locks x touch ran
	asked 'did you mean unix:///x?' -S unix:/x x touch ran
	asked 'did you mean redis://?' -S reddis://h x touch ran
	asked 'did you mean redis://?' -S REDIS://h x touch ran
	asked 'did you mean postgres://?' -S postgre://h/db x touch ran
	DLOCK_SERVER=localhost
	asked 'did you mean redis://localhost?' x touch ran
	assert_match "$err" 'DLOCK_SERVER'
	# Nothing that may be a password is quoted.
	local url
	for url in reddis://:hidden@h h:hidden redis:hidden@h redis:u:hidden@h; do
		try dlock -S "$url" x touch ran
		expect_failure 64 'scheme'
		refute_match "$err" hidden
	done
}

@test "valkey:// is redis://" {
	own_server other
	local port
	port=$(<other/port)
	try dlock -v -S "valkey://127.0.0.1:$port" x redis-cli -p "$port" EXISTS lock:x
	assert_equal "$status $out" "0 1"
	assert_match "$err" "valkey://127.0.0.1:$port"
}

@test "a duration in words is asked about" {
	asked "'5min' is no duration; did you mean 5m?" -w 5min x touch ran
	asked 'did you mean 90s?' -w 90sec x touch ran
	asked 'did you mean 2h?' -t '2 hours' x touch ran
	asked 'did you mean 1h30m?' --max-run '1 hour 30 minutes' x touch ran
	asked 'did you mean 250ms?' -w 250msec x touch ran
	asked 'did you mean 1d?' --cooldown 1D x touch ran
	try dlock -w 5minn x touch ran
	expect_failure 64 'no duration like'
}

@test "status on a terminal says that there is no lock" {
	needs terminal
	assert_match "$(script -qec 'dlock status' /dev/null)" '^no lock is held or waited for'
	try dlock status
	assert_equal "$status$err" 0
	assert_match "$out" '^NAME +MODE'
}
