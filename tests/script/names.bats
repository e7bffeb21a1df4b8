# What may be a NAME, and that each becomes exactly the key PREFIX+NAME.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

# Within the lock: DLOCK_NAME is the name, the key is there, and status says the same; after it the
# key is gone.
name_works() {
	local name=$1
	try dlock -n -- "$name" sh -c 'printf %s "$DLOCK_NAME" >name
		redis-cli -s "${DLOCK_SERVER#unix://}" EXISTS "lock:$DLOCK_NAME"
		dlock status -q -- "$DLOCK_NAME"; echo $?'
	if [[ $name == *[*?[]* ]]; then
		# Such a NAME is a glob to status.
		out=${out%%$'\n'*}$'\n0'
	fi
	[[ "$status$out$err" == $'01\n0' && $(<name) == "$name" ]] \
		|| fail "NAME $(printf %q "$name"): status $status" "$out" "$err"
	assert_equal "$(cli EXISTS "lock:$name")" 0 "lock:$name after the run"
}

repeat() { # TEXT N
	local text
	printf -v text '%*s' "$2" ''
	echo "${text// /$1}"
}

@test "names with spaces, quotes, braces, percent signs, backslashes, UTF-8 and the rest" {
	local name
	for name in a ' ' ' lead' 'trail ' 'two  words' "it's" '"quoted"' '`id`' '$(id)' '$HOME' \
		'{' '}' '{}' '{tag}' 'x{tag}y' '}{' 'p}q' '{}r' 's{}t{u}' '{{x}}' '%' '%s%n%d' '100%' '%00' \
		'\' '\n' 'a\nb' '/' '/etc/passwd' '../..' 'a:b' ':' '::' 'a:meta' 'meta' 'queue' ':queue' \
		'*' '?' '[a]' 'a*b' '#' '&' '|' ';' '<>' '!' '~' '^' '=' '-' '--' '-n' '-w' '0' '00' '9a' \
		é 日本語 🔒 $'e\u0301' $'\u00a0' $'\ufeffbom' $'\u202e' $'\U10ffff' 'Ünïcödé name' \
		'status2' 'Status' 'lock:x' 'user@host' 'a=b' 'a,b' 'http:/x' 'x:/ /y'; do
		name_works "$name"
	done
}

@test "names of 1, 511 and 512 bytes" {
	name_works "$(repeat a 511)"
	name_works "$(repeat b 512)"
	name_works "$(repeat é 256)"
	name_works "$(repeat 🔒 128)"
	name_works "$(repeat % 512)"
	name_works "$(repeat '{' 512)"
}

# name_refused REASON NAME...
name_refused() {
	local reason=$1 name
	shift
	for name; do
		try dlock -n -- "$name" touch ran
		expect_failure 64 "$reason" || fail "NAME $(printf %q "$name")"
		try dlock run -n -- "$name" touch ran
		expect_failure 64 "$reason" || fail "run, NAME $(printf %q "$name")"
		refute_match "$err" $'[\x01-\x1f\x7f]' 'the message'
	done
	refute_file ran
	assert_equal "$(cli DBSIZE)" 0 'keys'
}

@test "an empty name, and one of 513 bytes" {
	name_refused 'empty' ''
	name_refused '512' "$(repeat a 513)" "$(repeat é 257)" "$(repeat a 100000)"
}

@test "control characters" {
	name_refused 'control' $'\n' $'a\nb' $'\t' $'a\rb' $'\e[31m' $'\x01' $'a\x1f' $'\x7f' $'a\u0080b' \
		$'\u009b31m' $'\u0085' $'end\n'
}

@test "what is not UTF-8" {
	name_refused 'UTF-8' $'\xff' $'a\xfe' $'\xc3' $'\xc3(' $'\xa9' $'\xc0\xaf' $'\xc1\xbf' \
		$'\xe0\x80\xaf' $'\xe2\x82' $'\xed\xa0\x80' $'\xed\xbf\xbf' $'\xf0\x80\x80\xaf' \
		$'\xf0\x9f\x94' $'\xf4\x90\x80\x80' $'\xf8\x88\x80\x80\x80' $'latin-1 \xe9'
}

@test "what looks like a companion key of dlock, and what does not" {
	name_refused 'companion' '{lock:x}:meta' '{lock:x}:holders' '{lock:x}:queue' '{lock:x}:who:token' \
		'{lock:x}:wake:token' '{lock:x}:waits:token' '{lock:x}:inner:token' '{lock:x}:once:id' 'a}:meta' 'x}:meta:y' '}:queue' '{a}:meta:{b}:x'
	local name
	for name in 'x{t}y:meta' 'a}:metal' 'a}: meta' '}meta' ':meta' '}:' 'a}:other'; do
		name_works "$name"
	done
}

@test "what looks like a server" {
	name_refused 'server' redis://localhost unix:///tmp/socket http://x '://' 'a://b'
}
