# What is written for those who change dlock: HACKING.md, the folders' README.md, comments.

load ../lib/helper

setup_file() { programs_begin; }
setup() {
	environment_begin
	TOP=$(realpath "$BATS_TEST_DIRNAME/../..")
}
teardown() { environment_end true; }

@test "HACKING.md has 200 lines at most, and each of its links leads to a file" {
	local target
	assert_between "$(wc -l <"$TOP/HACKING.md")" 50 200
	grep -oE '\]\([^)#:]+\)' "$TOP/HACKING.md" | tr -d '()]' >links
	assert_between "$(wc -l <links)" 8 50
	while read -r target; do
		assert test -e "$TOP/$target"
	done <links
}

@test "the README.md of each folder is linked in HACKING.md" {
	local file
	(cd "$TOP" && find src -name README.md) >there
	assert_between "$(wc -l <there)" 8 30
	while read -r file; do
		assert grep -qF "($file)" "$TOP/HACKING.md"
	done <there
}

@test "no comment and no document names a paper that is not in the tree" {
	local name
	cd "$TOP"
	grep -rohE '\b[A-Za-z_-]+\.md\b' --include='*.[ch]' --include='*.lua' --include='*.md' --include='*.bash' \
		--include='*.bats' src tests docs HACKING.md README.md | sort -u |
		while read -r name; do
			find . -name "$name" -not -path './build*' | grep -q . || fail "$name is not there"
		done
}

@test "sentences: one whose subject has no noun is an error, with its place" {
	mkdir -p src/base
	printf '%s\n' '/* One line of text. The others come later, and' ' * it is here.' ' */' 'int a; // a lock. It has a noun.' \
		'char *b = "/* That is no comment. */";' >src/base/b.c
	try "$TOP/tests/sentences" src
	expect 0
	sed -i 's/The others/Those/' src/base/b.c
	echo '/* None. What is left goes on. */' >>src/base/b.c
	try "$TOP/tests/sentences" src
	assert_equal "$status" 1
	assert_match "$out" 'src/base/b.c:1: Those come later, and it is here'
	assert_match "$out" 'src/base/b.c:6: None'
	assert_match "$out" 'src/base/b.c:6: What is left'
}
