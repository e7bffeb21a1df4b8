# Mutants (../lib/mutants.bash) of what holds a lock off after a restart.

load ../lib/helper
load ../lib/mutants

@test "hold-offs that outlive their waiter, a clock set back, force, and for which holder" {
	all_caught off-outlives-its-waiter off-for-nobody quorum-keeps-the-dead
	all_caught off-by-an-uptime-below-nothing off-outlives-force off-for-one-that-ended
}
