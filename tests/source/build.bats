# What was built: what it links, maps and weighs, and that it installs.

load ../lib/helper

setup_file() { file_begin; }
setup() {
	test_begin
	builddir=${builddir:-$BATS_TEST_DIRNAME/../..}
}
teardown() { test_end; }
teardown_file() { file_end; }

sanitized() { grep -q '^DLOCK_LDFLAGS.*-fsanitize' "$builddir/Makefile"; }

# Libraries that a plain run may map: libc's own, and of ours only what serves every run.
readonly ALLOWED='^(ld-linux.*|ld[0-9]*|libc|libhiredis|libbsd|libmd|libjansson|libinih|libutf8proc)\.so'

@test "a plain run maps no library but libc and the five that dlock itself is built of" {
	! sanitized || left_out "a sanitizer brings its own"
	try dlock maps sh -c 'cat "/proc/$PPID/maps"'
	assert_equal "$status $err" "0 "
	grep -oE '/[^/]*\.so[.0-9]*$' <<<"$out" | tr -d / | sort -u >mapped
	if grep -q '^DLOCK_LINK = .*-static' "$builddir/Makefile"; then
		assert_equal "$(<mapped)" "" 'mapped by a program with libc linked in'
	else
		assert grep -q '^libc\.so' mapped
	fi
	assert_equal "$(grep -vE "$ALLOWED" mapped || true)" ""
}

@test "the redis-server of redis-tools is found if no other is installed" {
	mkdir tools
	local tool
	for tool in sh mkdir ln redis-check-rdb; do
		ln -s "$(command -v $tool)" tools/
	done
	try env PATH="$PWD/tools" sh -c '. "$1"; find_redis_server made; redis-server --version' \
		sh "$BATS_TEST_DIRNAME/../../build-aux/prepare.sh"
	assert_equal "$status" 0
	assert_match "$out" '^Redis server v='
	assert_equal "$(ls made)" redis-server
	rm tools/redis-check-rdb made/redis-server
	try env PATH="$PWD/tools" sh -c '. "$1"; find_redis_server made' sh "$BATS_TEST_DIRNAME/../../build-aux/prepare.sh"
	assert_equal "$status" 1
	assert_match "$err" 'is redis-tools installed'
}

@test "no process of a run needs 3 MiB, nor 2 if all is linked in" {
	! sanitized || left_out "a sanitizer needs more"
	# Mostly libc, of which the kernel maps 64 KiB around each fault; how much that makes varies
	# with the address it was loaded at. So: the least of several runs.
	local run
	for run in {1..6}; do
		try dlock memory sh -c '
			keeper=$PPID
			front=$(sed -n "s/^PPid:[[:space:]]*//p" "/proc/$keeper/status")
			sed -n "s/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p" \
				"/proc/$keeper/status" "/proc/$front/status" | sort -n | tail -n 1'
		assert_equal "$status $err" "0 "
		echo "$out" >>peaks
	done
	local most=3071
	! grep -q '^DLOCK_LINK = .*-static' "$builddir/Makefile" || most=2047
	assert_between "$(sort -n peaks | head -n 1)" 500 $most "peak memory in KiB"
}

@test "--version is the version that configure was given" {
	local version
	version=$(sed -n 's/^PACKAGE_VERSION = //p' "$builddir/Makefile")
	try dlock --version
	assert_equal "$status ${out%%$'\n'*}" "0 dlock $version"
	assert_match "$out" $'\nTLS: (yes, OpenSSL [0-9.]+.*|no)$'
}

@test "the program is a hardened one" {
	! sanitized || left_out "a sanitizer's build is for tests"
	grep -q '^DLOCK_PIE.*-pie' "$builddir/Makefile" || left_out "configured without hardening"
	local program
	for program in dlock dlock-tls; do
		[[ -e $builddir/src/$program ]] || continue
		readelf -hW "$builddir/src/$program" >header
		readelf -lW "$builddir/src/$program" >segments
		readelf -dW "$builddir/src/$program" >dynamic
		assert grep -qE 'Type: +DYN' header
		assert grep -qE 'GNU_RELRO' segments
		assert grep -qE 'BIND_NOW|NOW' dynamic
		assert grep -qE 'GNU_STACK.* RW ' segments
		refute grep -qE '(LOAD|GNU_STACK) .* R?WE ' segments
		refute grep -qE 'RUNPATH|RPATH|TEXTREL' dynamic
	done
}

@test "our own functions are hardened ones" {
	! sanitized || left_out "a sanitizer's build is for tests"
	# In the program they could be libc's.
	readelf -sW "$builddir/libdlock.a" >symbols
	if grep -q '^DLOCK_CFLAGS.*-fstack-protector-strong' "$builddir/Makefile"; then
		assert_between "$(grep -c 'UND __stack_chk_fail' symbols)" 20 200 'files with a stack protector'
	fi
	if grep -q '^DLOCK_CPPFLAGS.*-D_FORTIFY_SOURCE' "$builddir/Makefile"; then
		assert_between "$(grep -cE 'UND __[a-z]+_chk$' symbols)" 20 400 'fortified calls'
	fi
}

@test "TLS is in the program for it, and in no other" {
	readelf -dW "$builddir/src/dlock" >dynamic
	refute grep -qE 'libssl|libcrypto|libpq|libcurl|libzookeeper' dynamic
	try dlock -V
	if grep -q '^OPENSSL_LIBS = .' "$builddir/Makefile"; then
		assert_match "$out" 'TLS: yes, OpenSSL [0-9.]+[a-z]*$'
		readelf -dW "$builddir/src/dlock-tls" >dynamic
		grep -q '^DLOCK_LINK = .*-static' "$builddir/Makefile" || assert grep -q libssl dynamic
	else
		assert_match "$out" 'TLS: no$'
	fi
}

@test "make install installs a dlock that runs, its manuals and completions" {
	try make -s --no-print-directory -C "$builddir" install DESTDIR="$PWD/root" prefix=/usr
	assert_equal "$status $err" "0 "
	try root/usr/bin/dlock installed echo yes
	expect 0 yes
	local page part
	for page in "$BATS_TEST_DIRNAME"/../../man/*; do
		page=${page##*/}
		part=${page#dlock-}
		! build_lacks "${part%.7}" || continue
		assert test -s "root/usr/share/man/man${page##*.}/$page"
	done
	for page in renew release; do # in the page of another command
		assert test -s root/usr/share/man/man1/dlock-$page.1
	done
	assert test -s root/usr/share/bash-completion/completions/dlock
	assert test -s root/usr/share/zsh/site-functions/_dlock
	assert test -s root/usr/share/fish/vendor_completions.d/dlock.fish
	assert test -s root/usr/share/doc/dlock/README.md
	assert test -s root/usr/share/doc/dlock/guide.md
	try make -s --no-print-directory -C "$builddir" uninstall DESTDIR="$PWD/root" prefix=/usr
	assert_equal "$(find root ! -type d)" ""
}

@test "every source has its line in Makefile.am" {
	local top=$BATS_TEST_DIRNAME/../.. source
	(cd "$top" && find src tests/unit tests/programs -name '*.[ch]' -o -name '*.lua') >sources
	assert_between "$(wc -l <sources)" 40 400
	while IFS= read -r source; do
		[[ $source != src/redis/script/script_text.c ]] || continue # made by the build
		[[ $source != tests/*.c ]] || source=${source%.c} # a program's own name is enough
		assert grep -qF "$source" "$top/Makefile.am"
	done <sources
}

@test "a tree is configured though its folder has blanks in its name" {
	local top=$BATS_TEST_DIRNAME/../..
	mkdir -p "a  b/src/lock"
	cp -a "$top"/{aclocal.m4,build-aux,config*,m4,Makefile.*} "a  b/"
	cp "$top/src/lock/lock.h" "a  b/src/lock/"
	try sh -c 'cd "a  b" && . build-aux/prepare.sh && configured build --without-tls --without-postgres --without-etcd --without-zookeeper'
	assert_equal "$status" 0 "$err"
	assert test -e "a  b/build/Makefile"
}

@test "every file of the packaging for Debian is in what make dist makes" {
	local file packed
	cd "$BATS_TEST_DIRNAME/../.."
	packed=" $(sed -n '/^EXTRA_DIST += build-aux\/try-packages/,/[^\\]$/p' Makefile.am | tr '\t\n\\' '   ') "
	for file in $(find debian -type f -not -name '*.swp'); do
		[[ $packed == *" $file "* ]] || fail "$file is not in EXTRA_DIST"
	done
}

@test "every file that HACKING.md or a comment or README.md in src names is there" {
	cd "$BATS_TEST_DIRNAME/../.."
	find src tests completions docs build-aux -type f | sed 's|.*/||' >"$BATS_TEST_TMPDIR/there"
	echo script_text.c >>"$BATS_TEST_TMPDIR/there" # made by the build
	# Not <a system's>, *_of.many, or those of the kernel, which stand with their folder.
	grep -v '^[ \t]*#' -r HACKING.md src |
		grep -oE '^[^:]*:|[<*A-Za-z0-9_/]+\.(c|h|lua|py|bats|bash)\b' |
		awk '/:$/ { from = $0; next } !/^(<|\/tmp\/|kernel\/|net\/unix\/)|[*]/ { print from, $0 }' |
		sort -u >"$BATS_TEST_TMPDIR/named"
	assert_between "$(wc -l <"$BATS_TEST_TMPDIR/named")" 50 5000 'names of files'
	awk 'NR == FNR { there[$0]; next } { base = $2; sub(/.*\//, "", base) } !(base in there)' \
		"$BATS_TEST_TMPDIR/there" "$BATS_TEST_TMPDIR/named" >"$BATS_TEST_TMPDIR/missing"
	assert_equal "$(<"$BATS_TEST_TMPDIR/missing")" ""
}
