# dlock status --openmetrics, and what it counts.

load ../lib/helper
load ../lib/waiters

setup_file() { file_begin; }
teardown_file() { file_end; }
setup() { test_begin; }
teardown() { test_end; }

# metric NAME [LOCK]: its value.
metric() { dlock status --openmetrics | sed -n "s/^$1{name=\"${2:-x}\"} //p"; }

@test "the format: each family once, typed, counters as totals, an end" {
	try dlock x true
	begin_holder one y -s
	try dlock status --openmetrics
	assert_equal "$status$err" 0
	assert_equal "$(tail -n 1 try.out)" '# EOF'
	assert_equal "$(sed -n 's/^# TYPE //p' try.out | tr '\n' ,)" \
		'dlock_held gauge,dlock_waiters gauge,dlock_ttl_seconds gauge,dlock_last_success_timestamp_seconds gauge,dlock_last_run_duration_seconds gauge,dlock_last_run_exit_code gauge,dlock_acquisitions counter,dlock_contentions counter,dlock_timeouts counter,dlock_losses counter,dlock_waited_seconds counter,dlock_held_seconds counter,'
	python <<-'END'
		import re
		families, samples = {}, set()
		lines = open("try.out").read().splitlines()
		family = None
		for line in lines[:-1]:
		    word = line.split(" ", 3)
		    if line.startswith("# TYPE "):
		        family, kind = word[2], word[3]
		        assert family not in families, line
		        families[family] = kind
		    elif line.startswith("# HELP "):
		        assert word[2] == family and word[3].endswith("."), line
		    else:
		        match = re.fullmatch(r'(\w+)(\{name="[xy]"\}) (\d+(\.\d+)?)', line)
		        assert match, line
		        suffix = "_total" if families[family] == "counter" else ""
		        assert match[1] == family + suffix, line
		        assert match[1] + match[2] not in samples, line
		        samples.add(match[1] + match[2])
		# A free lock has no TTL, one that was never released no last run.
		assert len(samples) == 2 * 12 - 1 - 3, samples
	END
	let_go one
}

@test "gauges: holders, waiters, what is left" {
	begin_holder one x -s -t 30
	begin_holder two x -s -t 60
	start three dlock x true
	wait_until queued x 1
	assert_equal "$(metric dlock_held) $(metric dlock_waiters)" '2 1'
	assert_match "$(metric dlock_ttl_seconds)" '^[345][0-9]\.[0-9]{3}$'
	let_go one
	let_go two
	finish three
	wait_until is_free x
	assert_equal "$(metric dlock_held)$(metric dlock_waiters)$(metric dlock_ttl_seconds)" 00
	cli SET lock:x foreign PX 60000 >/dev/null
	assert_equal "$(metric dlock_held)" 1
	cli DEL lock:x >/dev/null
}

@test "counters: grants, contentions, timeouts, losses, and the time waited and held" {
	try dlock x sleep 0.5
	assert_equal "$(metric dlock_acquisitions_total) $(metric dlock_contentions_total)" '1 0'
	assert_match "$(metric dlock_held_seconds_total)" '^[0-9]\.[0-9]{6}$'
	assert_between "$(metric dlock_held_seconds_total | tr -d . | sed "s,^0*,,")" 500000 9000000 us
	assert_equal "$(metric dlock_waited_seconds_total)" 0.000000

	begin_holder one x
	try dlock -n x true
	try dlock -w 0.3 x true
	start two dlock x true
	wait_until queued x 1
	stays 600 queued x 1
	let_go one
	finish two
	assert_equal "$(metric dlock_acquisitions_total) $(metric dlock_contentions_total) $(metric dlock_timeouts_total)" '3 3 1'
	assert_between "$(metric dlock_waited_seconds_total | tr -d . | sed "s,^0*,,")" 600000 9000000 us

	begin_holder one x -t 3
	cli SET lock:x foreign PX 3000 >/dev/null
	finish one
	assert_equal "$(metric dlock_losses_total)" 1
	wait_until is_free x
}

@test "counting costs no request of its own" {
	try dlock x true
	cli CONFIG RESETSTAT >/dev/null
	try dlock x true
	assert_equal "$(cli INFO commandstats | sed -n 's/^cmdstat_eval[a-z]*:calls=\([0-9]*\),.*/\1/p')" 2
}

@test "any NAME is a label: quotes, backslashes, and what no terminal should get" {
	try dlock 'a "b" \c é' true
	cli SET $'lock:ctl\x01' foreign PX 60000 >/dev/null
	cli SET $'lock:ctl\x02' foreign PX 60000 >/dev/null
	try dlock status --openmetrics
	assert grep -qxF 'dlock_held{name="a \"b\" \\c é"} 0' try.out
	assert grep -qxF 'dlock_held{name="ctl\\x01"} 1' try.out
	assert grep -qxF 'dlock_held{name="ctl\\x02"} 1' try.out
	refute grep -qP '[\x01\x02]' try.out
	cli FLUSHALL >/dev/null
}

@test "a NAME that looks escaped is another than the one that is" {
	try dlock 'n\xff' true
	try dlock 'n\x5cxff' true
	cli SET $'lock:n\xff' foreign PX 60000 >/dev/null
	try dlock status --openmetrics
	"$PYTHON" "$BATS_TEST_DIRNAME/../programs/openmetrics.py" <try.out >told
	assert_equal "$(sed -n 's/dlock_held gauge //p' told)" 3
	assert grep -qxF 'dlock_held{name="n\\xff"} 1' try.out
	assert grep -qxF 'dlock_held{name="n\\x5cxff"} 0' try.out
	cli FLUSHALL >/dev/null
}

@test "counters that somebody wrote are counters all the same" {
	try dlock x true
	local value field
	for value in -7 -9223372036854775808 9223372036854775807 99999999999999999999 1e300 nan 1.5 none; do
		for field in granted contended timeouts lost waited_us held_us; do
			cli HSET "$(meta_of x)" $field $value >/dev/null
		done
		try dlock status --openmetrics
		"$PYTHON" "$BATS_TEST_DIRNAME/../programs/openmetrics.py" <try.out >told
	done
}

@test "patterns, an exit code for one NAME, and not with --json" {
	begin_holder one x
	try dlock y true
	try dlock status --openmetrics 'x*'
	refute grep -q '"y"' try.out
	try dlock status --openmetrics y
	assert_equal "$status" 1
	assert grep -q '^dlock_held{name="y"} 0' try.out
	try dlock status --openmetrics x
	assert_equal "$status" 0
	try dlock status --json --openmetrics
	expect_failure 64 'two forms'
	let_go one
}

# exposition TEXT: what the parser makes of it.
exposition() { printf '%s\n' "$@" | "$PYTHON" "$BATS_TEST_DIRNAME/../programs/openmetrics.py"; }

@test "the grammar: a strict parser takes all of it, and the parser is strict" {
	local metrics="$PYTHON $BATS_TEST_DIRNAME/../programs/openmetrics.py"
	dlock status --openmetrics >empty
	$metrics <empty >told
	assert_equal "$(awk '{ print $3 }' told | sort -u)" 0
	try dlock 'a "b" \c é 中' true
	try dlock x true
	begin_holder one y -s
	begin_holder two y -s
	begin_holder three z
	start four dlock -w 60 z true
	local value n=0
	for value in $'\x01' $'\e[2J' $'\n' $'\t' $'\xff\xfe' $'\u009b' $'\u202e' '"' '\' '\n' '{' '}' ',' '# EOF' "$(printf 'n%.0s' {1..512})"; do
		cli SET "lock:$((n++))$value" foreign PX 60000 >/dev/null
	done
	cli SET lock:forever foreign >/dev/null
	wait_until -t 5 sh -c 'dlock status --openmetrics | grep -qxF "dlock_waiters{name=\"z\"} 1"'
	try dlock status --openmetrics
	$metrics <try.out >told
	assert_equal "$(cut -d' ' -f1,2 told | tr '\n' ,)" 'dlock_held gauge,dlock_waiters gauge,dlock_ttl_seconds gauge,dlock_last_success_timestamp_seconds gauge,dlock_last_run_duration_seconds gauge,dlock_last_run_exit_code gauge,dlock_acquisitions counter,dlock_contentions counter,dlock_timeouts counter,dlock_losses counter,dlock_waited_seconds counter,dlock_held_seconds counter,'
	# As many samples as locks: no two names became one. A lock without an expiry has no TTL.
	assert_equal "$(sed -n 's/dlock_held gauge //p' told)" "$((n + 5))"
	assert_equal "$(sed -n 's/dlock_ttl_seconds gauge //p' told)" "$((n + 2))"

	exposition '# TYPE a gauge' 'a{l="x"} 1' '# EOF'
	refute exposition '# TYPE a gauge' 'a{l="x"} 1'
	refute exposition '# TYPE a gauge' '' 'a{l="x"} 1' '# EOF'
	refute exposition '# TYPE a gauge' 'a{l="x\y"} 1' '# EOF'
	refute exposition '# TYPE a gauge' 'a{l="x"y"} 1' '# EOF'
	refute exposition '# TYPE a gauge' 'a{l="x"}  1' '# EOF'
	refute exposition '# TYPE a counter' 'a{l="x"} 1' '# EOF'
	refute exposition '# TYPE a counter' 'a_total -1' '# EOF'
	refute exposition '# TYPE a gauge' 'a 1,5' '# EOF'
	refute exposition '# TYPE a gauge' 'a 1' 'a 2' '# EOF'
	refute exposition '# TYPE a gauge' 'b 2' '# EOF'
	refute exposition '# TYPE a gauge' 'a 1' '# TYPE b gauge' 'b 1' '# TYPE a gauge' '# EOF'
	refute exposition '# TYPE a gauge' 'a 1' '# EOF' 'a 2'
	kill "$four_pid"
	finish four || true
	cli FLUSHALL >/dev/null
	let_go one || true
	let_go two || true
	let_go three || true
}
