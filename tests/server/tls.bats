# TLS: which servers are believed, what is said of all others, and that everything else is as without.

load ../lib/helper
load ../lib/authority

# The file's server also listens for TLS, on $PORT; certificates are in $CA.
setup_file() {
	file_begin
	make_certificates
	local try
	for try in {1..30}; do
		export PORT=$((15000 + (RANDOM * 32768 + RANDOM) % 17000))
		if cli CONFIG SET tls-cert-file "$CA/good.pem" tls-key-file "$CA/good.key" tls-ca-cert-file "$CA/ca.pem" \
			tls-auth-clients no tls-port "$PORT" | grep -q OK; then
			return 0
		fi
	done
	return 1
}

teardown_file() { file_end; }

setup() {
	test_begin
	present good
	cli CONFIG SET tls-auth-clients no tls-protocols '' loglevel verbose >/dev/null
	export DLOCK_SERVER=rediss://localhost:$PORT?cacert=$CA/ca.pem
	before=$(connections)
}

teardown() { test_end; }

# ---- Certificates --------------------------------------------------------------------------------

make_certificates() {
	make_authority
	make_usual_certificates
	make_root other
	make_certificate wild DNS:*.cluster.example
	make_certificate expired DNS:localhost -startdate 20200101000000Z -enddate 20200102000000Z
	make_certificate early DNS:localhost -startdate 20900101000000Z -enddate 20910101000000Z
	make_certificate strange DNS:localhost -cert other.pem -keyfile other.key
	make_certificate client DNS:client.example
	make_root self -addext subjectAltName=DNS:localhost
}

present() { # NAME: the certificate that the server shows from now on
	cli CONFIG SET tls-cert-file "$CA/$1.pem" tls-key-file "$CA/$1.key" >/dev/null
}

# How many connections there were by TLS; those by the unix socket say so.
connections() { grep -c 'Accepted 127\.0\.0\.1:' "$SERVER/log" || true; }

@test "a certificate that openssl will not make is heard of, and leaves nothing in the folder" {
	mkdir empty
	cd empty
	try make_certificate nameless ''
	assert_equal "$status" 1
	assert_match "$err" '^openssl req: '
	assert_match "$err" 'subjectAltName|extension'
	try make_certificate dated DNS:localhost -startdate never
	assert_equal "$status" 1
	assert_match "$err" '^openssl ca: .*date'
	try make_root ca -config none
	assert_equal "$status" 1
	assert_equal "$(ls -A)" ''
}

@test "a lock by TLS, by name and by address" {
	has_tls || return 0
	local host
	for host in localhost 127.0.0.1 '[::1]'; do
		[[ $host != *::1* ]] || may_ipv6 >/dev/null 2>&1 || continue
		try dlock -S "rediss://$host:$PORT/0?cacert=$CA/ca.pem" x redis-cli -s "$SERVER/socket" EXISTS lock:x
		expect 0 1
	done
	try dlock -v --report report x sh -c 'echo "$DLOCK_SERVER"; cat; exit 7' <<<input
	assert_equal "$status" 7
	assert_equal "$out" "$DLOCK_SERVER"$'\n'input
	assert_match "$(jq -r '.outcome + .server' report)" "^ranrediss://localhost:$PORT"
	# The authorities may also be a folder, or the host's.
	mkdir folder
	cp "$CA/ca.pem" "folder/$(openssl x509 -hash -noout -in "$CA/ca.pem").0"
	try dlock -S "rediss://localhost:$PORT?cacert=$PWD/folder" x echo ran
	expect 0 ran
	SSL_CERT_FILE=$CA/ca.pem try dlock -S "rediss://localhost:$PORT" x echo ran
	expect 0 ran
}

@test "the same lock inside its holder, by TLS" {
	has_tls || return 0
	try dlock x dlock x sh -c 'echo "$DLOCK_NAME"'
	expect 0 x
}

@test "user, password and database by TLS" {
	has_tls || return 0
	cli ACL SETUSER ci on '>s3cretword' '~*' +@all >/dev/null
	try dlock -S "rediss://ci:s3cretword@localhost:$PORT/3?cacert=$CA/ca.pem" x \
		redis-cli -s "$SERVER/socket" -n 3 EXISTS lock:x
	expect 0 1
	begin_holder one x -S "rediss://ci:s3cretword@localhost:$PORT/3?cacert=$CA/ca.pem"
	local pid
	for pid in $one_pid $one_keeper; do
		refute_match "$(tr '\0' ' ' <"/proc/$pid/cmdline")" 's3cretword'
	done
	let_go one
	expect 0
	try dlock -S "rediss://ci:wr0ng@localhost:$PORT?cacert=$CA/ca.pem" x touch ran
	expect_failure 77 'user name and password'
	cli ACL DELUSER ci >/dev/null
}

@test "it is another program that speaks TLS: argv, signals, descriptors and streams go on to it" {
	has_tls || return 0
	[[ ! -e /proc/self/exe ]] || try dlock x sh -c 'readlink "/proc/$PPID/exe"; tr "\0" " " <"/proc/$PPID/cmdline"'
	assert_match "$out" "/dlock-tls"$'\n'"dlock x sh -c"
	try launch ignore=HUP ignore=USR1 block=USR2 dlock -S "$DLOCK_SERVER" x \
		sh -c 'grep -E "^Sig(Ign|Blk)" /proc/self/status'
	local over_tls=$out
	try launch ignore=HUP ignore=USR1 block=USR2 dlock -S "unix://$SERVER/socket" x \
		sh -c 'grep -E "^Sig(Ign|Blk)" /proc/self/status'
	assert_equal "$over_tls" "$out"
	status=0
	dlock x sh -c 'echo out >&7' 7>seven || status=$?
	assert_file seven out
	# Nothing is done twice.
	echo old >report
	try dlock --report report -n x true
	assert_equal "$(jq -r .outcome report)" ran
	mkfifo pipe
	printf 'server = %s\n' "$DLOCK_SERVER" >pipe &
	DLOCK_SERVER='' try dlock --config pipe x touch ran
	expect_failure 64 'pipe.*twice'
	refute_file ran
}

@test "where the other program is missing: 78, and -V says so" {
	cp "$(realpath "$BIN/dlock")" lonely
	try ./lonely -V
	[[ $out == *'TLS: no' ]] || fail "an installed dlock-tls is in the way: $out"
	try ./lonely --report report x touch ran
	expect_failure 78 "rediss://localhost:$PORT.*: the program dlock-tls is not installed"
	assert_equal "$(jq -r .outcome report)" config
	try ./lonely status
	expect_failure 78 'the program dlock-tls is not installed'
	refute_file ran
}

@test "certificates that prove nothing: 77, and why" {
	has_tls || return 0
	local case
	for case in expired:'has expired' early:'not valid yet' elsewhere:'another host' strange:'authority' \
		self:'itself' wild:'another host'; do
		present "${case%%:*}"
		cli CONFIG RESETSTAT >/dev/null
		try dlock x touch ran
		expect_failure 77 "certificate of rediss://localhost:$PORT.*${case#*:}" || fail "$case"
		try dlock status
		expect_failure 77 "${case#*:}"
		refute_match "$(cli INFO commandstats)" 'eval'
		try dlock -S "rediss://localhost:$PORT?insecure=1" x echo ran
		expect 0 ran
	done
	present named
	try dlock -S "rediss://127.0.0.1:$PORT?cacert=$CA/ca.pem" x touch ran
	expect_failure 77 'another address'
	present good
	try dlock -S "rediss://localhost:$PORT?cacert=$CA/other.pem" x touch ran
	expect_failure 77 'authority'
	SSL_CERT_FILE='' SSL_CERT_DIR=$PWD try dlock -S "rediss://localhost:$PORT" x touch ran
	expect_failure 77 'authority'
	refute_file ran
	# What cacert= names is believed, with any signature or none.
	present self
	try dlock -S "rediss://localhost:$PORT?cacert=$CA/self.pem" x echo ran
	expect 0 ran
	present named
	try dlock -S "rediss://localhost:$PORT?cacert=$CA/named.pem" x echo ran
	expect 0 ran
}

@test "sni= is the host to ask for, and the one that has to answer" {
	has_tls || return 0
	present elsewhere
	try dlock -S "$DLOCK_SERVER&sni=elsewhere.example" x echo ran
	expect 0 ran
	try dlock -S "$DLOCK_SERVER&sni=127.0.0.2" x echo ran
	expect 0 ran
	present wild
	try dlock -S "$DLOCK_SERVER&sni=one.cluster.example" x echo ran
	expect 0 ran
	present good
	try dlock -S "$DLOCK_SERVER&sni=elsewhere.example" x touch ran
	expect_failure 77 'another host'
	local case
	for case in localhost=localhost 127.0.0.1=None localhost,sni=there.example=there.example; do
		asked_name
		try dlock -S "rediss://${case%%[=,]*}:$(<asked.port)?insecure=1$([[ $case != *sni* ]] || echo '&sni=there.example')" -w 0.2 x true
		wait_until is_file asked.name
		assert_file asked.name "${case##*=}"
	done
}

# A server that notes in ./asked.name what name it is asked for, and hangs up.
asked_name() {
	rm -f asked.name asked.port
	cat >asked.py <<-'END'
		import os, socket, ssl, sys
		context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
		context.load_cert_chain(sys.argv[1] + "/good.pem", sys.argv[1] + "/good.key")
		names = []
		context.sni_callback = lambda connection, name, context: names.append(name)
		listener = socket.create_server(("127.0.0.1", 0))
		open("asked.new", "w").write(str(listener.getsockname()[1]))
		os.rename("asked.new", "asked.port")
		try:
		    context.wrap_socket(listener.accept()[0], server_side=True).close()
		except OSError:
		    pass
		open("asked.name", "w").write(str(names[0] if names else None))
	END
	service asked.py "$CA"
	wait_until is_file asked.port
}

@test "a client certificate: wanted, shown, refused; by TLS 1.3 and 1.2" {
	has_tls || return 0
	cli CONFIG SET tls-auth-clients yes >/dev/null
	local version
	for version in TLSv1.3 TLSv1.2; do
		cli CONFIG SET tls-protocols $version >/dev/null
		try dlock -w $((2 * TEST_PATIENCE)) x touch ran
		expect_failure 77 'asks for a client certificate' || fail $version
		try dlock -w $((2 * TEST_PATIENCE)) -S "$DLOCK_SERVER&cert=$CA/strange.pem&key=$CA/strange.key" x touch ran
		expect_failure 77 'does not accept the certificate' || fail $version
		try dlock -S "$DLOCK_SERVER&cert=$CA/client.pem&key=$CA/client.key" x echo ran
		expect 0 ran
	done
	cat "$CA/client.pem" "$CA/client.key" >both.pem
	try dlock -S "$DLOCK_SERVER&cert=$PWD/both.pem" x echo ran
	expect 0 ran
	refute_file ran
}

@test "files that are of no use: 78, the file named, and no question on the terminal" {
	has_tls || return 0
	touch empty
	echo garbage >garbage
	openssl pkey -in "$CA/client.key" -aes128 -passout pass:x -out locked.key
	local case
	for case in cacert=none cacert=empty cacert=garbage cert=none cert=garbage "cert=$CA/client.pem&key=none" \
		"cert=$CA/client.pem&key=$CA/good.key" "cert=$CA/client.pem&key=$PWD/locked.key" "cert=$CA/client.pem"; do
		try timeout 20 launch setsid dlock -S "rediss://localhost:$PORT?$case" x touch ran
		expect_failure 78 "${case##*[=/]}" || fail "$case"
	done
	try dlock -S "$DLOCK_SERVER&key=$CA/client.key" x touch ran
	expect_failure 64 'key='
	refute_file ran
}

@test "a port without TLS, TLS where none is expected, silence, a door that is shut" {
	has_tls || return 0
	# A Redis waits for the end of what it takes for a command, and says nothing.
	try dlock -w "$TEST_PATIENCE" -S "rediss://127.0.0.1:$(<"$SERVER/port")" x touch ran
	expect_failure 69 'TLS handshake .*without TLS'
	# And a Redis with TLS hangs up, whatever comes; the last of many tries may end with -w.
	try dlock -w "$TEST_PATIENCE" -S "redis://127.0.0.1:$PORT" x touch ran
	expect_failure 69 'rediss://|does not answer'
	try dlock status -S "redis://127.0.0.1:$PORT"
	expect_failure 69 'rediss://'
	fake_server silent
	try dlock -w 0.7 -S "rediss://127.0.0.1:$(<silent/port)" x touch ran
	expect_failure 69 'does not answer the TLS handshake'
	assert_between "$took" 700 $((1200 * TEST_PATIENCE)) 'ms with -w 0.7'
	local mode
	for mode in ssh http close; do
		fake_server $mode
		try dlock -w "$TEST_PATIENCE" -S "rediss://127.0.0.1:$(<$mode/port)" x touch ran
		if [[ $mode == close ]]; then
			expect_failure 69 'closed the connection'
		else
			expect_failure 76 'does not speak TLS'
		fi
	done
	try dlock -S "rediss://127.0.0.1:1" x touch ran
	expect_failure 69 'cannot reach'
	refute_file ran
}

@test "replies that fill more than one record" {
	has_tls || return 0
	# SCAN answers with a thousand at a time, and a record holds 16 KiB.
	cli EVAL 'for i = 1, 1500 do redis.call("SET", "lock:some-name-" .. i, "x", "PX", 20000) end' 0 >/dev/null
	try dlock status 'some-name-*'
	assert_equal "$status" 0
	assert_equal "$(grep -c some-name <<<"$out")" 1500
	cli FLUSHALL >/dev/null
}

@test "-n on a busy lock names its holder, over one connection; so does status" {
	has_tls || return 0
	begin_holder one x
	try dlock -n x touch ran
	expect_failure 1 'held by .*witness'
	assert_equal $(($(connections) - before)) 2 'connections, the holder'"'"'s included'
	try dlock status --json x
	assert_equal "$(jq -r '.[0].holders[0].label' <<<"$out")" witness
	refute_file ran
	let_go one
	expect 0
}

@test "a run takes one connection" {
	has_tls || return 0
	try dlock x true
	expect 0
	assert_equal $(($(connections) - before)) 1 connections
}

@test "what the keeper has used the front lets alone, or both would write under the same number" {
	has_tls || return 0
	cli CONFIG SET lua-time-limit 100 >/dev/null
	start busy redis-cli -s "$SERVER/socket" EVAL 'while true do end' 0
	wait_until is_busy
	# Its keeper asks again and again.
	start one outcome=outcome pid=front dlock x touch ran
	stays 1000 is_alive $one_pid
	kill -TERM "$(<front)"
	wait_until is_file outcome
	assert_file outcome 'signal TERM'
	cli SCRIPT KILL >/dev/null
	wait_until is_free x
	refute grep -E 'decryption|bad record' "$SERVER/log"
	refute_file ran
}

is_busy() { [[ $(cli PING 2>&1) == BUSY* ]]; }

@test "waiters are served in order, each by one connection" {
	has_tls || return 0
	begin_holder one x
	local i
	for i in {1..5}; do
		start "w$i" dlock x sh -c "echo $i >>order"
		wait_until waiting_are "$i"
	done
	let_go one
	for i in {1..5}; do
		finish "w$i"
		expect 0
	done
	assert_equal "$(paste -sd '' order)" 12345
	# One more for each look that finds nothing new, which a slow machine makes them take.
	assert_between $(($(connections) - before)) 6 11 "connections, the holder's included"
	assert is_free x
}

waiting_are() { [[ $(cli ZCARD 'lock:{lock:x}:queue') == "$1" && $(cli INFO clients) == *"blocked_clients:$1"* ]]; }

@test "a wait costs no processor, a look no connection" {
	has_tls || return 0
	cli SET lock:x somebody PX 3500 >/dev/null # foreign: looked at every second
	start one dlock -v x echo ran
	wait_until waiting_are 1
	cli CONFIG RESETSTAT >/dev/null
	finish one
	assert_equal "$status$out" 0ran
	assert_between "$(calls evalsha)" 1 3 requests
	assert_between "$(calls blpop)" 1 8 waits
	assert_between $(($(connections) - before)) 1 2 connections
}

@test "a long hold is renewed over the one connection that took the lock" {
	has_tls || return 0
	begin_holder one x -t 3 -v
	cli CONFIG RESETSTAT >/dev/null
	stays 8000 is_held x
	assert_equal $(($(connections) - before)) 1 connections
	assert_between "$(calls evalsha)" 8 16 renewals
	let_go one
	assert_equal "$status" 0
	refute_match "$err" 'cannot renew'
}

calls() { cli INFO commandstats | sed -n "s/^cmdstat_$1:calls=\([0-9]*\).*/\1/p"; }

@test "a server that restarts: the lock is set again, by TLS" {
	has_tls || return 0
	begin_holder one x -t 3
	server_end "$SERVER"
	secure_again
	wait_until is_held x
	let_go one
	assert_equal "$status" 0
	assert_match "$err" 'the server had lost the lock; nobody came between, it is set again'
}

@test "a waiter gets over a server that restarts" {
	has_tls || return 0
	cli SET lock:x other PX 60000 >/dev/null
	start one dlock x echo ran
	wait_until waiting_are 1
	server_end "$SERVER"
	secure_again
	finish one
	assert_equal "$status$out" 0ran
}

secure_again() {
	server_again "$SERVER" --tls-port "$PORT" --tls-cert-file "$CA/good.pem" --tls-key-file "$CA/good.key" \
		--tls-ca-cert-file "$CA/ca.pem" --tls-auth-clients no
}

@test "the keeper is killed: the front gives the lock back, by a session of its own" {
	has_tls || return 0
	begin_holder one x
	kill -KILL "$one_keeper"
	finish one
	assert_equal "$status" 70
	wait_until is_gone "$one_command"
	assert is_free x
}

@test "the front is killed: COMMAND is stopped, the lock released" {
	has_tls || return 0
	begin_holder one x --grace 0.2
	kill -KILL "$one_pid"
	wait_until is_gone "$one_command"
	wait_until is_free x
}

@test "a signal ends a wait, and the place in the queue is left" {
	has_tls || return 0
	begin_holder one x
	start two outcome=outcome pid=front dlock x touch ran
	wait_until waiting_are 1
	kill -TERM "$(<front)"
	wait_until is_file outcome
	assert_file outcome 'signal TERM'
	assert_equal "$(cli ZCARD 'lock:{lock:x}:queue')" 0
	let_go one
	expect 0
	refute_file ran
}

@test "several locks by TLS, one of them busy" {
	has_tls || return 0
	begin_holder one b
	start two dlock --also b a sh -c 'echo "$DLOCK_FENCES"'
	wait_until waits_for b
	let_go one
	finish two
	assert_match "$status$out" '^0a=[0-9]+ b=[0-9]+$'
}

waits_for() { [[ $(cli ZCARD "lock:{lock:$1}:queue") == 1 && $(cli INFO clients) == *blocked_clients:1* ]]; }

@test "hold, acquire, renew by a token from stdin, release" {
	has_tls || return 0
	bash -c 'dlock hold x && dlock status -q x && redis-cli -s "$1" EXISTS lock:x && dlock release x; true' - \
		"$SERVER/socket" >held 2>hold.err 3>&- 4>&-
	assert_file held 1
	assert_file hold.err ''
	wait_until is_free x
	bash -c 'dlock hold -t 4 x && sleep 5 && dlock status -q x' 3>&- 4>&-
	wait_until is_free x
	try dlock acquire -t 60 x
	assert_equal "$status" 0
	echo "${out%% *}" >token
	status=0
	dlock renew x - <token 2>renew.err || status=$?
	assert_equal "$status$(<renew.err)" 0
	try dlock acquire -n x
	assert_equal "$status" 1
	status=0
	dlock release x - <token || status=$?
	assert_equal "$status" 0
	assert is_free x
}

@test "connections that are cut at any point by TLS: no lock stays behind" {
	has_tls || return 0
	local i
	for i in {1..6}; do
		start "c$i" dlock x sh -c 'sleep 0.0$(($$ % 10))'
	done
	for i in {1..12}; do
		cli CLIENT KILL TYPE normal SKIPME yes >/dev/null
		sleep 0.05
	done
	for i in {1..6}; do
		finish "c$i"
		[[ $status == 0 ]] || expect_failure 69 'closed the connection|Connection reset'
	done
	wait_until is_free x
}
