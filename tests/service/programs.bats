# Services with a program of their own: dlock becomes it, or says which package is missing.

load ../lib/helper

setup_file() { file_begin; }
teardown_file() { file_end; }

setup() {
	test_begin
	cp "$(realpath "$BIN/dlock")" lonely
}

teardown() { test_end; }

urls=(postgres://u:s3cret@h/db postgresql://u:s3cret@h/db etcd://u:s3cret@h etcds://u:s3cret@h
	zookeeper://u:s3cret@h/locks)

program_of() {
	local scheme=${1%%:*}
	case $scheme in
	postgres*) echo dlock-postgres ;;
	etcd*) echo dlock-etcd ;;
	zookeeper) echo dlock-zookeeper ;;
	esac
}

@test "a service's program is missing: 78, the package is named, the password is not" {
	local url
	for url in "${urls[@]}"; do
		try ./lonely -S "$url" --report report x touch ran
		expect_failure 78 "${url//s3cret/xxxxxx}: the package $(program_of "$url") is not installed"
		refute_match "$err" s3cret
		assert_equal "$(jq -r .outcome report)" config
		try ./lonely -S "$url" status
		expect_failure 78 'is not installed'
		try ./lonely -S "$url" check
		expect_failure 78 'is not installed'
	done
	refute_file ran
}

@test "its loader or a library is missing: 78 and which, as COMMAND's own 127 and 1 are others" {
	local url own=dlock-etcd beside library loader command
	beside=$(dirname "$(realpath "$BIN/dlock")")/$own
	[[ -e $beside ]] || left_out "$own"
	url=etcd://127.0.0.1:1
	library=$(readelf -d "$beside" | sed -n 's/.*NEEDED.*\[\(libcurl[^]]*\)\]/\1/p')
	loader=$(readelf -lW "$beside" | sed -n 's/.*interpreter: \(.*\)\]/\1/p')
	LC_ALL=C sed "s|$library|${library/curl/curx}|g" "$beside" >$own
	chmod +x $own
	for command in 'x touch ran' 'status' '-n x touch ran'; do
		try ./lonely -S $url --prefix p: $command
		expect_failure 78 "cannot use $url: .*/$own does not start: .*${library/curl/curx}"
	done
	LC_ALL=C sed 's|GLIBC_2\.34|GLIBC_2.99|g' "$beside" >$own
	try ./lonely -S $url -n x touch ran
	expect_failure 78 "$own does not start: .*GLIBC_2.99"
	LC_ALL=C sed "s|$loader|${loader%?}_|" "$beside" >$own
	try ./lonely -S $url --report report x touch ran
	expect_failure 78 "cannot use $url: .*/$own does not start: its loader is missing"
	assert_equal "$(jq -r .outcome report)" config
	cp "$beside" $own
	try ./lonely -S $url x touch ran
	expect_failure 69 ''
	refute_file ran
}

@test "dlock itself in the place of a service's program does not become itself for ever" {
	local url
	for url in "${urls[@]}"; do
		cp lonely "$(program_of "$url")"
		try ./lonely -S "$url" x touch ran
		expect_failure 78 'is not installed'
	done
	refute_file ran
}

@test "a service's program gets the arguments as they came, and what else dlock was started with" {
	local url
	for url in "${urls[@]}"; do
		printf '#!/bin/sh\nprintf "%%s\\n" "$@" "$DLOCK_PASSWORD"; cat; exit 7\n' >"$(program_of "$url")"
		chmod +x "$(program_of "$url")"
		status=0
		out=$(echo input | DLOCK_PASSWORD=word ./lonely -n -S "$url" x -- echo 'a  b') || status=$?
		assert_equal "$status $out" "7 -n"$'\n'"-S"$'\n'"$url"$'\n'"x"$'\n'"--"$'\n'"echo"$'\n'"a  b"$'\n'"word"$'\n'"input"
	done
}

@test "help has a form for every scheme" {
	try dlock help server
	refute_match "$out" '\(null\)'
	local scheme
	for scheme in file redis rediss unix redis+sentinel redis+quorum postgres postgresql etcd etcds zookeeper valkey valkeys; do
		[[ $out == *"$scheme:"* ]] || fail "dlock help server says nothing of $scheme:"
	done
}
