# The scripts, called as dlock calls them: `load ../lib/helper`, then `load ../lib/scripts`. The lists of their keys and
# arguments stand here only. `cli` is the server.

LUA=$BATS_TEST_DIRNAME/../../src/redis/script/lua

# lua SCRIPT LOCK TOKEN [ARG]...: its answer, a line for each element, in the array `reply`. An error is without what
# servers before Redis 7 put in front of it.
lua() {
	local script=$1 key=lock:$2 token=$3
	local of="lock:{$key}:"
	shift 3
	mapfile -t reply < <(cli EVAL "$("$LUA/embed.sh" -t "$LUA/prelude.lua" "$LUA/$script.lua")" 6 "$key" \
		"${of}meta" "${of}holders" "${of}queue" "${of}who:$token" "${of}wake:$token" \
		"$of" '' "$token" "$@" | sed -E '1s/^ERR Error running script .*@user_script: ?[0-9]+: -?//')
}

# take LOCK TOKEN [NAME=VALUE]...
take() {
	local lock=$1 token=$2 mode=x ttl=60000 lease=0 ticket=0 boost=0 off=0 seen=0 cooldown=0 once='' held=''
	shift 2
	[[ $# = 0 ]] || local "$@"
	lua acquire "$lock" "$token" "$mode" "$ttl" "$lease" "$ticket" "$boost" "$off" "$seen" "label=$token" \
		"$cooldown" "$once" "$held"
	if [[ ${reply[0]} == granted ]]; then
		since=${reply[1]} fence=${reply[2]} gen=${reply[3]} handed=(${reply[@]:4})
	elif [[ ${reply[0]} == busy ]]; then
		fence=${reply[2]} ticket_given=${reply[3]} rank=${reply[4]} left=${reply[5]} holder=${reply[6]}
		handed=(${reply[@]:8})
	elif [[ ${reply[0]} == already ]]; then
		handed=(${reply[@]:3})
	fi
}

# give LOCK TOKEN [NAME=VALUE]...
give() {
	local lock=$1 token=$2 mode=x left=0 fence=0 gen=0 since=0 success=0 cooldown=0 once='' once_for=1000 \
		proof=0 exit=''
	shift 2
	[[ $# = 0 ]] || local "$@"
	((success)) && exit=0
	lua release "$lock" "$token" "$mode" "$left" "$fence" "$gen" "$since" 1 \
		"$success" "$cooldown" "$once" "$once_for" "$proof" "$exit" "$since" "label=$token"
	handed=(${reply[@]:1})
}

# extend LOCK TOKEN FENCE GEN [MODE [TTL]]
extend() {
	local mode=${5:-x}
	lua renew "$1" "$2" "$mode" "${6:-60000}" "$3" "$4" "${mode^^}|1|label=$2"
}

verify() { # LOCK TOKEN...
	local lock=$1
	shift
	lua verify "$lock" '' "$@"
	handed=(${reply[@]:1})
}

confirm() { # LOCK TOKEN FENCE
	lua confirm "$1" "$2" "$3" 60000 0 text "$2.waits"
}
