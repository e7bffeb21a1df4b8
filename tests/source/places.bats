# Where people build and install: folders with blanks in their names, sources that nobody may write to, users that are not
# root, a DESTDIR.

load ../lib/helper
load ../lib/sources

setup_file() { programs_begin; }
setup() {
	BATS_TEST_TIMEOUT=$((400 * TEST_PATIENCE))
	environment_begin
	# Reachable for every user, which bats' folders are not.
	place=$(mktemp -d "/tmp/dlock places XXXXXX")
	chmod 755 "$place"
	cd "$place"
}
teardown() {
	cd /
	rm -rf "$place"
	environment_end true
}

# ordinary COMMAND...: as a user without rights; root gives its own up.
ordinary() {
	local words=()
	[[ $(id -u) != 0 ]] || words=(setpriv --reuid nobody --regid nogroup --clear-groups)
	env HOME="$place/home" XDG_CONFIG_HOME="$place/home" TMPDIR="$place/home" "${words[@]}" "$@"
}

@test "places: blanks in names, read-only sources, no root: build, test, install, uninstall" {
	mkdir home made root locks
	sources_to "$BATS_TEST_TMPDIR/tree"
	mv "$BATS_TEST_TMPDIR/tree" .
	chmod -R a-w,a+rX tree
	[[ $(id -u) != 0 ]] || chown -R nobody:nogroup home made root locks
	(cd tree && find . -type f -exec md5sum {} + | sort) >before

	quietly_in made ordinary ../tree/configure -q CFLAGS=-O0 --prefix=/usr --without-postgres --without-etcd --without-zookeeper
	quietly_in made ordinary make -s -j2
	quietly_in made ordinary make -s -j2 tests/unit/name_test tests/unit/duration_test
	quietly_in made ordinary env builddir="$place/made" ../tree/tests/all tests/unit/name_test tests/unit/duration_test
	assert_match "$(tail -n 1 "$BATS_FILE_TMPDIR/said")" '^[1-9][0-9]* passed, 0 failed$'
	quietly_in made ordinary make -s install DESTDIR="$place/root"
	quietly_in made ordinary make -s dist
	assert test -s made/dlock-*.tar.xz

	try ordinary root/usr/bin/dlock -S "file://$place/locks" x echo yes
	expect 0 yes
	assert test -s root/usr/share/man/man1/dlock-renew.1
	assert test -s root/usr/share/bash-completion/completions/dlock
	quietly_in made ordinary make -s uninstall DESTDIR="$place/root"
	assert_equal "$(find root ! -type d)" ''
	(cd tree && find . -type f -exec md5sum {} + | sort) | diff before -
}
