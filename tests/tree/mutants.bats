# Mutants (../lib/mutants.bash) of supervision: what keeps, ends and proves a holder.

load ../lib/helper
load ../lib/mutants

@test "the deadline is kept: no kill timer, none in the front, no reserve, counted from the reply" {
	all_caught no-kill-timer no-kill-timer-in-front no-kill-reserve count-from-reply
}

@test "if one dies, the tree goes with it: no keeper, no front, no death signal, child-only kill" {
	all_caught no-keeper no-front no-death-signal child-only-kill killing-once-may-do
	all_caught session-kept ended-for-killed front-unprepared
}

@test "while it waits: front or keeper killed or stopped, and what that leaves; a late grant" {
	all_caught killed-asking-left killed-waiting-left stopped-keeper-left
	all_caught cancelled-keeper-awaited front-gone-unheard stopped-front-served
	all_caught late-grant-used
}

@test "a lock without a process: anybody's token, a fence that stays when it is released by force" {
	all_caught token-of-anybody force-keeps-fence
}

@test "hold: for whom, until when, on whose word, and what it keeps and stops" {
	all_caught hold-for-the-runner hold-for-the-subshell hold-for-the-builder
	all_caught hold-untold hold-kept-untold hold-answers-early
	all_caught hold-keeps-pipes hold-stops-one hold-no-kill hold-no-deadline hold-retries-for-nobody
	all_caught hold-releases-for-a-signal hold-for-the-adopter proc-not-kept
}

@test "how it ends: what COMMAND left, its success, its debugger; a first process; a full table" {
	all_caught told-for-nothing told-and-taken-over debugger-first first-ends-first
	all_caught places-used-once full-is-empty
	stands table-of-64
}

@test "a signal that a process sent to the whole group" {
	all_caught group-unheard
}

@test "inside a holder: guests that the keeper does not wait for, that prove nothing; ended ones" {
	all_caught ended-is-a-holder ended-unmarked guest-unwaited guest-unproved guest-unheard guest-page-unread
	all_caught guest-after-release release-asked-before-guests guest-anywhere guest-in-any-mode guest-in-front-alone guest-leaves-unseen
}

@test "several locks: what a keeper that was killed between two releases had" {
	all_caught also-released-once
}

@test "its surroundings: log, stderr, /proc, descriptors, threads, guardians, strangers" {
	all_caught log-waits stderr-waits proc-unseen groups-hide-the-pids no-room lingers-alone
	all_caught keeper-believed thread-or-nothing strangers-killed takeover-forgets-why stop-asked-in-passing
}

@test "who is who: sandboxes alike, the bell of any sandbox; release without end" {
	all_caught sandboxes-alike bell-of-any-sandbox release-without-end
}

@test "a host that stands still: front, step or attempt call time too early; no time waited" {
	all_caught stalls-end-asking stalls-end-steps stalls-end-attempts waited-for-nothing
}
