# docs/verification.md against the tree: what it names of the promises is there, and it names all that is promised.

load ../lib/helper

setup() {
	cd "$BATS_TEST_DIRNAME/../.." || return
	page=docs/verification.md
}

# titles: FILE and TITLE of each test that the page names, a tab between.
titles() { grep -oE '`tests/[a-z_/]+\.bats` "[^"]+"' "$page" | sed -E 's/^`([^`]+)` "(.*)"$/\1\t\2/'; }

# named WORD: what stands in backquotes in the entries that begin with WORD, and in the last column of the tables of it.
named() {
	awk -v word="- $1:" 'index($0, word) == 1 { inside = 1 } !/^  / && index($0, word) != 1 { inside = 0 } inside' "$page" |
		grep -oE '`[^`]+`' | tr -d '`'
}

# mutants: each that the page names.
mutants() {
	named Mutants
	awk -F '|' '/^\|.*tests\/.*\.bats/ { print $(NF - 1) }' "$page" | grep -oE '`[^`]+`' | tr -d '`'
}

@test "verification: each test that it names is there, under that title" {
	local file title
	assert test "$(titles | wc -l)" -gt 150
	while IFS=$'\t' read -r file title; do
		assert grep -qF "@test \"$title\" {" "$file"
	done < <(titles)
}

@test "verification: each mutant that it names is there" {
	local one
	assert test "$(mutants | wc -l)" -gt 150
	for one in $(mutants); do
		assert test -f "tests/mutants/$one"
	done
}

@test "verification: each row of a model that it names is in the models' table" {
	local row
	assert test "$(named Model | wc -l)" -gt 20
	while read -r row; do
		assert grep -qxF "$row" <(awk '!/^#/ && NF { $2 = $3 = ""; print }' docs/model/table | tr -s ' ')
	done < <(named Model)
}

@test "verification: each guarantee of dlock(7) and each exit code of dlock(1) stands in it" {
	local one
	while read -r one; do
		assert grep -qxF "### $one" "$page"
	done < <(sed -n '/^\.Sh GUARANTEES/,/^\.El/s/^\.It \(\\&\)\?//p' man/dlock.7)
	for one in $(sed -n '/^\.Sh EXIT STATUS/,/^\.Sh EXAMPLES/s/^\.It //p' man/dlock.1); do
		assert grep -qE "^\| $one(,| |\$)" "$page"
	done
}
