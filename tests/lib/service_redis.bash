# The lock service Redis, for service/conformance.bats: what each service_NAME.bash must offer.

# What a refusal calls it.
service_word=Redis

service_begin() { server_begin "$SERVER"; }
service_end() { server_end "$SERVER"; }

# Before each test: it runs, and holds nothing.
service_reset() {
	[[ -e $SERVER/pid ]] || service_again
	cli FLUSHALL >/dev/null
}

# What is left though nothing holds or waits any longer; what must stay does not count.
service_left() { keys_left | grep -v '}:once:' || true; }

# What is left of killed processes ends by itself: says so if not, and does not wait for it.
service_reap() { :; }

service_url() { echo "redis://127.0.0.1:$(<"$SERVER/port")"; }
service_shown() { echo "$DLOCK_SERVER"; } # as reports name it
service_named() { by_name; } # its URL, with the name lockhost for 127.0.0.1
service_nowhere() { echo redis://127.0.0.1:1; } # no server is there
service_wrong() { printf '%s\n' redis://h:0 redis://h:65536 redis://h/x redis://h?x=1 unix://; }

# The server dies at once, and comes back, perhaps without its data; it says nothing, and goes on.
service_kill() { server_end "$SERVER"; }
service_again() { server_again "$SERVER"; }
service_restart() { echo 6; } # seconds: a TTL that outlives one
service_crowd() { echo 63; } # trials at a time, of three sessions each
service_settles() { :; }      # until a waiter that was killed is noticed in the usual time
service_freeze() { server_stop; }
service_thaw() { server_continue; }
service_pids() { server_pid; }

# Takes the lock NAME away, behind its holder's back, for another client.
service_steal() { cli SET "lock:$1" thief PX 60000 >/dev/null; }

# Another client, without dlock: takes the lock NAME and has it until it drops it; false: it is not free.
# What else the soak does to the service: lines WHAT=COMMAND, each for a shell.
service_harms() { :; }

service_foreign_take() { [[ $(cli SET "lock:$1" foreign NX PX 60000) == OK ]]; }
service_foreign_drop() { cli DEL "lock:$1" >/dev/null; }

# service_keeps NAME FORMAT: the lock NAME is on record in that format (1: dlock's own). service_dump NAME: all that is kept of it.
service_keeps() { cli HSET "lock:{lock:$1}:meta" format "$2" >/dev/null; }
service_dump() { cli HGETALL "lock:{lock:$1}:meta" | paste - - | sort; }
