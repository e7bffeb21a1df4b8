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
