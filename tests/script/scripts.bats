# The scripts themselves, attacked: requests that come late, twice, or from the dead; a server that forgets. What they do
# otherwise is seen in ../waiting, ../cron and ../status.

load ../lib/helper
load ../lib/scripts

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

# What a waiter does after it was told busy.
listens() { cli PEXPIRE "lock:{lock:$1}:who:$2" 22000 >/dev/null; }
hears() { cli DEL "lock:{lock:$1}:wake:$2" >/dev/null; }
told() { cli LRANGE "lock:{lock:$1}:wake:$2" 0 -1 | paste -sd ,; }
meta() { cli HGET "lock:{lock:$1}:meta" "$2"; }
owner() { cli GET "lock:$1"; }

# How many commands the server runs for CODE, those inside scripts included.
cost() {
	cli CONFIG RESETSTAT >/dev/null
	"$@"
	cli INFO commandstats | tr -d '\r' |
		awk -F'[=,]' '/^cmdstat_/ && !/config|info/ { n += $2 } END { print n + 0 }'
}

is_dead() { [[ $(cli EXISTS "lock:{lock:$1}:who:$2") == 0 ]]; }
says() { assert_equal "${reply[0]}" "$1" 'the answer'; }

# --- One holder ---

# A lock's use, with TTL, COOLDOWN; how long it is remembered for then, of a memory that was to end in
# a minute.
remembered=''
uses=0
use() { # [NAME=VALUE]...
	local ttl=60000 cooldown=0 token=user$((uses += 1))
	[[ $# = 0 ]] || local "$@"
	cli PEXPIRE 'lock:{lock:x}:meta' 60000 >/dev/null
	take x $token ttl=$ttl
	says granted
	give x $token fence=$fence gen=$gen since=$since success=$((cooldown > 0)) cooldown=$cooldown
	says released
	remembered=$(cli PTTL 'lock:{lock:x}:meta')
}

@test "what is remembered lives a month after its last use, though not every use says so" {
	local day=$((24 * 3600 * 1000))
	use
	assert_between "$remembered" $((32 * day)) $((33 * day)) 'the first use'
	use
	assert_between "$remembered" 1 60000 'the next'
	cli HSET 'lock:{lock:x}:meta' fence $((fence - day * 1000)) >/dev/null
	use
	assert_between "$remembered" $((32 * day)) $((33 * day)) 'on another day'
	use ttl=$((2 * day))
	assert_between "$remembered" $((33 * day)) $((34 * day)) 'a lease of two days'
	use cooldown=$((50 * day))
	assert_between "$remembered" $((51 * day)) $((52 * day)) 'a long cooldown'
	use cooldown=1
	assert_between "$remembered" $((51 * day)) $((52 * day)) 'which a short one keeps'
}

@test "what each step costs the server" {
	assert_between "$(cost take x a)" 1 9 acquire
	assert_between "$(cost take x b)" 1 9 'busy without waiting'
	take x a
	assert_between "$(cost extend x a "$fence" "$gen")" 1 5 renew
	assert_between "$(cost give x a fence="$fence" gen="$gen" since="$since")" 1 8 release
}

@test "a request that landed unseen is granted when it is repeated" {
	take x a
	local first=$fence
	take x a
	says granted
	((fence > first)) || fail "fence $fence after $first"
	give x a
}

@test "nothing foreign is touched: another type, a plain string" {
	cli RPUSH lock:x one two >/dev/null
	take x a
	assert_match "${reply[0]}" ^WRONGTYPE
	give x a
	assert_match "${reply[0]}" ^WRONGTYPE
	extend x a 1 1
	assert_match "${reply[0]}" ^WRONGTYPE
	verify x a
	assert_match "${reply[0]}" ^WRONGTYPE
	lua inspect x a
	assert_match "${reply[0]}" ^WRONGTYPE
	assert_equal "$(cli KEYS '*')" lock:x
	assert_equal "$(cli LRANGE lock:x 0 -1 | paste -sd ' ')" 'one two'
	cli DEL lock:x >/dev/null

	cli SET lock:x stranger >/dev/null
	take x a
	says busy
	assert_equal "$left,$holder" '-1,stranger'
	give x a fence=1 gen=1
	says lost
	extend x a 1 1
	says denied
	assert_equal "$(owner x),$(cli PTTL lock:x)" stranger,-1
	cli DEL lock:x >/dev/null
}

# --- The queue ---

@test "two that come in one microsecond keep their order, and so do they when the clock goes back" {
	take x a
	cli HSET 'lock:{lock:x}:meta' ticket 8000000000000000 >/dev/null
	take x b lease=60000
	assert_equal "$ticket_given" 8000000000000001
	take x c lease=60000
	assert_equal "$ticket_given" 8000000000000002
	assert_equal "$(cli ZRANGE 'lock:{lock:x}:queue' 0 -1 | paste -sd ' ')" 'b c'
	cli FLUSHALL >/dev/null
}

@test "verify: what nobody took though he said that he listens goes on at once" {
	take x a
	local f=$fence
	for n in b c d; do take x $n lease=2000; listens x $n; done
	give x a fence=$f gen=$f since=1
	hears x c
	verify x b
	# c was told that it is next, so it may be on its way back.
	assert_equal "${handed[*]}/$(owner x)" c/c
	assert_equal "$(cli EXISTS 'lock:{lock:x}:who:b')" 0
	verify x c
	assert_equal "${handed[*]}" c
	take x c
	verify x c
	assert_equal "${#handed[@]}" 0
	cli FLUSHALL >/dev/null
}

@test "verify: whose lease runs out before the claim is not forgotten: the lock goes on" {
	local mode
	for mode in x s p1; do
		take $mode a
		local f=$fence
		take $mode b mode=$mode lease=60000
		take $mode c lease=60000
		give $mode a fence=$f gen=$f since=1
		assert_equal "${handed[*]}" b
		hears $mode b # the message went into the socket of a dead waiter
		cli PEXPIRE "lock:{lock:$mode}:who:b" 100 >/dev/null
		hears $mode c
		wait_until is_dead $mode b
		verify $mode b
		assert_equal "${handed[*]}" b "pending, handed by $mode"
		wait_until is_free $mode
		verify $mode b
		assert_equal "${handed[*]}/$(owner $mode)" c/c
		give $mode c
	done
	cli FLUSHALL >/dev/null
}

@test "verify leaves a holder alone whose record was evicted" {
	take x a
	cli DEL 'lock:{lock:x}:who:a' >/dev/null
	cli RPUSH 'lock:{lock:x}:wake:a' go >/dev/null
	cli PEXPIRE 'lock:{lock:x}:wake:a' 5000 >/dev/null
	verify x a
	assert_equal "$(owner x)/${#handed[@]}" a/0
	give x a
}

@test "a waiter that gives up just when it was handed the lock hands it on" {
	take x a
	local f=$fence
	take x b lease=60000
	take x c lease=60000
	give x a fence=$f gen=$f since=1
	give x b
	says released
	assert_equal "${handed[*]}/$(owner x)" c/c
	cli FLUSHALL >/dev/null
}

@test "--at-least: a renewal that comes after the release extends nothing, and is no loss" {
	local mode
	for mode in x s; do
		take $mode a mode=$mode
		give $mode a mode=$mode left=20000 fence=$fence gen=$gen since=$since
		extend $mode a "$fence" "$gen" $mode
		says denied
		lua extend $mode a 60000
		says unknown
		assert_between "$(cli PTTL lock:$mode)" 1 20000
		assert_equal "$(meta $mode lost)" ''
		# It is denied as well if the server remembers others that ended since.
		cli HSET "$(meta_of $mode)" ended 'b c d e' >/dev/null
		extend $mode a "$fence" "$gen" $mode
		says denied
		assert_between "$(cli PTTL lock:$mode)" 1 20000
		assert_equal "$(meta $mode lost)" ''
		give $mode a mode=$mode
		says released
		assert is_free $mode
	done
}

@test "each begins with the comment by which Dragonfly lets it have keys that are not declared" {
	local text=$builddir/src/redis/script/script_text.c
	assert_between "$(grep -c '^static const char .*_text\[\]' "$text")" 10 40
	assert_equal "$(grep -A1 '^static const char .*_text\[\]' "$text" | grep -vE '^(static const char|--$)' | sort -u)" \
		$'\t"--!df flags=allow-undeclared-keys\\n"'
}

# --- Set again, or lost ---

@test "lost: another holds it, or held it, or it was ended" {
	take x a
	local f=$fence
	cli DEL lock:x >/dev/null
	take x b
	local fb=$fence
	extend x a $f $f
	says denied
	give x b fence=$fb gen=$fb
	extend x a $f $f
	says denied
	give x a fence=$f gen=$f
	says lost
	assert_equal "$(owner x)" ''
	assert_equal "$(meta x lost)" 3

	take y a
	cli SET lock:y thief PX 60000 >/dev/null
	extend y a $fence $fence
	says denied
	assert_equal "$(owner y)" thief
	cli FLUSHALL >/dev/null
}

@test "a renewal that comes after the release does nothing, on an emptied server either" {
	take x a
	local f=$fence
	give x a fence=$f gen=$f
	extend x a $f $f
	says denied
	take x b
	local fb=$fence
	cli FLUSHALL >/dev/null
	give x b fence=$fb gen=$fb
	says gone
	extend x b $fb $fb
	says denied
	assert_equal "$(owner x)" ''
}

@test "a request to acquire that comes after its release does nothing" {
	give x a
	says gone
	take x a lease=60000
	says ended
	take x b
	says granted
	give x b fence=$fence gen=$fence
	take x b
	says ended
	assert_equal "$(cli KEYS '*')" 'lock:{lock:x}:meta'
}

@test "a release may be repeated" {
	take x a
	local f=$fence
	give x a fence=$f gen=$f since=$since
	local held
	held=$(meta x held_us)
	give x a fence=$f gen=$f since=$since
	says released
	assert_equal "$(meta x held_us)" "$held"
	take x b
	give x a fence=$f gen=$f since=$since
	says released
	assert_equal "$(owner x)" b
	local n
	for n in b c d; do
		take x $n
		give x $n fence=$fence gen=$gen since=$since
	done
	assert_equal "$(meta x ended)" 'd c b a'
	give x a fence=$f gen=$f since=$since
	says released
	take x e
	give x e fence=$fence gen=$gen since=$since
	assert_equal "$(meta x ended)" 'e d c b'
}

@test "a share that was released is known as such after many others, too" {
	local mode n f g
	for mode in s p30; do
		take $mode a mode=$mode
		f=$fence g=$gen
		take $mode b mode=$mode
		give $mode a mode=$mode fence=$f gen=$g since=$since
		give $mode b mode=$mode fence=$fence gen=$gen since=$since
		for n in {1..18}; do
			take $mode r$n mode=$mode
			give $mode r$n mode=$mode fence=$fence gen=$gen since=$since
		done
		give $mode a mode=$mode fence=$f gen=$g since=$since
		says released
		assert_between "$(wc -w <<<"$(meta $mode ended)")" 20 20 tokens
	done
}

@test "a release that is repeated tells again to whom it handed the lock" {
	take x a
	local f=$fence
	take x b lease=60000
	give x a fence=$f gen=$f since=$since
	give x a fence=$f gen=$f since=$since
	says released
	assert_equal "${handed[*]}" b
	take x b
	give x a fence=$f gen=$f since=$since
	says released
	assert_equal "${handed[*]}" ''
	give x b
}

@test "gone: it was not there when it was released, and nobody came between" {
	take x a
	local f=$fence
	cli DEL lock:x >/dev/null
	give x a fence=$f gen=$f
	says gone
	take x a2
	cli FLUSHALL >/dev/null
	give x a2 fence=$fence gen=$fence
	says gone
	assert_equal "$(meta x fence)" "$fence"
}

@test "an emptied server: a late release of what was lost frees nothing that another holds" {
	take x a
	local f=$fence
	give x a fence=$f gen=$f
	take x h
	local f_h=$fence
	take x b lease=60000
	cli FLUSHALL >/dev/null
	take x b lease=60000 ticket=$ticket_given off=5000 seen=$f_h
	says busy
	# a thought that it held it until now.
	give x a fence=$f gen=$f
	says gone
	assert_equal "${#handed[@]}/$(owner x)" 0/
	extend x h $f_h $f_h
	says again
	give x h fence=$f_h gen=$f_h
	says released
	assert_equal "${handed[*]}" b
	cli FLUSHALL >/dev/null
}

@test "an emptied server: a holder that proves it had it until now and releases: no waiting" {
	local us=1000000
	take x a
	local f=$fence proof=$((since + 60 * us))
	take x b lease=60000
	cli FLUSHALL >/dev/null
	take x b lease=60000 ticket=$ticket_given off=5000 seen=$f
	says busy
	# What was under way for longer than the lease proves nothing.
	give x a fence=$f gen=$f proof=$((since - us))
	says gone
	assert_equal "${#handed[@]}/$(owner x)" 0/
	cli FLUSHALL >/dev/null
	take x b lease=60000 ticket=$ticket_given off=5000 seen=$f
	says busy
	give x a fence=$f gen=$f proof=$proof
	says gone
	assert_equal "${handed[*]}/$(owner x)" b/b
	cli FLUSHALL >/dev/null
}

# Readers r1 and r2 of x, of grants f1, f2 and the generation g, and w, which keeps off on their behalf.
readers_are_forgotten() {
	take x r1 mode=s
	g=$gen f1=$fence
	take x r2 mode=s
	f2=$fence
	take x w lease=60000
	cli FLUSHALL >/dev/null
	take x w lease=60000 ticket=$ticket_given off=5000 seen=$f2
	says busy
}

@test "an emptied server: a reader proves nothing of the others" {
	readers_are_forgotten
	give x r1 mode=s fence=$f1 gen=$g proof=$((since + 60000000))
	says gone
	assert_equal "${#handed[@]}/$(owner x)" 0/
	cli FLUSHALL >/dev/null
}

@test "an emptied server: the first reader that returns and ends frees nothing of the others" {
	readers_are_forgotten
	extend x r1 $f1 $g s
	says again
	give x r1 mode=s fence=$f1 gen=$g
	says released
	assert_equal "${#handed[@]}/$(owner x)" 0/
	extend x r2 $f2 $g s
	says again
	give x r2 mode=s fence=$f2 gen=$g
	says released
	assert_equal "${#handed[@]}/$(owner x)" 0/
	# The first waiter looks when that time is over.
	assert_match "$(told x w)" '^look [1-4][0-9]{3} listens,look [1-4][0-9]{3}$'
	cli FLUSHALL >/dev/null
}

@test "a server that lost nothing keeps nobody off" {
	take x a
	local f=$fence
	take x b lease=60000
	cli DEL lock:x >/dev/null
	take x b lease=60000 ticket=$ticket_given off=5000 seen=$f
	says granted
	give x a
	give x b
}

# --- Shared, permits ---

@test "readers go past a dead writer" {
	take x r1 mode=s
	take x w lease=60000
	take x r2 mode=s lease=60000
	says busy
	cli PEXPIRE 'lock:{lock:x}:who:w' 1 >/dev/null
	wait_until is_dead x w
	take x r2 mode=s lease=60000 ticket=$ticket_given
	says granted
	cli FLUSHALL >/dev/null
}

@test "a batch that is larger than one script hands out goes in to the last" {
	local n in=0 token
	take x w
	local f=$fence
	for n in {1..70}; do take x r$n mode=s lease=60000; done
	give x w fence=$f gen=$f since=1
	assert_equal "${#handed[@]}" 64
	take x r1 mode=s
	says granted
	assert_equal "${#handed[@]}" 6
	assert_equal "$(cli ZCARD 'lock:{lock:x}:holders')" 70
	cli FLUSHALL >/dev/null
}

@test "every reader comes back after the server lost its memory, but none that has left" {
	take x r1 mode=s
	local g=$gen f1=$fence
	take x r2 mode=s
	local f2=$fence
	take x r3 mode=s
	local f3=$fence
	give x r3 mode=s fence=$f3 gen=$g since=1
	# A late renewal of a share that was released while others go on.
	extend x r3 $f3 $g s
	says denied
	cli FLUSHALL >/dev/null
	extend x r2 $f2 $g s
	says again
	extend x r1 $f1 $g s
	says again
	extend x r1 $f1 $g s
	says extended
	assert_equal "$(cli ZCARD 'lock:{lock:x}:holders')" 2
	give x r1 mode=s fence=$f1 gen=$g
	give x r2 mode=s fence=$f2 gen=$g
	extend x r2 $f2 $g s
	says denied
	extend x r1 $f1 $g s
	says denied
}

@test "readers and a lock that was deleted: back, unless a writer came between" {
	take x r1 mode=s
	local g=$gen f1=$fence
	take x r2 mode=s
	local f2=$fence
	cli DEL lock:x >/dev/null
	extend x r1 $f1 $g s
	says again
	extend x r2 $f2 $g s
	says again
	cli DEL lock:x >/dev/null
	take x w
	extend x r1 $f1 $g s
	says denied
	give x w fence=$fence gen=$gen
	extend x r2 $f2 $g s
	says denied
	give x r2 mode=s fence=$f2 gen=$g
	says lost
	cli FLUSHALL >/dev/null
}

@test "a word without shares is held until it runs out" {
	cli SET lock:x dlock:shared PX 60000 >/dev/null
	take x r mode=s
	says busy
	take x w
	says busy
	assert_equal "$holder" ''
	cli PEXPIRE lock:x 50 >/dev/null
	wait_until is_free x
	take x r mode=s
	says granted
	give x r mode=s
}

@test "verify takes a share back that nobody took" {
	take x w
	local f=$fence
	for n in r1 r2; do take x $n mode=s lease=2000; listens x $n; done
	give x w fence=$f gen=$f since=1
	assert_equal "${handed[*]}" 'r1 r2'
	take x r2 mode=s
	verify x r1 r2
	assert_equal "${#handed[@]}/$(cli ZRANGE 'lock:{lock:x}:holders' 0 -1)" 0/r2
	give x r2 mode=s
}

# --- What a server may do in the middle ---

@test "out of memory: nothing is taken, but what is held is released and extended" {
	take x a
	local f=$fence
	take x b lease=60000
	cli CONFIG SET maxmemory 1 >/dev/null
	take y a
	assert_match "${reply[0]}" ^OOM
	assert_equal "$(cli KEYS 'lock:y')" ''
	extend x a $f $f
	says extended
	give x a fence=$f gen=$f since=$since
	says released
	assert_equal "${handed[*]}" b
	cli CONFIG SET maxmemory 0 >/dev/null
	give x b
}

@test "a right that is missing in the middle of a script: the lock is not taken" {
	needs acl
	cli ACL SETUSER half on nopass '~*' '+@all' -set >/dev/null
	cli() { redis-cli -s "$SERVER/socket" --user half --pass '' --no-auth-warning "$@"; }
	take x a
	assert_match "${reply[0]}" "can't run this command|no permissions to run the 'set' command"
	assert_equal "$(cli EXISTS lock:x)" 0
	give x a
	says gone
	unset -f cli
	cli() { redis-cli -s "$SERVER/socket" "$@"; }
	cli ACL DELUSER half >/dev/null
}

@test "every key that a script makes ends by itself, whatever it was that made it" {
	cli SET lock:f stranger PX 60000 >/dev/null
	take f a
	take f b lease=60000
	give g a
	give h a fence=7 gen=7
	extend i a 5 5 s
	extend j a 5 5
	give j a fence=9 gen=9
	cli SET lock:k stranger PX 60000 >/dev/null
	extend k a 5 5
	take l a mode=s
	take l b mode=p2 lease=60000
	take m b lease=60000 off=1000 seen=5
	local key
	for key in $(cli KEYS '*'); do
		assert_between "$(cli PTTL "$key")" 1 $((33 * 24 * 3600 * 1000)) "$key's time to live"
	done
	cli FLUSHALL >/dev/null
}

# ---- A success on record -------------------------------------------------------------------------

messages() { cli LRANGE "lock:{lock:$1}:wake:$2" 0 -1 | paste -sd ' '; } # LOCK TOKEN

@test "a waiter that is handed the lock and finds a success hands off in one step, in each mode" {
	local mode
	for mode in x s p1; do
		take $mode a
		local f=$fence
		take $mode b mode=$mode lease=60000
		local ticket=$ticket_given
		take $mode c lease=60000
		give $mode a fence=$f gen=$f success=1
		assert_equal "${handed[*]}" b
		hears $mode c # that it is to look
		take $mode b mode=$mode ticket=$ticket lease=2000 cooldown=60000
		assert_equal "${reply[0]} ${handed[*]}" 'already c' "handed by $mode"
		assert_equal "$(messages $mode c)" go
		assert_equal "$(cli EXISTS "lock:{lock:$mode}:who:b" "lock:{lock:$mode}:wake:b")" 0
		take $mode c ticket=$ticket_given
		assert_equal "${reply[0]}" granted
		give $mode c fence=$fence gen=$gen
	done
	cli FLUSHALL >/dev/null
}

# --- What a waiter holds ---------------------------------------------------------------------------

# The end of what inspect answers: number and token of each waiter that holds something.
nested() {
	lua inspect x ''
	echo "${reply[*]: -2}"
}

@test "inspect: a waiter that holds something is shown with its token as long as it lives" {
	take x a
	take x b lease=60000
	take x c lease=2000 held=$'A1 a\nB1 b'
	assert_equal "$(nested)" '2 c'
	cli PEXPIRE 'lock:{lock:x}:who:c' 1600 >/dev/null
	refute test "$(nested)" = '2 c'
	take x c lease=2000 held='A1 a' ticket=$ticket_given
	assert_equal "$(nested)" '2 c'
	give x a fence=1
	take x c lease=2000 ticket=$ticket_given
	cli FLUSHALL >/dev/null
}
