# What becomes of a run on a kernel that is older than some system call: strace(1) answers in its place.

load ../lib/helper

setup_file() { file_begin; }
setup() {
	test_begin
	mkdir locks
	export DLOCK_SERVER="file:$PWD/locks"
}
teardown() { test_end; }
teardown_file() { file_end; }

# lack CALL: what is begun by "${kernel[@]}" sees a kernel without that call; `?`, as strace may be older than the call.
lack() { kernel=(unleaked strace -f -qq -o trace -e "trace=?$1" -e "inject=?$1:error=ENOSYS"); }

@test "without pidfd_open nothing runs, and the kernel that it takes is named" {
	lack pidfd_open
	try "${kernel[@]}" dlock x touch ran
	assert_equal "$status" 71
	assert_equal "$err" 'dlock: x: dlock needs Linux 5.3 or later, for pidfd_open(2): Function not implemented'
	refute test -e ran
	try dlock -n x echo free
	expect 0 free
}

@test "without what is younger than Linux 5.3 COMMAND runs, and --max-run stops all of it" {
	local call
	for call in pidfd_getfd close_range clone3 openat2 faccessat2 epoll_pwait2; do
		lack $call
		try "${kernel[@]}" dlock --max-run 300ms x sh -c 'setsid sleep 300 & echo $! >left; wait'
		assert_equal "$status" 124 "$call"
		refute is_alive "$(<left)" # its zombie may be init's
	done
}
