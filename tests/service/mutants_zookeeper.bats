# Mutants (../lib/mutants.bash) of the locks in ZooKeeper.

load ../lib/helper
load ../lib/mutants

@test "locks in ZooKeeper: proofs, fence, descriptors, lost answers, other clients, sessions, TTL" {
	all_caught zookeeper-reads-as-proof zookeeper-fence-of-place zookeeper-socket-inherited
	all_caught zookeeper-create-repeated zookeeper-curator-shared zookeeper-session-left
	all_caught zookeeper-attach-patient zookeeper-leaves-once zookeeper-blind zookeeper-clamped zookeeper-waits-long
	all_caught zookeeper-foreign-undated zookeeper-enters-long zookeeper-waiter-unsuited
	all_caught zookeeper-closes-stale
	all_caught zookeeper-two-connections
}
