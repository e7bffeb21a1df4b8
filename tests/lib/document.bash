# README.md and docs/guide.md: what they show, run. `load ../lib/helper`, then `load ../lib/document`; DOCUMENT is the
# file. A display is a block between lines of ```, and its first word says what it is:
#
#   ```console        sessions with their output (programs/sessions.py)
#   ```sh NAME        a script; ```crontab NAME a table for cron: the test of that name runs it

# shown KIND [NAME]: prints the one block of that kind, with the private server in the place of redis.example.net.
shown() {
	local text
	text=$(awk -v head="\`\`\`$1${2:+ $2}" '
		$0 == head { copying = 1; found++; next }
		/^```/     { copying = 0 }
		copying    { print }
		END        { exit found != 1 }' "$DOCUMENT") || fail "no block $*, or two"
	echo "${text//redis:\/\/redis.example.net/$DLOCK_SERVER}"
}

# run_sessions [OLD=NEW]...
run_sessions() {
	try env PYTHONDONTWRITEBYTECODE=1 "$PYTHON" "$BATS_TEST_DIRNAME/../programs/sessions.py" "$DOCUMENT" "$@"
	[[ $status == 0 ]] || fail "$err"
	assert_match "$out" '^[1-9][0-9]* lines typed$'
}

# stub NAME [TEXT]: a program that a display calls, by PATH or as ./NAME; says how it was called, then does TEXT.
stub() {
	mkdir -p stubs
	printf '#!/bin/sh\necho "%s $*"\n%s\n' "$1" "${2:-}" >"stubs/$1"
	chmod +x "stubs/$1"
	ln -sf "stubs/$1" "$1"
	[[ $PATH == "$PWD/stubs:"* ]] || PATH=$PWD/stubs:$PATH
}

# cron_job N: the Nth job of the table in the file `crontab`, as a script ./job: its settings, and what cron gives to sh.
cron_job() {
	sed -nE 's/^([A-Z_]+=.*)/export \1/p' crontab >job
	grep -E '^[0-9*]' crontab | sed -n "$1p" | sed -E 's/^([^ ]+ +){5}//; s/\\%/%/g' >>job
	assert_equal "$(grep -c dlock job)" 1
}

# every_block_is_run: each block that is no session is named in the test file.
every_block_is_run() {
	local kind name
	sed -n 's/^```\(..*\)/\1/p' "$DOCUMENT" >blocks
	assert_equal $(($(grep -c '^```' "$DOCUMENT") / 2)) "$(wc -l <blocks)" 'blocks with a kind'
	while read -r kind name; do
		[[ $kind == console ]] ||
			grep -qE "^	(try |)shown $kind${name:+ $name}( |\$)" "$BATS_TEST_FILENAME" || fail "$kind $name is not run"
	done <blocks
}

# every_link_leads: to a file of the tree.
every_link_leads() {
	local target
	grep -oE '\]\([^)#:]+\)' "$DOCUMENT" | tr -d '()]' | sort -u >links
	while read -r target; do
		assert test -e "$(dirname "$DOCUMENT")/$target"
	done <links
}
