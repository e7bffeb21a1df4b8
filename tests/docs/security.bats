# What SECURITY says and no other file tests.

load ../lib/helper
load ../lib/etcd
load ../lib/postgres
load ../lib/zookeeper

setup_file() { file_begin; }
setup() { test_begin; }
teardown() {
	! etcd_is_up guarded || etcd_end guarded
	zookeeper_end one
	database_end
	test_end
}
teardown_file() { file_end; }

@test "a report replaces a regular file and leaves its other names alone" {
	echo precious >old
	ln old other
	try dlock --report old x true
	assert_equal "$status $err" "0 "
	assert_match "$(<old)" '^\{"outcome":"ran"'
	assert_file other precious
}

@test "a report in the place of a symbolic link is one line more where that leads" {
	echo first >target
	ln -s target link
	try dlock --report link x true
	assert_equal "$status $err" "0 "
	assert test -L link
	assert_equal "$(head -n 1 target)" first
	assert_equal "$(wc -l <target)" 2
	assert_match "$(tail -n 1 target)" '^\{"outcome":"ran"'
}

@test "a server that says whatever it likes does not reach the terminal by it" {
	fake_server error
	try dlock -S "redis://127.0.0.1:$(<error/port)" -w 2 x true
	refute_match "$status" '^(0|1[3-9][0-9])$'
	refute_match "$err" '[[:cntrl:]]'
}

@test "what SECURITY says can be run is there" {
	local target
	for target in fuzz lint memcheck; do
		assert grep -q "make $target" "$BATS_TEST_DIRNAME/../../SECURITY"
		assert grep -q "^$target:" "$BATS_TEST_DIRNAME/../../Makefile.am"
	done
}

# ---- Which user can do what, service by service ----------------------------------------------------

@test "file: a folder for all has files for all; without its sticky bit check warns" {
	mkdir -m 1777 shared
	chmod 1777 shared # whatever the umask is
	dlock -S "file://$PWD/shared" x true
	assert_equal "$(stat -c %a shared/x shared/.x)" $'666\n666'
	mkdir -m 777 loose
	chmod 777 loose
	try dlock -S "file://$PWD/loose" check
	assert_equal "$status" 1
	assert_match "$out" 'everybody may remove locks from it.*chmod \+t'
}

@test "etcd: a role for one prefix takes locks there alone, and breaks none of another" {
	etcd_begin guarded
	local url lease
	etcd_ctl guarded user add root:sesame
	etcd_ctl guarded user grant-role root root
	for one in app other; do
		etcd_ctl guarded role add $one
		etcd_ctl guarded role grant-permission $one --prefix=true readwrite $one:
		etcd_ctl guarded user add $one:$one
		etcd_ctl guarded user grant-role $one $one
	done >/dev/null
	etcd_ctl guarded auth enable
	url=127.0.0.1:$(etcd_port guarded)
	begin_holder one x -S "etcd://app:app@$url" --prefix app: -t 60s
	try dlock -S "etcd://other:other@$url" --prefix other: x echo own
	expect 0 own
	try dlock -S "etcd://other:other@$url" --prefix app: -n x true
	expect_failure 77 'permission denied'
	try dlock -S "etcd://other:other@$url" --prefix app: release --force x
	expect_failure 77 'permission denied'
	try dlock -S "etcd://other:other@$url" --prefix app: status
	assert_equal "$status$out" 77
	lease=$(etcd_ctl guarded --user root:sesame lease list | sed -n 2p)
	try etcd_ctl guarded --user other:other lease revoke "$lease"
	assert_match "$err" 'permission denied'
	let_go one
	expect 0
	etcd_end guarded
}

@test "ZooKeeper: any client may read, and remove, what a holder made below a closed chroot" {
	zookeeper_begin one
	local url
	url=$(zookeeper_url one)
	url=zookeeper://ann:s3cret@${url#*//}
	url=${url%/locks}/closed
	zk one '
from kazoo.security import make_digest_acl
zk.create("/closed", acl=[make_digest_acl("ann", "s3cret", all=True)])
'
	begin_holder one x -S "$url"
	zk one 'print(zk.get("/closed/x/" + zk.get_children("/closed/x")[0])[0].decode())' >record
	assert file_has record 'label|witness'
	refute file_has record s3cret
	try zk one 'zk.create("/closed/y")'
	assert_match "$status$err" '^1.*NoAuth'
	zk one 'zk.delete("/closed/x/" + zk.get_children("/closed/x")[0])'
	finish one
	assert_equal "$status" 80
	zookeeper_end one
}

@test "PostgreSQL: a role with rights to the schema may end any lock; one without sees none" {
	database_begin
	local url=postgres://tester@/postgres?host=$database
	dlock -S "$url" x true
	psql -qAt -c 'CREATE ROLE stranger LOGIN; CREATE ROLE fellow LOGIN'
	try dlock -S "postgres://fellow@/postgres?host=$database" check --json
	"$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["findings"][0]["script"])' <<<"$out" | psql -qAt
	begin_holder one x -S "$url" -t 5s
	try dlock -S "postgres://stranger@/postgres?host=$database" status
	assert_equal "$status$out" 77
	try dlock -S "postgres://stranger@/postgres?host=$database" release --force x
	expect_failure 77 'permission denied'
	try dlock -S "postgres://fellow@/postgres?host=$database" release --force x
	assert_equal "$status" 0
	finish one
	assert_equal "$status" 80
	assert_equal "$(psql -qAtc "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
		WHERE nspname = 'dlock' AND prosecdef")" 0 'functions that run with the rights of their owner'
}
