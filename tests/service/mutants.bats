# Mutants (../lib/mutants.bash) of what the lock services have in common, and of their door.

load ../lib/helper
load ../lib/mutants

@test "a service: an ability goes with a refusal, a refusal goes, the fencing token repeats" {
	all_caught ability-dropped refusal-left-out fence-repeats
}

@test "formats: what a newer dlock keeps is taken for something else" {
	all_caught format-not-heeded format-not-heeded-in-file format-not-heeded-in-postgres
	all_caught format-not-heeded-at-take format-not-heeded-in-etcd format-not-heeded-in-zookeeper
}

@test "two releases on one service: what is kept is changed, and its format is not raised" {
	all_caught compat-words compat-bytes
}

@test "release --force: the fencing token it asks for, how soon it says that COMMAND stops" {
	all_caught force-fence-unread force-fence-of-any force-fence-for-the-last file-force-fence-unread
	all_caught pg-force-fence-unread force-at-once kept-is-a-run broken-share-untold
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
	all_caught also-answered-is-busy also-no-time-to-give-back also-left-when-late
	all_caught pg-takeover-idle zookeeper-takeover-idle ended-is-stopped
	all_caught etcd-takeover-of-nothing pg-takeover-of-nothing zookeeper-takeover-of-nothing
}

@test "permits by a list: none that waits is passed, and all holders count" {
	all_caught permits-pass permits-pass-by-place permits-ahead-only
}
