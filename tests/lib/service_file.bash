# The lock service of one host, for service/conformance.bats; service_redis.bash says what each function
# is for. There is no server that could be away.

service_word=file:
locks=$BATS_FILE_TMPDIR/locks

service_begin() { :; }
service_end() { :; }

service_reset() { rm -rf "$locks"; }

# A file stays with what it remembers, but no process has it.
service_left() {
	local file
	for file in "$locks"/* "$locks"/.*; do
		[[ ! -f $file ]] || flock -n "$file" true || echo "$file is locked"
	done
	find "$locks" -type s 2>/dev/null || true
	dlock -S "$(service_url)" status --json 2>/dev/null | jq -r '.[] | select(.holders != [] or .waiters != [])'
}

service_reap() { :; }

service_url() { echo "file://$locks"; }
service_shown() { echo "$DLOCK_SERVER"; }
service_named() { by_name; }
service_nowhere() { echo "file://$PWD/nowhere"; }
service_wrong() { printf '%s\n' file://host/locks file:locks file://locks; }

service_kill() { :; }
service_again() { :; }
service_restart() { echo 6; }
service_crowd() { echo 63; }
service_settles() { :; }
service_freeze() { :; }
service_thaw() { :; }
service_pids() { :; }

service_harms() { :; }

service_steal() { :; }

# As a line of cron has it: flock(1), until it is told to end.
service_foreign_take() {
	mkdir -p -m 700 "$locks"
	flock -n "$locks/$1" sh -c ': >foreign.has; until [ -e foreign.go ]; do sleep 0.02; done' 3>&- 4>&- &
	foreign_pid=$!
	wait_until foreign_has_or_gone
	[[ -e foreign.has ]]
}

foreign_has_or_gone() { [[ -e foreign.has ]] || is_gone "$foreign_pid"; }

service_foreign_drop() {
	: >foreign.go
	wait "$foreign_pid"
	rm -f foreign.go foreign.has
}

service_keeps() { printf %s "$2" | dd of="$locks/.$1" bs=1 seek=15 conv=notrunc status=none; }
service_dump() { od -c "$locks/.$1"; }
