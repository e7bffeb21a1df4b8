# The lock service of five Redis servers, for service/conformance.bats; service_redis.bash says what each
# function is for.

load ../lib/quorum

service_word='a quorum'

service_begin() {
	local i
	for i in 1 2 3 4 5; do
		one_begin "$(dir_of $i)"
	done
}

service_end() { slay 1 2 3 4 5; }

service_reset() {
	local i
	for i in 1 2 3 4 5; do
		[[ -e $(dir_of $i)/pid ]] || one_again "$(dir_of $i)"
		on $i FLUSHALL >/dev/null
	done
}

service_left() {
	local i
	for i in 1 2 3 4 5; do
		[[ ! -e $(dir_of $i)/pid ]] || on $i KEYS '*' | grep -vE '\}:(meta$|meta:|once:)' || true
	done
}

service_reap() { ends_by_itself 1 2 3 4 5; }

service_url() { url 1 2 3 4 5; }
service_shown() { echo "$DLOCK_SERVER"; }
service_named() { by_name; }
service_nowhere() { echo redis+quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3; }
service_wrong() { printf '%s\n' redis+quorum://a redis+quorum://a,b redis+quorum://a,b,c/x redis+quorum://a,b,c:0; }

service_kill() { slay 1 2 3 4 5; }
service_again() { revive 1 2 3 4 5; }
service_restart() { echo 6; }
service_crowd() { echo 63; }
service_settles() { :; }
service_freeze() { freeze 1 2 3 4 5; }
service_thaw() { thaw 1 2 3 4 5; }
service_pids() {
	local i
	for i in 1 2 3 4 5; do
		cat "$(dir_of $i)/pid"
	done
}

service_harms() { :; }

service_steal() {
	local i
	for i in 1 2 3 4 5; do
		on $i SET "lock:$1" thief PX 60000 >/dev/null
	done
}

# As Redlock has it: on a majority, or on none.
service_foreign_take() {
	local i count=0
	for i in 1 2 3 4 5; do
		[[ $(on $i SET "lock:$1" foreign NX PX 60000) != OK ]] || ((++count))
	done
	((count >= 3)) || {
		service_foreign_drop "$1"
		return 1
	}
}

service_foreign_drop() {
	local i
	for i in 1 2 3 4 5; do
		[[ $(on $i GET "lock:$1") != @(foreign|thief) ]] || on $i DEL "lock:$1" >/dev/null
	done
}

service_keeps() {
	local i
	for i in 1 2 3 4 5; do
		on $i HSET "lock:{lock:$1}:meta" format "$2" >/dev/null
	done
}
service_dump() {
	local i
	for i in 1 2 3 4 5; do
		on $i HGETALL "lock:{lock:$1}:meta" | paste - - | sort
	done
}
