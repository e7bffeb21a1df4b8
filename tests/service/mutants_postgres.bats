# Mutants (../lib/mutants.bash) of the locks in PostgreSQL.

load ../lib/helper
load ../lib/mutants
load ../lib/postgres

eval "usual_$(declare -f setup_file)"
setup_file() {
	usual_setup_file
	! build_lacks postgres || return 0
	local programs made
	programs=$(database_programs)
	made=$(mktemp -d /tmp/dlock-database-XXXXXX) # where the server's user may write
	database_make "$made"
	mv "$made" "$BATS_FILE_TMPDIR/made"
	export DATABASE_TEMPLATE=$BATS_FILE_TMPDIR/made/data
}

@test "locks in PostgreSQL: session, settings, a pooler, advisory locks, the rows of others" {
	all_caught pg-session-unnumbered pg-role-decides pg-pooler-taken
	all_caught pg-taken-from-holder pg-left-with-waiters pg-free-beside-readers
	all_caught pg-pooler-lends-lock pg-forgetful-grant pg-stopped-in-a-row pg-take-without-end pg-name-forgotten
	all_caught pg-advisory-left pg-advisory-counted pg-advisory-once pg-claims-ignored program-shows-password pg-kept-is-around
}

@test "locks in PostgreSQL: force, claims, names, odd answers, what is forgotten, told, printed" {
	all_caught pg-force-forgives pg-force-breaks-claims pg-encoding-of-the-client pg-nonsense-renews
	all_caught pg-forgets-nothing pg-forgets-half pg-forgets-holders pg-forgets-plain pg-release-in-memory pg-release-once
	all_caught pg-held-backwards pg-rights-unprinted pg-cooldown-from-the-end pg-slots-alike
	all_caught pg-kept-untold pg-share-untold pg-broken-share-untold pg-token-forgets-least pg-renewed-no-shorter
}
