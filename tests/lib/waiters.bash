# The waiters for x on the file's server, and the order in which they had it: `load ../lib/helper`, then
# `load ../lib/waiters`.

queue_of() { echo "lock:{lock:$1}:queue"; }

# enqueue NAME [OPTION]...: a waiter for x that adds NAME to the file `order`; returns once it
# listens at its place.
enqueue() {
	local name=$1 before
	shift
	before=$(cli ZCARD "$(queue_of x)")
	start "$name" dlock "$@" x sh -c "echo $name >>order"
	wait_until queued x $((before + 1))
	wait_until listens "$pid"
}

listens() { # PID
	local token
	token=$(token_of "$1")
	[[ -n $token ]] && (($(cli PTTL "lock:{lock:x}:who:$token") > 2500))
}

# token_of PID: of one that waits for x.
token_of() { cli ZRANGE "$(queue_of x)" 0 -1 | grep ":$1:"; }

is_cut_off() { ! has_socket "$(keeper_of "$1")"; } # FRONT

order_is() { [[ $(tr '\n' ' ' <order 2>/dev/null) == "$* " ]]; }
assert_order() { assert_equal "$(tr '\n' ' ' <order)" "$* " order; }

finish_all() {
	local name
	for name; do
		finish "$name"
		assert_equal "$status$err" 0 "$name"
	done
}

# The same of waiters whose server was restarted: if a loaded machine takes a second for that, they speak of it.
finish_all_restarted() {
	local name
	for name; do
		finish "$name"
		assert_equal "$status$(grep -Ev 'the server is lost, and is tried|the server answers again$' <<<"$err")" 0 "$name"
	done
}

# How many connections wait for a message.
listeners_are() { [[ $(cli INFO clients | sed -n 's/^blocked_clients:\([0-9]*\).*/\1/p') == "$1" ]]; } # COUNT
