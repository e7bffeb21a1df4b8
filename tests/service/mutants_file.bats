# Mutants (../lib/mutants.bash) of the locks in files.

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
