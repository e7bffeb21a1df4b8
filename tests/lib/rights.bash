# What a test needs of the machine and may not have, as an ordinary user or in a container. helper.bash loads it.

# needs RIGHT...: the test is left out if one of them is missing. Where CI is set it fails instead.
#   mount      to mount in a namespace of its own (in_mounts)
#   fuse       to mount file systems in user space, besides
#   sysctl     to change the kernel's settings in /proc/sys
#   network    network namespaces and bridges
#   pids       PID namespaces, with a /proc of their own (in_pids)
#   time       time namespaces
#   cgroup     to mount cgroup2, and to make a cgroup
#   users      to become other users (as_user), and set-user-ID programs that work
#   trace      strace of what is not its child
#   terminal   pseudoterminals
#   ipv6       ::1, and a Redis from 6.2 on
#   acl        users with rights of their own: a Redis from 6.0 on
#   minimum    scripts that are held to min-replicas-to-write: the same
needs() {
	local right
	for right; do
		"may_$right" >/dev/null 2>&1 || left_out "needs $right"
	done
}

# build_lacks PART: the build says of itself that it was configured without tls, postgres, etcd or zookeeper.
build_lacks() { grep -qs "^DLOCK_PARTS = .*\b$1:no\b" "${builddir:-$BATS_TEST_DIRNAME/../..}/Makefile"; }

# of_build PART: the test is left out if the build lacks that.
of_build() { ! build_lacks "$1" || left_out "this build lacks $1"; }

# built_with SANITIZER: asan or tsan is in the program under test.
built_with() { grep -q "__$1_init" "$(command -v dlock)"; }

# counts_threads: the test is left out if the sanitizer has a thread of its own, which wakes ten times a second.
counts_threads() { ! built_with tsan || left_out 'ThreadSanitizer has a thread of its own'; }

# left_out REASON [PART]: ends the test here, or goes on without PART of it; tests/all says so at the end.
# Where CI is set it fails.
left_out() {
	local what="tests/${BATS_TEST_FILENAME#*/tests/}: $BATS_TEST_DESCRIPTION${2:+: $2}"
	[[ -z ${CI:-} ]] || fail "with CI set nothing may be left out: $what: $1" || return 1
	[[ -z ${LEFT_OUT:-} ]] || echo "left out: $what: $1" >>"$LEFT_OUT"
	[[ -n ${2:-} ]] || skip "$1"
}

# As an ordinary user is root in a user namespace of its own.
((EUID == 0)) && readonly AS_ROOT=() || readonly AS_ROOT=(--map-root-user)

may_mount() { in_mounts mount -t tmpfs none "$BATS_TEST_TMPDIR"; }
may_fuse() { : <>/dev/fuse; }
may_sysctl() { [[ -w /proc/sys/fs/protected_regular ]]; }
may_network() { unshare "${AS_ROOT[@]}" --net ip link add bridge-test type bridge; }
may_pids() { in_pids true; }
may_time() { unshare "${AS_ROOT[@]}" --time --boottime 1 --fork true; }
may_cgroup() {
	local folder=$BATS_TEST_TMPDIR/cgroup
	mkdir "$folder" && mount -t cgroup2 none "$folder" || return
	local code=0
	mkdir "$folder/dlock-may.$$" && rmdir "$folder/dlock-may.$$" || code=$?
	umount "$folder"
	return $code
}
may_users() { as_user 65534 && "${become[@]}" true; }
may_trace() {
	local traced code=0
	sleep 60 3>&- 4>&- &
	traced=$!
	timeout -s INT 0.5 strace -qq -o /dev/null -p $traced || code=$?
	kill -KILL $traced
	((code == 124)) # it traced until it was ended
}
may_terminal() { "$PYTHON" -c 'import os; os.openpty()'; }
may_acl() { server_is_from 6.0; }
may_minimum() { server_is_from 6.0; }
may_ipv6() { redis-cli -h ::1 -p "$(<"$SERVER/port")" PING; }

# as_user UID: sets become, the words before a command that is to run as UID. In the namespace of an ordinary
# user that one is root, and the others are those that /etc/subuid gives it.
as_user() {
	become=(setpriv "--reuid=$1" --regid=65534 --clear-groups)
	((EUID == 0)) || become=(unshare --map-root-user --map-auto "${become[@]}")
}

# in_pids COMMAND...: in a PID namespace of its own, with its own /proc.
in_pids() { in_mounts unshare --pid --fork --kill-child --mount-proc "$@"; }

# make_elsewhere: sets ELSEWHERE, to preload into LOADING/dlock (programs/elsewhere.c).
make_elsewhere() {
	ELSEWHERE=$BATS_FILE_TMPDIR/elsewhere.so
	[[ -e $ELSEWHERE ]] ||
		cc -std=c17 -D_GNU_SOURCE -O1 -shared -fPIC -o "$ELSEWHERE" "$BATS_TEST_DIRNAME/../programs/elsewhere.c"
}
