# Mutants (../lib/mutants.bash) of the rest; and whether each mutant is run at all.

load ../lib/helper
load ../lib/mutants

@test "the holder: set again always, never; released by any; wall clock; passwords; foreigners" {
	all_caught set-again-always set-again-never release-always wall-clock password-for-ever empty-is-nobody name-forgotten
}

@test "a quorum: confirmations, a token of one, counted from the reply, the reachable, stragglers" {
	all_caught quorum-confirms-unowned quorum-token-of-one quorum-counts-from-reply
	all_caught quorum-of-the-reachable quorum-forgets-stragglers quorum-leaves-the-slow
	all_caught quorum-leave-awaits-all quorum-hashes-its-last-word quorum-second-only
	all_caught quorum-counts-twins quorum-forgets-the-late quorum-unconfirmed-is-left
}

@test "which server: a replica is believed or refuses for good, no ASKING, endless redirects" {
	all_caught sentinel-believes cluster-goes-unasked
	all_caught cluster-goes-in-circles check-looks-for-ever readonly-is-final
}

@test "waiting: readers overtake, no pause, the front connects, ancestors too soon and never" {
	all_caught readers-overtake redis-slow-is-dead foreign-spins seconds-only-unheard front-connects
	all_caught ancestors-at-once ancestors-unseen
	all_caught circle-first-leaves circle-with-the-dead circle-under-one-prefix
}

@test "what a waiter hears: a server that is lost, and is back; the holder at the end of -w" {
	all_caught contact-lost-unsaid contact-lost-again contact-made-unsaid contact-lost-is-busy
	all_caught busy-names-the-first busy-undated
}

@test "a grant that is lost: left by -n, counted for --at-least; --at-least is not sent at once" {
	all_caught late-release-forgotten acquire-leaves-nobody
	all_caught at-least-before-the-grant at-least-in-its-time command-told-late
}

@test "several locks: not given back for a killed keeper, or by old tokens" {
	all_caught also-unguarded also-guards-old-tokens
}

@test "several locks: past a busy one, under nothing, any success, connections, unheard, in time" {
	all_caught also-past-a-busy-one also-waits-under-nothing also-any-success
	all_caught also-a-connection-each also-unheard-forgotten also-one-time-for-all
	all_caught also-renewed-at-once-or-never also-silent-for-each
}

@test "status: one lock at a time, a slow line is given up, an error ends it" {
	all_caught status-one-by-one status-gives-up status-stops-at-an-error
}

@test "a server that has just started gives its lock, or is busy for -n" {
	all_caught settle-in-words-only settle-not-for-n
}

@test "a waiter of a quorum that leaves by TLS: what is kept back, and unasked" {
	all_caught leave-kept-back places-kept-unasked
}

@test "every mutant is in one of these tests" {
	local one named
	named=" $(sed -nE 's/^	(all_caught|stands) //p' "$BATS_TEST_DIRNAME"/../*/mutants*.bats | paste -sd ' ') "
	for one in "$BATS_TEST_DIRNAME"/../mutants/*; do
		[[ $named == *" ${one##*/} "* ]] || fail "${one##*/} is in none"
	done
}

@test "every mutant names one test, by the beginning of its title, and lines that are there once" {
	"$PYTHON" - "$BATS_TEST_DIRNAME/.." >"$BATS_TEST_TMPDIR/wrong" <<-'END'
		import glob, os, re, sys
		os.chdir(sys.argv[1])
		mutating = {}
		exec(open("mutant").read().removesuffix("main()\n"), mutating)
		titles = lambda file: re.findall(r"^@test ([\"'])(.*)\1 \{", open(file).read(), re.M)
		for mutant in glob.glob("mutants/*"):
		    file, name = re.search(r"^test (\S+) (.*)$", open(mutant).read(), re.M).groups()
		    found = [title for _, title in titles(file) if re.match(re.sub("[()]", ".", name), title)]
		    if len(found) != 1:
		        print(f"{mutant}: {len(found)} tests in {file} begin with {name}")
		    try:
		        mutating["changed"]("..", open(mutant).read())
		    except SystemExit as end:
		        print(f"{mutant}: {end}")
	END
	assert_equal "$(<"$BATS_TEST_TMPDIR/wrong")" ''
}
