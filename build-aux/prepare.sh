# Sourced by demo and check in the top folder, and by bench/run: puts on a Debian machine what dlock
# needs, and builds it.

# What dlock itself is built of, and then its programs for TLS, PostgreSQL, etcd and ZooKeeper.
core_packages="autoconf automake gcc libc6-dev make pkgconf
	libhiredis-dev libbsd-dev libjansson-dev libinih-dev libutf8proc-dev"
build_packages="$core_packages libssl-dev libpq-dev libcurl4-openssl-dev libzookeeper-st-dev"
server_packages="redis-tools"
# What the tests need: quick ones, those of all behaviours besides, and those that search; tests of packages; tests/lint.
quick_packages="bats curl dash iproute2 jq perl procps python3 python3-redis strace tmux uidmap util-linux"
test_packages="bash-completion etcd-client etcd-server fish groff-base mandoc openssl pgbouncer postgresql
	python3-kazoo python3-yaml rsync systemd zookeeper zsh"
search_packages="busybox-static spin valgrind xz-utils"
package_packages="debhelper dpkg-dev lintian rpm xz-utils"
lint_packages="clang-tidy cppcheck shellcheck"

say() { printf '%s\n' "$*" >&2; }

# need PACKAGE...: installs those that are missing.
need() {
	if ! command -v apt-get >/dev/null; then
		say "This is no Debian, so what is needed must be there already: $*"
		return 0
	fi
	missing=
	for package; do
		dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' ||
			missing="$missing $package"
	done
	[ -n "$missing" ] || return 0

	as_root=
	if [ "$(id -u)" != 0 ]; then
		as_root=sudo
		if ! command -v sudo >/dev/null; then
			say "Please install as root:$missing"
			exit 1
		fi
	fi
	$as_root apt-get update -qq
	say "Installing$missing"
	# shellcheck disable=SC2086 # words
	LC_ALL=C apt-get install --no-install-recommends --assume-no $missing </dev/null 2>/dev/null |
		grep -E 'newly installed|^Need to get|^After this' >&2 || true
	# shellcheck disable=SC2086 # words
	install_packages $missing
}

# Debian's postgresql would make a database and start it, unless told not to; etcd-server and pgbouncer
# would start, unless they are masked. The tests start servers of their own.
install_packages() {
	clusters=/etc/postgresql-common/createcluster.d
	units=/etc/systemd/system
	masked=
	for unit in etcd pgbouncer; do
		case " $* " in
		*" $unit-server "* | *" $unit "*)
			$as_root mkdir -p $units
			$as_root ln -s /dev/null "$units/$unit.service" 2>/dev/null &&
				masked="$masked $units/$unit.service"
			;;
		esac
	done
	case " $* " in
	*" postgresql "*)
		$as_root mkdir -p $clusters
		echo 'create_main_cluster = false' | $as_root tee $clusters/dlock.conf >/dev/null
		;;
	esac
	failed=0
	$as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get install -qq -y --no-install-recommends "$@" </dev/null >/dev/null || failed=$?
	# shellcheck disable=SC2086 # words
	$as_root rm -f $clusters/dlock.conf $masked
	return $failed
}

# Debian's package redis-server would start a service too. The server itself is in redis-tools,
# as one program with redis-check-rdb: under its other name it serves. If that is all there is, FOLDER gets
# it by that name, at the end of PATH.
find_redis_server() { # FOLDER
	command -v redis-server >/dev/null && return 0
	if ! command -v redis-check-rdb >/dev/null; then
		say "Neither redis-server nor redis-check-rdb is there: is redis-tools installed?"
		return 1
	fi
	mkdir -p "$1"
	ln -sf "$(command -v redis-check-rdb)" "$1/redis-server"
	PATH=$PATH:$1
}

# configured FOLDER [CONFIGURE OPTION]...: ready for make, unless the tree itself was configured. Sets build.
configured() {
	build=$PWD
	[ -e Makefile ] || build=$PWD/$1
	shift
	mkdir -p "$build"
	[ -e configure ] || quietly autoreconf -fi
	if [ ! -e "$build/Makefile" ]; then
		say "Configuring in $build"
		# By a path without the blanks that ours may have, which configure refuses.
		(cd "$build" && quietly ../configure -q "$@")
	fi
}

# build [CONFIGURE OPTION]...: all programs, in a folder of its own for each set of options.
build() {
	configured "build$(for option; do printf '%s' "$option" | sed 's/--enable-/-/'; done)" "$@"
	say "Building"
	make_target all
}

# make_target TARGET: only warnings and errors are shown.
make_target() { make -s --no-print-directory -C "$build" -j"$(nproc)" "$1" >/dev/null; }

# quietly COMMAND...: says what COMMAND said last only when it fails.
quietly() {
	log=$("$@" 2>&1 </dev/null) || {
		printf '%s\n' "$log" | tail -n 50 >&2
		say "Failed: $*"
		exit 1
	}
}
