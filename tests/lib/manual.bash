# The manuals in man/: their pages, and the displays in them.
#
# A display that is a program has a comment before it, `.\" example: KIND NAME`. The NAME is the only one of that
# KIND in all pages. KIND is sh, sql or crontab; or flock, or before: what it takes the place of.

MANUALS=$BATS_TEST_DIRNAME/../../man

# pages [SECTION]: their files, by name.
pages() {
	find "$MANUALS" -name "*.${1:-[1-9]}" | sort
}

# page COMMAND: the file of the page of `dlock COMMAND`.
page() {
	case $1 in
	run | help | version) echo "$MANUALS/dlock.1" ;;
	renew | release) echo "$MANUALS/dlock-acquire.1" ;;
	*) echo "$MANUALS/dlock-$1.1" ;;
	esac
}

# display NAME [KIND]: prints it as it stands in its page.
display() {
	# shellcheck disable=SC2046 # no blanks there
	awk -v name="$1" -v kind="${2:-}" '
		/^\.\\" example: / { marked = ($4 == name && (kind == "" ? $3 ~ /^(sh|sql|crontab)$/ : $3 == kind)); next }
		/^\.Bd -literal/   { copying = marked; marked = 0; found += copying; next }
		/^\.Ed/            { copying = 0 }
		copying            { print }
		END                { exit found != 1 }' $(pages) || fail "the manuals have no example $1, or two"
}

# example NAME [KIND]: the same, with this test's server.
example() {
	local text
	text=$(display "$@") || fail "$text"
	# Nothing that roff would change, so that it looks like what is pasted from the screen.
	refute grep -qE '\\|~|\^|^[.'\'']' <<<"$text"
	echo "${text//redis:\/\/redis.example.net/redis:\/\/127.0.0.1:$(<"$SERVER/port")}"
}

# run_example NAME: as a script of its own.
run_example() {
	example "$1" >"$1"
	try sh -eu "$1"
}

# stub NAME [TEXT]: a program that an example calls; says how it was called, then does TEXT.
stub() {
	mkdir -p stubs
	printf '#!/bin/sh\necho "%s $*"\n%s\n' "$1" "${2:-}" >"stubs/$1"
	chmod +x "stubs/$1"
	ln -sf "stubs/$1" "$1"
}
