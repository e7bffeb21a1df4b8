# Mutants (../lib/mutants.bash) of the locks in etcd.

load ../lib/helper
load ../lib/mutants

@test "locks in etcd: the fence, the watch, foreign keys, leases, endpoints, tokens, renewals" {
	all_caught etcd-blind etcd-fence-of-arrival etcd-foreign-passed etcd-one-endpoint
	all_caught etcd-one-lease-for-all etcd-one-token-for-ever
	all_caught etcd-renews-blindly etcd-old-errors-only
	all_caught etcd-foreign-unseen contender-undated request-left etcd-old-is-doubtful renewal-impatient etcd-watch-once
	all_caught etcd-pair-inherited old-kernel-hides-nothing
	all_caught etcd-claim-left etcd-key-left etcd-breaks-the-first etcd-at-least-before-the-grant etcd-token-cut
	all_caught etcd-token-forgets-least etcd-renewed-below-least
}
