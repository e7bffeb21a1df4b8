# A service manager's socket, and systemd itself: `load ../lib/helper`, then `load ../lib/notify_socket`.

# notify_socket [SOCKET]: what dlock says there goes to ./told. The caller gives NOTIFY_SOCKET on.
notify_socket() {
	NOTIFY_SOCKET=${1:-$PWD/notify}
	service "$BATS_TEST_DIRNAME/../programs/notified.py" "$NOTIFY_SOCKET" "$PWD/told"
	wait_until file_has told '^begun'
}

# told_by PID: what that process said, one message a line.
told_by() { sed -n "s/^$1 //p" told; }

# under_systemd FUNCTION: runs it beside a service manager that has the units in ./units.
under_systemd() {
	needs mount
	local code=0
	declare -f >functions
	in_mounts "$BATS_TEST_DIRNAME/../programs/with_systemd" units \
		bash -euc ". ./functions; $1" >under.out 2>under.err 3>&- 4>&- || code=$?
	[[ $code != 99 ]] || left_out "no service manager can be started here"
	[[ $code == 0 ]] || fail "$1: $code: $(cat under.out under.err)"
}
