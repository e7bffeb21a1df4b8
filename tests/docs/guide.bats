# docs/guide.md: each display, run; its tables, against the program and the source.

load ../lib/helper
load ../lib/document

setup_file() {
	file_begin
	export DOCUMENT=$BATS_TEST_DIRNAME/../../docs/guide.md
}
setup() { test_begin; }
teardown() { test_end; }
teardown_file() { file_end; }

# table HEADING: the rows of the table whose first line begins so, without those of its head.
table() {
	awk -v head="| $1" 'index($0, head) == 1 { inside = 1; next } !/^\|/ { inside = 0 } inside && !/^\| ---/' "$DOCUMENT" >rows
	[[ -s rows ]] || fail "no table $1"
}

@test "the tutorial, in a folder" {
	run_sessions "file:=file://$PWD/locks"
}

@test "the tutorial, with a server" {
	echo 'ttl = 3s' >>config/dlock.conf # so that the broken lock is seen soon
	run_sessions "file:=$DLOCK_SERVER"
}

# ---- Recipes -------------------------------------------------------------------------------------

@test "jobs for cron" {
	shown crontab jobs | sed "s#-S file:#&$PWD/locks#" >crontab
	local name
	for name in backup poll import collect; do
		stub $name
	done
	for name in 1 2 3 4; do
		cron_job $name
		try sh job
		assert_equal "$status$err" 0
		echo "$out" >>called
		# Each other host, or the next hour, passes it over, but for the last, which is free again.
		try sh job
		[[ $name == 4 ]] || expect 0
	done
	assert_file called $'backup --all\npoll \nimport \ncollect '
	cli FLUSHALL >/dev/null
}

@test "one after the other" {
	stub upgrade 'mkdir here || echo overlap; sleep 0.2; rmdir here'
	shown sh turns >script
	local host
	for host in a b c; do
		start "$host" sh script
	done
	for host in a b c; do
		finish "$host"
		assert_equal "$status $out $err" '0 upgrade  '
	done
}

@test "a busy lock and a failed command" {
	shown sh apart >script
	stub import
	try sh script
	expect 0 $'import \nimported'
	stub import 'exit 1'
	try sh script
	expect 0 $'import \nthe import failed'
	begin_holder other import
	try sh script
	assert_equal "$status $out" '0 another host imports just now'
	let_go other
}

@test "shell syntax" {
	stub report
	shown sh syntax >script
	try sh script
	expect 0
	assert_file report.txt 'report '
}

@test "a script that locks itself" {
	shown sh itself >script
	try sh script a b
	expect 0 'nightly, with a b'
	begin_holder other nightly
	try sh script
	expect_failure 1 'busy: held by'
	let_go other
}

@test "a pipeline" {
	stub migrate 'dlock -nq staging true || echo busy'
	shown sh pipeline >script
	CI_JOB_ID=4711 try sh script
	expect 0 $'migrate \nbusy'
	assert is_free staging
}

@test "two locks" {
	stub close-the-day 'dlock status -q stock && dlock status -q orders && dlock status -q accounts && echo all'
	shown sh both >script
	try sh script
	expect 0 $'close-the-day \nall'
}

@test "a limit of rate" {
	stub call 'echo "$DLOCK_FENCE" >>calls'
	shown sh rate >script
	local i
	for i in {1..6}; do
		try sh script
		expect 0 'call '
	done
	# Fences are the moments of the grants, in us.
	(($(sed -n 6p calls) - $(sed -n 1p calls) > 999000)) || fail "$(<calls)"
	wait_until is_free api
}

@test "an alarm" {
	stub alarm
	shown sh alarm >script
	try sh script
	assert_equal "$status $out" '0 alarm '
	dlock backup true
	try sh script
	expect 0
}

@test "the resource's side" {
	stub ssh 'shift; exec "$@"'
	stub publish
	shown sh publish >script
	try sh script
	assert_equal "$status$err" 0
	assert_match "$out" $'guard --fence [0-9]{16} site.fence ./publish\npublish $'
	try dlock guard --fence 1 site.fence ./publish
	expect_failure 82 'site.fence'
}

# ---- Tables --------------------------------------------------------------------------------------

@test "every display is run here, and every link leads to a file" {
	every_block_is_run
	every_link_leads
}

@test "which form and which service has which option is what --help and service_table say" {
	local form column option answer row i
	table 'option | run'
	assert_between "$(wc -l <rows)" 12 20
	for form in run hold acquire; do
		dlock $form --help >"$form.help"
	done
	local forms=(run hold acquire) services=(redis quorum file postgres etcd zookeeper)
	while IFS='|' read -r _ option answers; do
		option=$(tr -d ' `' <<<"$option")
		IFS=' |' read -r -a row <<<"$answers"
		assert_equal "${#row[@]}" 9 "$option"
		for i in 0 1 2; do
			answer=-
			! grep -qE -- "(^|[ ,])$option( |,|\$)" "${forms[i]}.help" || answer=yes
			assert_equal "${row[i]}" "$answer" "$option of ${forms[i]}"
		done
		for i in 0 1 2 3 4 5; do
			answer=$(awk -v option="$option" -v n="$i" \
				'$3 ~ "^" option "[=:]" { print $(4 + n); exit }' "$BATS_TEST_DIRNAME/../lib/service_table")
			answer=${answer/64/-}
			assert_equal "${row[3 + i]}" "${answer:-yes}" "$option with ${services[i]}"
		done
	done <rows
	answer=$(awk 'BEGIN { split("redis quorum file postgres etcd zookeeper", name) }
		$1 == "by-token" { for (i = 1; i <= 6; i++) if ($(3 + i) == "yes") print name[i] }' \
		"$BATS_TEST_DIRNAME/../lib/service_table" | paste -sd' ')
	assert_equal "$(sed -n 's/^`acquire` itself is there with \(.*\)\.$/\1/p' "$DOCUMENT" | sed 's/,//g; s/ and / /')" "$answer"
}

@test "every message in the table is one of the program's" {
	local text part
	cat $(find "$BATS_TEST_DIRNAME/../../src" -name '*.[ch]') | tr -d '\n\t' | sed 's/""//g' >source
	table message
	assert_between "$(wc -l <rows)" 15 60
	sed -nE 's/^\| `([^`]*)`.*/\1/p' rows >messages
	assert_equal "$(LC_ALL=C sort messages)" "$(<messages)" 'in the order of the alphabet'
	while IFS= read -r text; do
		# What stands in the place of the three points, of URL and between brackets differs.
		sed -E "s/ ?\(?'?(\.\.\.|URL)'?\)?/\n/g; s/: $//" <<<"$text" | grep -E '[a-z]{4}' | sed -E 's/^[: ]+//; s/[: ]+$//' |
			while IFS= read -r part; do
				part=${part#busy: held by} # put together from two
				grep -qF -- "${part# }" source || fail "no message: $part"
			done || return 1
	done <messages
}

@test "its exit codes are those of the source, and no other" {
	table code
	sed -E 's/^\| ([0-9]+) .*/\1/' rows >shown
	sed -nE 's/^[[:space:]]*EXIT_[A-Z_]+ = ([1-9][0-9]*),.*/\1/p' "$BATS_TEST_DIRNAME/../../src/base/exitcode.h" |
		grep -vx 128 >codes
	assert_equal "$(<shown)" "$(<codes)"
}

@test "its words have every field of the JSON that dlock prints" {
	local field
	begin_holder one x
	start two dlock x true
	wait_until eval '[[ $(dlock status --json x) == *waited_ms* ]]'
	dlock status --json >json
	let_go one
	finish two
	dlock --report report x true
	dlock status --json x >>json || true # it is free
	dlock check --json >>json || true
	cat report >>json
	grep -oE '"[a-z_]+":' json | tr -d '":' | sort -u >fields
	assert_between "$(wc -l <fields)" 25 60
	sed -n '/^## Words/,$p' "$DOCUMENT" >words
	while read -r field; do
		grep -qF "\`$field\`" words || fail "$field is not among the words"
	done <fields
}
