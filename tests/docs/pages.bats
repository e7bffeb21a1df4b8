# The manuals as pages: their markup, their links, their length; their options, defaults, exit codes and
# environment against the program's own.

load ../lib/helper
load ../lib/manual

setup_file() { file_begin; }
setup() { test_begin; }
teardown() { test_end; }
teardown_file() { file_end; }

# commands: all that have options.
commands() {
	echo run
	dlock --help | sed -nE '/^Commands/,/^$/{ /^  (help|version) /d; s/^  ([a-z]+) .*/\1/p; }'
}

# options_of COMMAND: the options that its --help lists, one a line.
options_of() {
	dlock "$1" --help | sed -nE '/^Options/,/^$/s/^ +(-.*)/\1/p' | sed 's/  .*//' |
		grep -oE -- '(^|[ ,])--?[[:alpha:]][[:alpha:]-]*' | tr -d ' ,'
}

# described PAGE...: the options that have an entry there, one a line.
described() {
	sed -n 's/^\.It Fl //p' "$@" | sed 's/ , /\n/g' | sed -E 's/^(Fl )?(-?[^ ]+).*/-\2/' | sort -u
}

# screen PAGE: as a terminal of 80 columns shows it.
screen() { mandoc -Tutf8 -O width=78 "$1" 2>/dev/null | sed 's/.\x08//g'; }

@test "mandoc finds nothing to complain about" {
	local one
	for one in $(pages); do
		# Whether another manual is installed here is not ours to say.
		try mandoc -Tlint "$one"
		assert_equal "$(grep -v 'referenced manual not found' try.out || true)" ""
	done
}

@test "groff finds nothing to complain about" {
	local one
	for one in $(pages); do
		try groff -ww -mdoc -Tutf8 "$one"
		assert_equal "$status$err" 0 "$one"
	done
}

@test "a page is named in dlock(1) or dlock(7), in Makefile.am, and names dlock(1)" {
	local one name section
	assert_between "$(pages | wc -l)" 14 30
	for one in $(pages); do
		name=${one##*/} section=${one##*.}
		assert grep -qF "man/$name" "$MANUALS/../Makefile.am"
		[[ $name != dlock.1 ]] || continue
		name=${name%.*}
		assert grep -qE "^\.(Xr|.* Xr) $name $section" "$MANUALS/dlock.1"
		assert grep -qE '^\.(Xr|.* Xr) dlock 1' "$one"
	done
}

@test "a page of ours that another one names is there" {
	local name section
	grep -hoE 'Xr dlock[^ ]* [0-9]' $(pages) | sort -u | while read -r _ name section; do
		[[ -e $MANUALS/$name.$section ]] || fail "there is no $name($section)"
	done
}

@test "a section that a page names is in it" {
	local one title
	for one in $(pages); do
		sed -nE 's/^\.(Pq |Pq see |)Sx ([^.,)]*[^ .,)]).*/\2/p' "$one" | while IFS= read -r title; do
			assert grep -qE "^\.S[hs] $title\$" "$one"
		done
	done
}

@test "every option of a command is in its page, or in dlock(1)" {
	local command
	for command in $(commands); do
		described "$(page "$command")" "$MANUALS/dlock.1" >in_manual
		options_of "$command" | sort -u >in_help
		assert_between "$(wc -l <in_help)" 7 100 "$command"
		assert_equal "$(comm -13 in_manual in_help)" "" "of dlock $command not in the manual"
	done
	assert grep -qx -e --label in_manual
}

@test "dlock(1) has no option but those of run" {
	described "$MANUALS/dlock.1" >in_manual
	options_of run | sort -u >in_help
	# --help has one long name of each option; the manual has them all.
	local option
	for option in $(comm -23 in_manual in_help); do
		try dlock run "$option" 1
		refute_match "$err" "unknown|unrecognized|no such option" "$option"
	done
	try dlock --no-such-option 1
	assert_match "$err" "unknown|unrecognized|no such option"
}

@test "no page describes an option that none of its commands has" {
	local one command
	for one in $(pages 1); do
		: >in_help
		for command in $(commands); do
			[[ $(page "$command") != "$one" ]] || options_of "$command" >>in_help
		done
		[[ ${one##*/} != dlock.1 ]] || continue
		assert_equal "$(described "$one" | comm -23 - <(sort -u in_help))" "" "$one"
	done
}

@test "a long option that a page names is one of dlock" {
	local option command
	for command in $(commands); do
		dlock "$command" --help
	done >help
	sed -nE 's/^\.(It )?Fl -([a-z-]+).*/--\2/p' $(pages) | sort -u >named
	assert_between "$(wc -l <named)" 30 90
	# Other names of those in the table, a configuration's, and flock's.
	grep -vxE -- '--(nb|nonblocking|timeout|fd|fcntl|start|length|pass-stdin)' named >ours
	while read -r option; do
		grep -qE -- "(^| )$option( |\$)" help || fail "dlock has no $option"
	done <ours
}

@test "a default of --help stands at the option in its page, and a value is the same" {
	local command
	for command in $(commands); do
		dlock "$command" --help >help
		python help "$(page "$command")" "$MANUALS/dlock.1" <<-'END'
			import re, sys
			entries = {}
			for page in sys.argv[2:]:
			    for entry in re.split(r"^(?=\.It )", open(page).read(), flags=re.M):
			        head, text = (entry + "\n").split("\n", 1)
			        text = text.split("\n.El")[0]
			        text = re.sub(r"^\.[A-Z][a-z] ", "", text, flags=re.M).replace("\n", " ").replace("\\&", "")
			        for name in re.findall(r"Fl -([a-z-]+)", head):
			            entries.setdefault(name, " ".join(text.split()))
			found = 0
			for name, default in re.findall(r"^ +(?:-\w, )*--([a-z-]+) .*\(default ([^)]*)\)$", open(sys.argv[1]).read(), re.M):
			    found += 1
			    said = re.findall(r"\(default ([^)]*)\)", entries[name])
			    assert len(said) == 1, (name, said)
			    assert " " in default or said[0] == default, (name, said[0], default)
			assert found
		END
	done
}

@test "dlock(1) has 700 lines at most, no other page more" {
	local one
	for one in $(pages); do
		assert_between "$(screen "$one" | wc -l)" 20 700
	done
}

@test "its exit codes are those of the source" {
	local source=$BATS_TEST_DIRNAME/../../src/base/exitcode.h code
	sed -n '/^\.Sh EXIT STATUS/,/^\.Sh EXAMPLES/s/^\.It \([0-9]*\)$/\1/p' "$MANUALS/dlock.1" >codes
	assert_between "$(wc -l <codes)" 12 20
	for code in $(<codes); do
		grep -qE "= $code,|EXIT_BUSY = $code" "$source" || fail "$code is not in exitcode.h"
	done
}

@test "its exit codes are all that there are, its environment all that is read" {
	local one
	for one in $(sed -nE 's/^[[:space:]]*EXIT_[A-Z_]+ = ([1-9][0-9]*),.*/\1/p' "$BATS_TEST_DIRNAME/../../src/base/exitcode.h"); do
		sed -n '/^\.Sh EXIT STATUS/,/^\.Sh EXAMPLES/p' "$MANUALS/dlock.1" | grep -qwE -- "$one" || fail "$one is not in the manual"
	done
	grep -rhoE 'getenv\("[A-Z_]+"\)|"(DLOCK|REDISCLI)_[A-Z]+"' "$BATS_TEST_DIRNAME"/../../src --include=*.c |
		grep -oE '[A-Z]+(_[A-Z]+)*' | sort -u >read
	assert_between "$(wc -l <read)" 12 30
	for one in $(<read); do
		sed -n '/^\.Sh ENVIRONMENT/,/^\.Sh FILES/p' "$MANUALS/dlock.1" | grep -qE "^\.It Ev (.* )?$one( |\$)" ||
			fail "$one is not in the manual"
	done
}

@test "make html: each page, with links to the others of ours that are there" {
	make -s -C "$builddir" html HTML_DIR="$PWD/html" >made 2>&1 || fail "$(<made)"
	local one link
	for one in $(pages); do
		assert grep -q '</html>' "html/${one##*/}.html"
	done
	assert grep -q 'href="dlock-redis.7.html"' html/dlock.1.html
	grep -hoE 'href="[^"#]+' html/*.html | sed 's/href="//; /:/d' | sort -u >links
	assert_between "$(wc -l <links)" 10 40
	while IFS= read -r link; do
		assert test -e "html/$link"
	done <links
}
