# Whether the tests would notice: dlock broken on purpose, in each way that has been seen elsewhere,
# must fail the test that is there for it, and for the reason that it is there for.

load ../lib/helper

setup_file() {
	export BATS_TEST_TIMEOUT=$((240 * TEST_PATIENCE))
	export MAKE_IN=${builddir:-$BATS_TEST_DIRNAME/../..}
}

# What a mutant's line WORD says.
told() { sed -n "s/^$1 //p" "$BATS_TEST_DIRNAME/../mutants/$2"; }

# run_test DLOCK FILE NAME: the tests of FILE whose names begin with NAME, in an environment of
# their own.
run_test() {
	local name=${3//[()]/.}
	env -i PATH="${PATH//"$BATS_LIBEXEC:"/}" HOME="$HOME" TEST_PATIENCE="$TEST_PATIENCE" DLOCK="$1" \
		TEST_BIN="${TEST_BIN:-}" bats --tap --filter "^$name" "$BATS_TEST_DIRNAME/../$2" \
		</dev/null 3>&- 4>&-
}

# caught MUTANT: its test fails, and says what it should; if it can run here.
caught() {
	local folder=$BATS_TEST_TMPDIR/$1 missing
	mkdir "$folder"
	make -s -C "$MAKE_IN" mutant NAME="$1" DIR="$folder" >"$folder/made" 2>&1 || {
		cat "$folder/made"
		return 1
	}
	if run_test "$folder/dlock" "$(told test "$1" | cut -d' ' -f1)" \
		"$(told test "$1" | cut -d' ' -f2-)" >"$folder/tap" 2>&1; then
		missing=$(sed -n 's/^ok 1 .* # skip //p' "$folder/tap")
		if [[ -n $missing ]]; then
			left_out "$missing" "$1"
			return
		fi
		cat "$folder/tap"
		echo "$1 was not noticed"
		return 1
	fi
	grep -qx '1\.\.1' "$folder/tap" && grep -q '^not ok' "$folder/tap" &&
		grep -qE -- "$(told says "$1")" "$folder/tap" || {
		cat "$folder/tap"
		echo "$1: the test failed for another reason"
		return 1
	}
}

# all_caught MUTANT...: side by side, as they mostly wait.
all_caught() {
	local one failed=0
	declare -A job
	for one; do
		caught "$one" >"$BATS_TEST_TMPDIR/$one.said" 2>&1 &
		job[$one]=$!
	done
	for one; do
		wait "${job[$one]}" || {
			failed=1
			cat "$BATS_TEST_TMPDIR/$one.said"
		}
	done
	return $failed
}

@test "the deadline is kept: no kill timer, none in the front, no reserve, counted from the reply" {
	all_caught no-kill-timer no-kill-timer-in-front no-kill-reserve count-from-reply
}

@test "if one dies, the tree goes with it: no keeper, no front, no death signal, child-only kill, no shell" {
	all_caught no-keeper no-front no-death-signal child-only-kill
	all_caught session-kept
}

@test "the lock's holder: set again always and never, released from any holder, the wall clock" {
	all_caught set-again-always set-again-never release-always wall-clock
}

@test "a quorum: unowned confirmations, a token of one, counted from the reply, of the reachable, no stragglers" {
	all_caught quorum-confirms-unowned quorum-token-of-one quorum-counts-from-reply
	all_caught quorum-of-the-reachable quorum-forgets-stragglers quorum-leaves-the-slow
	all_caught quorum-hashes-its-last-word
}

@test "which server: a replica is believed, no ASKING, endless redirects, a replica for now refuses for good" {
	all_caught sentinel-believes cluster-goes-unasked
	all_caught cluster-goes-in-circles check-looks-for-ever readonly-is-final
}

@test "a lock without a process: anybody's token, a fence that stays when it is released by force" {
	all_caught token-of-anybody force-keeps-fence
}

@test "hold: for whom, until when, on whose word, and what it keeps and stops" {
	all_caught hold-for-the-runner hold-for-the-subshell hold-for-the-builder
	all_caught hold-untold hold-answers-early
	all_caught hold-keeps-pipes hold-stops-one hold-no-kill hold-no-deadline hold-retries-for-nobody
}

@test "inside a holder: an ended one lets others in, or is not marked; nothing listed, proved, kept or skipped" {
	all_caught ended-is-a-holder ended-unmarked inside-unlisted
	all_caught inside-unproved renewal-shortens once-passed-over-inside ended-in-a-circle
}

@test "waiting: readers overtake, a foreign client is asked without a pause" {
	all_caught readers-overtake foreign-spins
}

@test "what it needs of its surroundings: log, stderr, /proc, descriptors, threads, guardians, strangers" {
	all_caught log-waits stderr-waits proc-unseen no-room lingers-alone
	all_caught keeper-believed thread-or-nothing strangers-killed takeover-forgets-why stop-asked-in-passing
}

@test "who is who: sandboxes alike, the bell of any sandbox; release without end" {
	all_caught sandboxes-alike bell-of-any-sandbox release-without-end
}

@test "several locks: unguarded, guarded by old tokens, guarded twice" {
	all_caught also-unguarded also-guards-old-tokens also-doubly-guarded
}

@test "several locks at once: past a busy one, under nothing, by any success, over many connections, unheard" {
	all_caught also-past-a-busy-one also-waits-under-nothing also-any-success
	all_caught also-a-connection-each also-unheard-forgotten
}

@test "a server that has just started gives its lock, or is busy for -n" {
	all_caught settle-in-words-only settle-not-for-n
}

@test "a host that stands still: the front, a step, an attempt call time too early; no time was waited" {
	all_caught stalls-end-asking stalls-end-steps stalls-end-attempts waited-for-nothing
}

@test "locks in files: links, long names, overtaking, the dead and the stopped waited for, what is kept and told" {
	all_caught file-takes-links file-long-names-alike file-newcomers-overtake file-dead-are-waited-for
	all_caught file-waits-for-the-stopped file-keeps-nothing-for-the-dead file-force-unheard
	all_caught file-inside-unkept file-once-for-ever file-circle-unseen
	all_caught file-believes-any-byte file-bells-anything file-busy-in-turn
	all_caught file-bytes-used-again file-removed-unheard file-starts-anew file-waits-by-flock set-watches-one
}

@test "a service: an ability goes with a refusal, a refusal goes, the fencing token repeats" {
	all_caught ability-dropped refusal-left-out fence-repeats
}

@test "a waiter of a quorum that leaves by TLS: stale sessions, what is kept back, and unasked" {
	all_caught stale-session-released
	all_caught leave-kept-back places-kept-unasked
}

@test "locks in PostgreSQL: the session's number and settings, a pooler, advisory locks, the rows of others" {
	all_caught pg-session-unnumbered pg-role-decides pg-pooler-taken
	all_caught pg-taken-from-holder pg-left-with-waiters pg-free-beside-readers
	all_caught pg-pooler-lends-lock pg-forgetful-grant
	all_caught pg-advisory-left pg-advisory-counted pg-claims-ignored program-shows-password
}

@test "locks in etcd: the fence, the watch, foreign keys, leases, endpoints, tokens, renewals" {
	all_caught etcd-blind etcd-fence-of-arrival etcd-foreign-passed etcd-one-endpoint
	all_caught etcd-history-unread etcd-joined-unread etcd-one-lease-for-all etcd-one-token-for-ever
	all_caught etcd-renews-blindly etcd-revoked-is-released
}

@test "locks in ZooKeeper: proofs, the fence, descriptors, lost answers, other clients, sessions, TTLs" {
	all_caught zookeeper-reads-as-proof zookeeper-fence-of-place zookeeper-socket-inherited
	all_caught zookeeper-create-repeated zookeeper-curator-shared zookeeper-session-left
	all_caught zookeeper-attach-patient zookeeper-leaves-once zookeeper-blind zookeeper-clamped zookeeper-waits-long
}

@test "every mutant is in one of these tests" {
	local one
	for one in "$BATS_TEST_DIRNAME"/../mutants/*; do
		grep -qE "^	all_caught .*\b$(basename "$one")( |\$)" "$BATS_TEST_FILENAME" || {
			echo "$(basename "$one") is in none"
			return 1
		}
	done
}
