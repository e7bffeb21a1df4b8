# A holder and many waiters behind it.
# shellcheck shell=bash disable=SC2154

# crowd_gather NAME FOLDER WAITERS: NAME's holder, and WAITERS behind it whose COMMAND is a stamp into
# FOLDER/log. Sets `holder` and `waiters`, the pids. The holder's COMMAND writes its pid to
# FOLDER/held and goes on when FOLDER/gate is written to.
crowd_gather() {
	local folder=$2
	gated=(sh -c 'echo $$ >"$1/held"; read -r _ <"$1/gate"' sh "$folder")
	rm -f "$folder/gate" "$folder/log" "$folder/held"
	mkfifo "$folder/gate"
	env "${settings[@]}" "${lock[@]}" "${gated[@]}" &
	holder=$!
	waiters=()
	started+=("$holder")
	until_true 10 test -s "$folder/held" || { progress "$1 does not take the lock"; return 1; }
	crowd_grow "$3" "$work/stamp" "$folder/log"
}

# crowd_grow MORE COMMAND...
crowd_grow() {
	local i more=$1
	shift
	for ((i = 0; i < more; i++)); do
		env "${settings[@]}" "${lock[@]}" "$@" &
		waiters+=($!)
		started+=($!)
	done
}

# crowd_step FOLDER: the one that is held at the gate leaves, and the next one comes to it.
crowd_step() {
	rm -f "$1/held"
	echo go >"$1/gate"
	until_true 10 test -s "$1/held"
}

# crowd_drain FOLDER: the holder leaves; waits until every waiter has had its turn.
crowd_drain() {
	local pid failed=0
	echo go >"$1/gate"
	for pid in "$holder" "${waiters[@]}"; do
		wait "$pid" || failed=1
	done
	crowd_forget
	return "$failed"
}

# crowd_disperse FOLDER: everybody goes at once.
crowd_disperse() {
	{
		((${#waiters[@]} == 0)) || kill -KILL "${waiters[@]}"
		echo go >"$1/gate"
		wait "$holder" "${waiters[@]}"
	} 2>/dev/null
	crowd_forget
}

# Their pids may be another's from now on.
crowd_forget() {
	local pid left=()
	for pid in "${started[@]}"; do
		[[ " $holder ${waiters[*]} " == *" $pid "* ]] || left+=("$pid")
	done
	started=("${left[@]}")
}

# tree_of PID...: they and their descendants.
tree_of() {
	local pid
	for pid in "$@"; do
		echo "$pid"
		# shellcheck disable=SC2046
		tree_of $(cat "/proc/$pid/task/"*/children 2>/dev/null)
	done
}

# pss_of PID...: the sum of their proportional set sizes, KiB.
pss_of() {
	local pid
	for pid in "$@"; do
		cat "/proc/$pid/smaps_rollup" 2>/dev/null
	done | awk '/^Pss:/ { sum += $2 } END { print sum + 0 }'
}
