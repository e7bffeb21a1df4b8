# What COMMAND gets and what dlock returns, in every ordinary case.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

@test "a command runs while the lock is held, and the lock is gone after it" {
	try dlock x sh -c 'redis-cli -s "${DLOCK_SERVER#unix://}" EXISTS lock:x; exit 3'
	expect 3 1
	assert is_free x
}

@test "arguments arrive untouched" {
	local -a given=('' ' ' '--' '-n' '-c' 'a b' $'two\nlines' $'tab\t' '*' '$HOME' '`id`' \
		"it's" '"' '\' 'é' $'\xff\xfe' '%s%n' '')
	try dlock x printf '<%s>' "${given[@]}"
	local wanted
	wanted=$(printf '<%s>' "${given[@]}")
	expect 0 "$wanted"
}

@test "a double dash before COMMAND is dlock's, one after it is COMMAND's" {
	try dlock x -- printf '<%s>' -- a
	expect 0 '<--><a>'
	try dlock x sh -c 'printf "<%s>" "$@"' sh -- a -n --
	expect 0 '<--><a><-n><-->'
	try dlock -n -- x printf %s b
	expect 0 b
}

@test "options of COMMAND are not dlock's, even those that dlock knows" {
	try dlock x sh -c 'printf "<%s>" "$@"' sh -n -w 0 -E 9 --help --version -q
	expect 0 '<-n><-w><0><-E><9><--help><--version><-q>'
}

@test "stdin, stdout and stderr are COMMAND's" {
	head -c 300000 /dev/urandom >in
	dlock x sh -c 'cat; echo problem >&2' <in >out.bin 2>err.txt
	cmp in out.bin
	assert_file err.txt problem
}

@test "every exit code from 0 to 255 comes through, and nothing is said" {
	local code
	for code in {0..255}; do
		try dlock x witness exit "$code"
		expect "$code"
	done
}

@test "a signal N that ends COMMAND becomes 128+N" {
	local number
	for number in {1..16} {24..27} 29 30 31 34 50 64; do
		status=0
		launch default outcome=outcome dlock x witness kill "$number" || status=$?
		assert_file outcome "exit $((128 + number))"
	done
}

@test "COMMAND's own exit code outranks nothing of dlock's: 80, 70 and 124 come through" {
	local code
	for code in 1 64 69 70 80 124 126 127 130 143; do
		try dlock -E 42 x sh -c "exit $code"
		expect "$code"
	done
}

@test "what is not found ends with 127 before the server is asked" {
	try dlock x /no/such/thing
	expect_failure 127 '/no/such/thing'
	try dlock x no-such-word-anywhere a b
	expect_failure 127 'no-such-word-anywhere'
	try dlock x ''
	expect_failure 127 ''
	try env PATH=/nowhere "$BIN/dlock" x sh
	expect_failure 127 'sh'
	assert_equal "$(cli DBSIZE)" 0 'keys on the server'
	refute_match "$(cli INFO commandstats)" 'eval'
}

@test "what cannot be executed ends with 126 before the server is asked" {
	echo 'not a program' >plain
	try dlock x ./plain
	expect_failure 126 './plain'
	mkdir dir
	try dlock x ./dir
	expect_failure 126 './dir'
	try env PATH="$PWD:$PATH" "$BIN/dlock" x plain
	expect_failure 126 'plain'
	assert_equal "$(cli DBSIZE)" 0 'keys on the server'
}

@test "127 and 126 come even when the lock is busy: they are looked up first" {
	begin_holder other x
	try dlock -n x /no/such/thing
	expect_failure 127 ''
	try dlock -n x /etc/passwd
	expect_failure 126 ''
	let_go other
}

@test "COMMAND is found along PATH, past what is not executable" {
	mkdir one two
	echo 'not a program' >one/tool
	printf '#!/bin/sh\necho "two $1"\n' >two/tool
	chmod +x two/tool
	try env PATH="$PWD/none:$PWD/one:$PWD/two:$PATH" "$BIN/dlock" x tool arg
	expect 0 'two arg'
}

@test "a script without #! runs, as execvp runs it" {
	printf 'echo "plain $1 $#"\nexit 4\n' >script
	chmod +x script
	try dlock x ./script 'a b'
	expect 4 'plain a b 1'
}

@test "an interpreter that is missing: 126 or 127, one line, the lock released" {
	printf '#!/no/such/interpreter\n' >script
	chmod +x script
	try dlock x ./script
	[[ $status == 126 ]] || expect_failure 127 './script'
	[[ $status == 127 ]] || expect_failure 126 './script'
	assert is_free x
}

@test "-c runs one string by SHELL, before NAME and after it" {
	printf '#!/bin/sh\nprintf "[%%s]" "$0" "$@"\n' >shell
	chmod +x shell
	export SHELL=$PWD/shell
	try dlock -c 'echo  "a  b"' x
	expect 0 "[$PWD/shell][-c][echo  \"a  b\"]"
	try dlock x -c 'echo  "a  b"'
	expect 0 "[$PWD/shell][-c][echo  \"a  b\"]"
	try dlock --command='' x
	expect 0 "[$PWD/shell][-c][]"
}

@test "-c without SHELL is /bin/sh's" {
	unset SHELL
	try dlock x -c 'echo $0; exit 9'
	expect 9 /bin/sh
	SHELL='' try dlock x -c 'echo $0'
	expect 0 /bin/sh
}

@test "dlock run takes any word as NAME" {
	local word
	for word in status run hold acquire renew release guard check help version list watch break \
		config completion 9; do
		try dlock run "$word" sh -c 'echo "$DLOCK_NAME"'
		expect 0 "$word"
	done
	try dlock -n run -w 60 status sh -c 'echo "$DLOCK_NAME"'
	expect 0 status
	try dlock run x -c 'echo shell'
	expect 0 shell
}

@test "the environment tells COMMAND its lock" {
	local clock
	clock=$(cli TIME | paste -sd ' ')
	clock=${clock% *}$(printf %06d "${clock#* }")
	try dlock x sh -c 'echo "$DLOCK_NAME $DLOCK_TOKEN $DLOCK_FENCE $DLOCK_FENCES"
		redis-cli -s "${DLOCK_SERVER#unix://}" GET lock:x'
	assert_equal "$status" 0 status
	local name token fence key
	{
		read -r name token fence
		read -r key
	} <<<"$out"
	assert_equal "$name" x
	assert_match "$token" "^$(hostname):[0-9]+:[0-9a-f]{32}\$"
	assert_equal "$key" "$token" 'the key'
	assert_match "$fence" '^[0-9]+$'
	((fence >= clock)) || fail "fence $fence is behind the server's clock $clock"
	assert_equal "$(cli HGET "$(meta_of x)" fence)" "$fence" 'the recorded fence'
}

@test "what an outer dlock left in the environment is replaced" {
	try env DLOCK_NAME=old DLOCK_TOKEN=old:1:00 DLOCK_FENCE=1 dlock x env
	assert_equal "$status" 0 status
	assert_equal "$(grep -c '^DLOCK_NAME=' <<<"$out")" 1
	assert_equal "$(grep -c '^DLOCK_TOKEN=' <<<"$out")" 1
	assert_equal "$(grep -c '^DLOCK_FENCE=' <<<"$out")" 1
	refute_match "$out" 'DLOCK_NAME=old|DLOCK_TOKEN=old|DLOCK_FENCE=1'$'\n'
}

@test "tokens are fresh and fences grow, run after run" {
	local i last=0 tokens=
	for i in {1..25}; do
		try dlock x sh -c 'echo "$DLOCK_FENCE $DLOCK_TOKEN"'
		assert_equal "$status" 0 status
		((${out% *} > last)) || fail "fence ${out% *} after $last"
		last=${out% *}
		refute_match "$tokens" "${out#* }"
		tokens+=" ${out#* }"
	done
}

# Runs witness bare and under dlock in the same surroundings, and compares all it saw but what must
# differ: process numbers and dlock's own three variables.
same_with_and_without_dlock() {
	"${surroundings[@]}" witness record bare
	"${surroundings[@]}" dlock x witness record dlocked
	local file
	for file in bare dlocked; do
		is_file $file || fail "COMMAND did not run ($file)"
		sed -E -e '/^(pid|parent|group|session) /d' -e '/^env DLOCK_(NAME|TOKEN|FENCE)=/d' \
			-e '/^env _=/d' $file >$file.same
	done
	diff bare.same dlocked.same
}

@test "mask, dispositions, descriptors, limits, scheduling, environment, folder: as without dlock" {
	local surroundings=(launch default)
	same_with_and_without_dlock
	for variable in DLOCK_NAME DLOCK_TOKEN DLOCK_FENCE; do
		grep -q "^env $variable=" dlocked
	done
}

@test "blocked and ignored signals reach COMMAND as dlock got them" {
	local surroundings=(launch default block=USR1,CHLD,WINCH,ALRM,40 ignore=HUP,PIPE,CHLD,TTOU,50)
	same_with_and_without_dlock
	surroundings=(launch default block=TERM,INT,HUP,QUIT ignore=USR2,CONT,TSTP,URG)
	same_with_and_without_dlock
}

@test "descriptors of the caller reach COMMAND, and none of dlock's" {
	local surroundings=(launch default)
	echo text >file
	mkfifo fifo
	exec 5<>fifo 7<file 9>>other 63</dev/null
	same_with_and_without_dlock
	exec 5>&- 7>&- 9>&- 63>&-
	grep -q "^fd7 $PWD/file" dlocked
	grep -q "^fd9 $PWD/other" dlocked
}

@test "closed standard streams stay closed for COMMAND" {
	local closed surroundings
	for closed in 0 1 2 0,1 0,2 1,2 0,1,2; do
		surroundings=(launch default close=$closed)
		rm -f bare dlocked
		same_with_and_without_dlock
	done
}

@test "closed standard streams do not become a connection that dlock talks to people through" {
	start one close=0,1,2 dlock x sh -c 'echo >running; until [ -e end ]; do sleep 0.05; done'
	wait_until is_file running
	local keeper pid fd
	keeper=$(<"/proc/$one_pid/task/$one_pid/children")
	for pid in $one_pid $keeper; do
		for fd in 0 1 2; do
			refute_match "$(readlink "/proc/$pid/fd/$fd")" 'socket|anon_inode|pipe' "$fd of $pid"
		done
	done
	touch end
	finish one
	expect 0
}

@test "a job server of make gets through" {
	cat >Makefile <<-'END'
		.RECIPEPREFIX = >
		all: a b
		a b:
		>@+dlock $@ sh -c 'echo "$$MAKEFLAGS" >$@.flags; $(MAKE) -s inner'
		inner:
		>@sleep 0.1
	END
	try make -s -j2
	refute_match "$err" 'jobserver'
	assert_equal "$status" 0 status
	assert_match "$(<a.flags)" 'jobserver'
}

@test "without a terminal COMMAND has a process group of its own, in dlock's session" {
	start one dlock x witness record seen
	finish one
	assert_equal "$status" 0 status
	local seen_pid seen_group seen_session
	seen_pid=$(sed -n 's/^pid //p' seen)
	assert_equal "$(sed -n 's/^group //p' seen)" "$seen_pid" group
	assert_equal "$(sed -n 's/^session //p' seen)" "$one_pid" session
}

@test "the working directory is the caller's" {
	mkdir 'a dir'
	cd 'a dir'
	try dlock x pwd
	expect 0 "$BATS_TEST_TMPDIR/a dir"
	mkdir gone
	cd gone
	rmdir ../gone
	try dlock x witness exit 5
	expect 5
	cd "$BATS_TEST_TMPDIR"
}

@test "--per-host locks HOST/NAME" {
	try dlock --per-host x sh -c 'echo "$DLOCK_NAME"
		redis-cli -s "${DLOCK_SERVER#unix://}" EXISTS "lock:$(hostname)/x" lock:x'
	expect 0 "$(hostname)/x"$'\n1'
}

@test "--prefix moves the keys, companions and all, and what is held there is another lock" {
	try dlock --prefix 'app/' x sh -c 'redis-cli -s "${DLOCK_SERVER#unix://}" KEYS "*" | sort
		dlock -n x echo inner'
	assert_equal "$status" 0 status
	assert_match "$out" 'app/x'
	assert_match "$out" 'inner$'
	refute_match "${out%inner}" '^lock:|'$'\n''lock:'
	try dlock --prefix '' x redis-cli -s "$SERVER/socket" EXISTS x
	expect 0 1
}

@test "different names do not exclude each other" {
	begin_holder a first
	try dlock -n second echo ran
	expect 0 ran
	let_go a
	assert_equal "$status" 0 status
}

@test "-v says on stderr where the lock lives and how it went, -q and the plain run say nothing" {
	try dlock -v x echo out
	assert_equal "$status$out" 0out
	assert_match "$err" "^dlock: x: .*$SERVER/socket"
	local line
	while read -r line; do
		assert_match "$line" '^dlock: x: '
	done <<<"$err"
	try dlock -q x echo out
	expect 0 out
	try dlock -qq x echo out
	expect 0 out
}

@test "-h and -V print to stdout and end with 0, with no server named" {
	unset DLOCK_SERVER
	local option
	for option in -h --help; do
		try dlock $option
		assert_equal "$status$err" 0
		assert_match "$out" '--wait'
		assert_match "$out" '--on-lost'
	done
	for option in -V --version; do
		try dlock $option
		assert_equal "$status$err" 0
		assert_match "$out" '^dlock [0-9]+\.[0-9]+'
	done
}

@test "long options, their synonyms, and values in every form of getopt_long" {
	local -a each=(--nb --nonblock --nonblocking --wait=60 '--wait 60' '--timeout 60' -w60 '-w 1m' -x -e
		--exclusive -o --close '-t 5' --ttl=1m30s -E5 --conflict-exit-code=5 '--stop-signal INT'
		--stop-signal=SIGINT '--stop-signal 2' --grace=1s --on-lost=warn --on-lost=stop --label=me
		-nxoq '-w 1h2m3s4ms' '-w 0.5d' '-w .5m')
	local options
	for options in "${each[@]}"; do
		try dlock $options x printf %s "$options"
		expect 0 "$options"
	done
}

@test "too few descriptors: it works, or 71 and one line, with nothing left" {
	local most worked=0
	for most in {5..24}; do
		try prlimit "--nofile=$most:$most" dlock -n x touch ran
		if [[ $status == 0 ]]; then
			worked=1
			assert test -e ran
			rm ran
		else
			expect_failure 71 '' || fail "with $most descriptors"
			assert_equal $worked 0 "whether fewer than $most sufficed"
			refute_file ran
		fi
		assert is_free x
	done
	assert_equal $worked 1
}

@test "no library for TLS or for another lock service is mapped on a plain run" {
	begin_holder one x
	local pid
	for pid in $one_pid $one_keeper; do
		refute_match "$(cut -c 74- "/proc/$pid/maps" | sort -u)" '/lib[^/]*(ssl|crypto|expat|curl|krb|pq|zookeeper)'
	done
	let_go one
}

@test "front, keeper and COMMAND are three processes, the keeper in a group of its own" {
	begin_holder one x
	assert_equal "$(parent_of "$one_keeper")" "$one_pid" "the keeper's parent"
	local front_group keeper_group
	front_group=$(ps -o pgid= -p "$one_pid")
	keeper_group=$(ps -o pgid= -p "$one_keeper")
	refute [ "$front_group" = "$keeper_group" ]
	let_go one
}
