# A syslog socket of the test's own: `load ../lib/helper`, then `load ../lib/log_socket`, and log_socket_begin in
# setup.

# ./logged COMMAND... runs it with ./log in the place of /dev/log: in a mount namespace, or in its dlock alone
# where nothing may be mounted.
log_socket_begin() {
	if may_mount 2>/dev/null; then
		cat >logged <<-'LOGGED'
			#!/bin/bash
			here=$(realpath "$(dirname "$0")")
			exec in_mounts sh -c '
				mount -t tmpfs -o mode=755 none "$0" && cd "$0" || exit 99
				for one in null zero full random urandom tty; do
					touch $one && mount --bind /dev/$one $one || exit 99
				done
				ln -s /proc/self/fd fd
				ln -s "$1" log
				cd "$OLDPWD"
				mount --rbind "$0" /dev || exit 99
				shift
				exec "$@"' "$here/dev" "$here/log" "$@"
		LOGGED
		mkdir dev
	else
		make_elsewhere
		cat >logged <<-LOGGED
			#!/bin/bash
			export LD_PRELOAD=$ELSEWHERE ELSEWHERE_LOG=$PWD/log PATH=$LOADING:\$PATH
			exec "\$@"
		LOGGED
	fi
	chmod +x logged
}

# deaf_log KIND: ./log is a daemon that hangs, of the kind dgram or stream.
deaf_log() {
	rm -f log full
	service "$BATS_TEST_DIRNAME/../programs/deaf_syslogd.py" "$1" "$PWD/log" "$PWD/full"
	wait_until is_file full
}
