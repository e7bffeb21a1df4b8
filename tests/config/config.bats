# The configuration: which file counts, profiles, warnings, its manual and its example.

load ../lib/helper

setup_file() {
	file_begin
	export MANUAL=$BATS_TEST_DIRNAME/../../man/dlock.conf.5 EXAMPLE=$BATS_TEST_DIRNAME/../../examples/dlock.conf
}
teardown_file() { file_end; }
setup() {
	test_begin
	unset DLOCK_SERVER
	rm -r config # files are what this is about
	mkdir config etc
	cp /etc/passwd /etc/group /etc/hosts etc/
}
teardown() { test_end; }

# dlock with ./etc in the place of /etc, in a mount namespace; or with ./etc/dlock.conf in the place of that
# one alone, where nothing may be mounted.
on_host() {
	if may_mount 2>/dev/null; then
		in_mounts sh -c 'mount --bind "$0" /etc && exec "$@"' "$PWD/etc" dlock "$@"
	else
		make_elsewhere
		LD_PRELOAD=$ELSEWHERE ELSEWHERE_CONF=$PWD/etc/dlock.conf "$LOADING/dlock" "$@"
	fi
}

# uses SERVER [OPTION]...: that is the one it tries to reach.
uses() {
	local server=$1
	shift
	try on_host "$@" status
	assert_equal "$status $(last_line try.err)" "69 dlock: cannot reach unix:///no/$server: No such file or directory"
}

system() { printf '%s\n' "$@" >etc/dlock.conf; }
user() { printf '%s\n' "$@" >config/dlock.conf; }

@test "host's file, user's file, DLOCK_SERVER, -S: the last wins; --config replaces both files" {
	try on_host status
	expect_failure 78 '-S URL, by DLOCK_SERVER, or by .server = URL. in /etc/dlock.conf'
	system 'server = unix:///no/system'
	uses system
	user 'ttl = 5s'
	uses system
	user 'server = unix:///no/user'
	uses user
	echo 'server = unix:///no/named' >named
	uses named --config named
	export DLOCK_SERVER=unix:///no/environment
	uses environment
	uses environment --config named
	uses argument -S unix:///no/argument
	DLOCK_SERVER='' uses user
	rm etc/dlock.conf
	unset DLOCK_SERVER
	uses user
	echo 'ttl = 5s' >named
	try on_host --config named status
	expect_failure 78 'named'
	try on_host --config nowhere status
	expect_failure 78 'nowhere: No such file'
}

@test "XDG_CONFIG_HOME, else ~/.config; one that is relative does not count" {
	mkdir -p home/.config relative
	echo 'server = unix:///no/home' >home/.config/dlock.conf
	echo 'server = unix:///no/relative' >relative/dlock.conf
	user 'server = unix:///no/xdg'
	HOME=$PWD/home uses xdg
	HOME=$PWD/home XDG_CONFIG_HOME= uses home
	HOME=$PWD/home XDG_CONFIG_HOME=relative uses home
	export HOME=$PWD/home
	unset XDG_CONFIG_HOME
	uses home
	chmod 000 home/.config/dlock.conf
	((EUID == 0)) || DLOCK_SERVER=unix:///no/x uses x
}

@test "a profile counts on top of what stands before it; both files may have a part" {
	system 'server = unix:///no/system' '[one]' 'server = unix:///no/one' '[two]' 'prefix = two:'
	uses system
	uses one --profile one
	uses system --profile two
	user '[two]' 'server = unix:///no/mine'
	uses system
	uses mine --profile two
	user 'server = unix:///no/mine'
	uses mine --profile one # read later
	try on_host --profile three status
	expect_failure 78 '--profile: .* no section \[three\]'
	user '[one]' 'ttl = soonish'
	try on_host status # though it does not count
	expect_failure 78 "config/dlock.conf:2: ttl: 'soonish' is no duration"
	user '[one]' 'ttl = 5s' 'colour = red'
	try on_host status
	expect_failure 78 "config/dlock.conf:3: unknown key 'colour'"
	user '[one]' 'json = yes'
	try on_host status
	expect_failure 78 "config/dlock.conf:2: unknown key 'json'"
}

@test "what is no configuration: 78, and soon, however long it is" {
	mkdir folder
	ln -s nowhere dangling
	ln -s loop loop
	printf 'ttl = 5s\n\0\n' >nul
	printf '%300s\n' =5s | tr ' ' x >long
	printf 'ttl = 5s\rlabel = x\n' >return
	local file
	for file in folder dangling loop nul long return /dev/zero /proc/self/mem; do
		try timeout 20 dlock --config $file -S unix:///no/x status
		expect_failure 78 "^dlock: $file:"
	done
	# Not one that stops being read half-way, either, for want of memory. (A sanitizer needs more.)
	export memory=100000
	! grep -q '^DLOCK_LDFLAGS.*-fsanitize' "${builddir:-$BATS_TEST_DIRNAME/../..}/Makefile" || memory=unlimited
	try bash -c 'ulimit -v $memory; exec dlock --config /dev/zero -S unix:///no/x status'
	expect_failure 78 '^dlock: /dev/zero:1: a NUL byte'
	try bash -c 'ulimit -v $memory; tr "\0" x </dev/zero | exec dlock --config /dev/stdin -S unix:///no/x status'
	expect_failure 78 '^dlock: /dev/stdin:1: a line of more than 4000 bytes'
	# A user that names a FIFO may have to wait for it. This one was not named.
	try dlock --config <(echo 'server = unix:///no/pipe') status
	expect_failure 69 'unix:///no/pipe'
	mkfifo config/dlock.conf
	try timeout 20 dlock -S unix:///no/x status
	expect_failure 78 'config/dlock.conf: a FIFO'
	rm config/dlock.conf
	# The system's fault.
	unleaked try strace -qq -P "$PWD/nul" -e trace=openat -e inject=openat:error=EMFILE \
		-o trace dlock --config "$PWD/nul" -S unix:///no/x status
	expect_failure 71 'nul: Too many open files'
}

@test "long lines, line ends of others, the last without one" {
	local comment
	comment=$(printf '#%.0s' {1..4000})
	printf '%s\r\n \t %s\r\nserver = unix:///no/last\r' "$comment" "$comment" >conf
	uses last --config conf
	printf '\xef\xbb\xbfserver = unix:///no/marked\n   \t ' >conf
	uses marked --config conf
	printf '%s#\n' "$comment" >conf
	try dlock --config conf -S unix:///no/x status
	expect_failure 78 'conf:1: a line of more than 4000 bytes'
	# A quorum of five may need more than inih takes.
	local user servers=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4,127.0.0.1:5
	user=$(printf 'u%.0s' {1..150})
	echo "server   =  redis+quorum://$user:pw@$servers  ; five" >conf
	try dlock -v --config conf -n x true
	assert_equal "$status" 69
	assert_equal "$(grep asking try.err)" "dlock: x: asking redis+quorum://$user@$servers"
}

@test "comments, blanks, yes and no" {
	cat >conf <<-END
		# a comment
		; another

		  server   =   unix://$SERVER/socket   ; a third
		prefix=p:
		nonblock: yes
	END
	cli SET p:x foreign PX 60000 >/dev/null
	try dlock --config conf x true
	expect_failure 1 'x: .*held by another Redis client'
	sed -i 's/nonblock.*/nonblock = off/' conf
	try dlock --config conf -w 0.1 x true
	expect_failure 1 'busy after 100ms'
	cli DEL p:x >/dev/null
}

@test "a password in a file that any user may read is warned about" {
	own_server secret --requirepass s3cret
	local port
	port=$(<secret/port)
	echo "server = redis://:s3cret@127.0.0.1:$port" >conf
	local mode
	for mode in 644 604 666; do
		chmod $mode conf
		try dlock --config conf x true
		assert_equal "$status" 0
		assert_equal "$err" "dlock: conf:1: any user may read this password (mode 0$mode): chmod o-r, or a password-file"
	done
	try dlock -q --config conf x true
	expect 0
	for mode in 600 640 660; do
		chmod $mode conf
		try dlock --config conf x true
		expect 0
	done
	# Whether it is the one in use does not matter; one line for each file is enough.
	printf '%s\n' '' '[other]' 'server = redis://:s3cret@h' '[more]' 'server = redis://u:s3cret@h' >>conf
	chmod 644 conf
	try dlock --config conf x true
	assert_equal "$(wc -l <try.err)" 1
	sed -i '1s/:s3cret@/user@/' conf
	REDISCLI_AUTH=s3cret try dlock --config conf -S "redis://127.0.0.1:$port" x true
	assert_equal "$status $(grep -c conf:4 try.err)" '0 1'
	sed -i '/s3cret/d' conf
	REDISCLI_AUTH=s3cret try dlock --config conf -S "redis://127.0.0.1:$port" x true
	expect 0
}

@test "a user's server instead of the host's is warned about, unless somebody names one" {
	local warning="dlock: $PWD/config/dlock.conf: its server is used, unix:///no/user, not that of /etc/dlock.conf"
	system 'server = unix:///no/system'
	user 'server = unix:///no/user'
	try on_host status
	assert_equal "$(head -n 1 try.err)" "$warning"
	assert_equal "$(wc -l <try.err)" 2
	try on_host -q status
	assert_equal "$(wc -l <try.err)" 1
	DLOCK_SERVER=unix:///no/x try on_host status
	assert_equal "$(wc -l <try.err)" 1
	try on_host status -S unix:///no/x
	assert_equal "$(wc -l <try.err)" 1
	try on_host guard --fence 1 state true
	expect 0
	user 'server = unix:///no/system'
	try on_host status
	assert_equal "$(wc -l <try.err)" 1
	user '[mine]' 'server = unix:///no/user'
	try on_host status
	assert_equal "$(wc -l <try.err)" 1
	try on_host --profile mine status
	assert_equal "$(head -n 1 try.err)" "$warning"
	rm etc/dlock.conf
	try on_host --profile mine status
	assert_equal "$(wc -l <try.err)" 1
	system 'server = redis://:s3cret@h'
	user 'server = redis://:s3cret2@nowhere.invalid'
	chmod 600 config/dlock.conf etc/dlock.conf
	try on_host -w 1 status
	refute_match "$err" s3cret
}

# keys: those that the table of options lets into a file, by the first name of each.
keys() {
	python "$BATS_TEST_DIRNAME/../../src/cli/option_table.c" "$@" <<-'END'
		import re, sys
		text = open(sys.argv[1]).read()
		rows = re.split(r"\n\t(?=\{\.(?:letters|names))", text)
		for row in rows:
		    names = re.search(r"\.names = \{([^}]*)\}", row)
		    if names and ".configurable = true" in row:
		        names = re.findall(r'"([^"]+)"', names[1])
		        print("\n".join(names if "all" in sys.argv else names[:1]))
	END
}

@test "dlock.conf(5): clean, and its keys are those of the table of options" {
	try mandoc -Tlint "$MANUAL"
	assert_equal "$(grep -v 'referenced manual not found' try.out || true)" ""
	keys | sort >in_table
	sed -n '/^\.Ss Keys/,/^\.Ss Warnings/s/^\.It Cm //p' "$MANUAL" | sort >in_manual
	assert_between "$(wc -l <in_table)" 25 100
	assert_equal "$(diff in_table in_manual)" ''
	keys all | sort >all
	assert_equal "$(sed -n '/^\.Ss Keys/,/^\.Ss Warnings/s/^\.\(It \)\{0,1\}Cm //p' "$MANUAL" | tr -d ' ' | tr , '\n' | sort | diff all -)" ''

	local key
	for key in $(<all) no-such-key config profile json help command fence watch; do
		echo "$key = %" >conf
		try dlock -S unix:///no/x --config conf status
		if grep -qx -- "$key" all; then
			refute_match "$err" 'unknown key' "$key"
		else
			expect_failure 78 "conf:1: unknown key '$key'"
		fi
	done
}

@test "dlock.conf(5): its example, with a password from a file" {
	own_server secret --requirepass s3cret
	(umask 077 && echo s3cret >password)
	sed -n '/^\.Sh EXAMPLES/,/^\.Ed/p' "$MANUAL" | sed '1,2d; $d' >shown
	sed "s#redis://redis.example.net#unix://$PWD/secret/socket#; s#/etc/dlock.password#$PWD/password#" shown >conf
	assert_equal "$(diff shown conf | grep -c '^>')" 2
	printf 'deploy:\n\t@echo deployed; exec redis-cli -s secret/socket -a s3cret PTTL lock:deploy 2>messages\n' >Makefile
	unset DLOCK_SERVER
	try dlock --config conf --profile short deploy make
	assert_equal "$status$err" 0
	assert_match "$out" '^deployed'
	assert_between "${out#*$'\n'}" 10000 15000 'a TTL of 15 s'
}

@test "the example: each profile works, and does what it says" {
	sed "s#^server = .*#server = unix://$SERVER/socket#" "$EXAMPLE" >conf
	assert_equal "$(grep -c "^server = unix" conf)" 1
	assert_equal "$(sed -n 's/^\[\(.*\)\]$/\1/p' conf | tr '\n' ' ')" 'short batch strict '
	try dlock --config conf x true
	expect 0
	try dlock --config conf --profile short x sh -c 'echo ran'
	expect 0 ran
	begin_holder one x --config conf
	local began
	try dlock --config conf --profile short -n x true
	assert_equal "$status" 1
	let_go one
	start ttl dlock --config conf --profile batch x sleep 100
	wait_until is_held x
	assert_between "$(cli PTTL lock:x)" 200000 300000
	kill -TERM "$pid"
	finish ttl
	sed "s#unix://.*#unix:///nowhere#" conf >down
	try dlock --config down --profile batch x touch ran
	assert_equal "$status" 0
	refute_file ran
	try dlock --config down --profile strict x touch ran
	assert_equal "$status" 69

	own_server young
	sed "s#unix://.*#unix://$PWD/young/socket#" conf >settling
	try dlock --config settling --profile strict -w 200ms x touch ran
	assert_equal "$status" 1
	refute_file ran
	try dlock --config settling --profile strict check
	assert_equal "$status" 0
	assert_match "$out" 'settle keeps newcomers off'
}

@test "dlock.conf is installed with its manual and its example" {
	local makefile=$BATS_TEST_DIRNAME/../../Makefile.am
	assert grep -q 'man/dlock.conf.5' "$makefile"
	assert grep -q 'examples/dlock.conf' "$makefile"
}
