# The packages for Debian, built of what `make dist` makes, and those for rpm, which hold the same. In clean Debians
# they are tried by build-aux/try-packages, which takes longer.

load ../lib/helper
load ../lib/sources

setup_file() {
	programs_begin
	export BATS_TEST_TIMEOUT=$((500 * TEST_PATIENCE))
	quietly_in "$BATS_FILE_TMPDIR" env builddir="$(realpath "$builddir")" \
		"$BATS_TEST_DIRNAME/../../build-aux/try-packages" --here "$BATS_FILE_TMPDIR/packages"
	cp "$BATS_FILE_TMPDIR/said" "$BATS_FILE_TMPDIR/packages.said"
}
setup() {
	environment_begin
	TOP=$(realpath "$BATS_TEST_DIRNAME/../..")
	packages=$BATS_FILE_TMPDIR/packages
	version=$(sed -n 's/^PACKAGE_VERSION = //p' "$builddir/Makefile")
}
teardown() { environment_end true; }

readonly NAMES='dlock dlock-etcd dlock-postgres dlock-zookeeper'

@test "packages: make dist packs all of debian/; lintian has nothing to say of what is made" {
	tar -tf "$builddir/dlock-$version.tar.xz" | sed -n 's,^dlock-[^/]*/\(debian/.*[^/]\)$,\1,p' | sort >packed
	(cd "$TOP" && find debian -type f ! -name '*.swp') | sort >there
	diff packed there
	assert_file "$BATS_FILE_TMPDIR/packages.said" ''
}

@test "packages: a version is the same for configure, Debian and rpm" {
	assert_equal "$(sed -n '1s/.*(\(.*\)).*/\1/p' "$TOP/debian/changelog")" "${version/-/\~}" "debian/changelog"
	assert_equal "$(sed -n 's/^Version: *//p' "$TOP/dlock.spec")" "${version/-/\~}" "dlock.spec"
	assert_equal "$(sed -n 's/^%global upstream //p' "$TOP/dlock.spec")" "$version" "dlock.spec"
}

# The files of a package, without what only Debian has: Debian's own documents of a package, and names of folders.
files_of() {
	sed -e 's,^\./,/,' -e 's,/vendor-completions/,/site-functions/,' -e 's,\.gz$,,' |
		grep -vE '/$|/doc/[^/]*/(copyright|changelog.*)$|^/usr/share/licenses/|^/usr/lib/\.build-id' | sort
}

@test "packages: rpmbuild makes the same ones, with the same files" {
	local name
	# A user's own macros, and what the distribution would want for debugging, do not belong here. Only the names of the
	# files count, so nothing is optimized.
	quietly_in "$packages" rpmbuild -ta --nodeps --nocheck --define "_topdir $PWD/rpm" --define 'debug_package %{nil}' \
		--define '_smp_mflags -j2' --define 'optflags -O0' \
		"$(realpath "$builddir")/dlock-$version.tar.xz"
	for name in $NAMES; do
		dpkg -c "$packages/$name"_*.deb | awk '{ print $6 }' | files_of >deb
		rpm -qlp rpm/RPMS/*/"$name"-[0-9]*.rpm 2>/dev/null |
			grep -vxE '/usr/libexec/dlock|/usr/share/doc/dlock(/examples)?' | files_of >rpm-files
		assert test -s deb
		diff deb rpm-files >different || fail "$name, in Debian's (<) and rpm's (>):" "$(<different)"
	done
	assert_equal "$(ls rpm/RPMS/*/*.rpm | wc -l)" 4 packages
}

@test "packages: debian/tests pass with what the packages hold in the place of /usr" {
	local name test
	[[ $(id -u) == 0 ]] || left_out 'only root can put packages in the place of /usr'
	mkdir root
	for name in $NAMES; do
		dpkg-deb -x "$packages/$name"_*.deb root
	done
	for test in $(sed -n 's/^Tests: //p' "$TOP/debian/tests/control"); do
		mkdir "$test"
		try unshare --mount sh -euc 'mount -t overlay -o "lowerdir=$1/usr:/usr" overlay /usr
			cd "$2"
			exec env AUTOPKGTEST_TMP="$3" PATH=/usr/bin:/usr/sbin "debian/tests/$4"' \
			sh "$PWD/root" "$packages/dlock-$version" "$PWD/$test" "$test"
		assert_equal "$status$err" 0 "$test: $out"
	done
}

@test "packages: built again, in another folder and later, they are equal bit for bit" {
	local file
	quietly_in "$PWD" env builddir="$(realpath "$builddir")" "$TOP/build-aux/try-packages" --again "$PWD/another-folder"
	for file in "$packages"/*.deb; do
		assert cmp "$file" "another-folder/${file##*/}"
	done
	assert_between "$(ls another-folder/*.deb | wc -l)" 4 10 packages
}
