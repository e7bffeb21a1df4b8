# Mutants (../lib/mutants.bash) of the lock services other than Redis, and of their door.

load ../lib/helper
load ../lib/mutants

@test "locks in files: links, names, overtaking, the dead, the stopped, what is kept and told" {
	all_caught file-takes-links file-long-names-alike file-newcomers-overtake file-dead-are-waited-for
	all_caught file-waits-for-the-stopped file-keeps-nothing-for-the-dead file-force-unheard
	all_caught file-once-for-ever file-circle-unseen
	all_caught file-believes-any-byte file-bells-anything
	all_caught kept-is-around file-bytes-used-again file-removed-unheard file-starts-anew file-waits-by-flock
	all_caught file-wakes-all file-stays-in-line file-order-by-clock file-overfull set-watches-one
}

@test "locks in files: what is passed over, which of them hear of the end; a home, a clock" {
	all_caught file-reader-overtakes file-permits-overtake file-third-is-deaf file-all-ask-at-the-end
	all_caught file-woken-alone file-permits-wait-for-all
	all_caught file-home-of-environment file-clock-of-the-namespace
}

@test "a service: an ability goes with a refusal, a refusal goes, the fencing token repeats" {
	all_caught ability-dropped refusal-left-out fence-repeats
}

@test "formats: what a newer dlock keeps is taken for something else" {
	all_caught format-not-heeded format-not-heeded-in-file format-not-heeded-in-postgres
	all_caught format-not-heeded-in-etcd format-not-heeded-in-zookeeper
}

@test "two releases on one service: what is kept is changed, and its format is not raised" {
	all_caught compat-words compat-bytes
}

@test "release --force: the fencing token it asks for, how soon it says that COMMAND stops" {
	all_caught force-fence-unread force-fence-of-any force-fence-for-the-last file-force-fence-unread
	all_caught pg-force-fence-unread force-at-once kept-is-a-run
}

@test "what COMMAND left keeps the lock: shown as a process's that has ended" {
	all_caught dead-front-shown dead-front-shown-by-thread dead-keeper-shown dead-keeper-shown-in-file
}

@test "a success on record: counted from its end, or to now; a waiter is not told" {
	all_caught cooldown-from-the-end cooldown-forgets-the-wait success-untold file-success-untold
}

@test "slots of permits: another holder's is taken" {
	all_caught slots-alike file-slots-alike
}

@test "several locks, one after the other: what a takeover gives back; --at-least, and inside" {
	all_caught etcd-kept-is-around
	all_caught also-left-when-late pg-takeover-idle zookeeper-takeover-idle ended-is-stopped
	all_caught etcd-takeover-of-nothing pg-takeover-of-nothing zookeeper-takeover-of-nothing
}

@test "permits by a list: none that waits is passed, and all holders count" {
	all_caught permits-pass permits-pass-by-place permits-ahead-only
}

@test "locks in etcd: the fence, the watch, foreign keys, leases, endpoints, tokens, renewals" {
	all_caught etcd-blind etcd-fence-of-arrival etcd-foreign-passed etcd-one-endpoint
	all_caught etcd-one-lease-for-all etcd-one-token-for-ever
	all_caught etcd-renews-blindly etcd-old-errors-only
	all_caught etcd-foreign-unseen contender-undated request-left etcd-old-is-doubtful renewal-impatient etcd-watch-once
	all_caught etcd-pair-inherited old-kernel-hides-nothing
	all_caught etcd-claim-left etcd-key-left etcd-breaks-the-first etcd-at-least-before-the-grant etcd-token-cut
}

@test "locks in ZooKeeper: proofs, fence, descriptors, lost answers, other clients, sessions, TTL" {
	all_caught zookeeper-reads-as-proof zookeeper-fence-of-place zookeeper-socket-inherited
	all_caught zookeeper-create-repeated zookeeper-curator-shared zookeeper-session-left
	all_caught zookeeper-attach-patient zookeeper-leaves-once zookeeper-blind zookeeper-clamped zookeeper-waits-long
	all_caught zookeeper-foreign-undated zookeeper-enters-long zookeeper-waiter-unsuited
	all_caught zookeeper-closes-stale
	all_caught zookeeper-two-connections
}
