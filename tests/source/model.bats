# The protocol as Spin models: what must hold holds, and what is left out on purpose is missed.

load ../lib/helper

setup() {
	export LC_ALL=C.UTF-8
	MODEL=$BATS_TEST_DIRNAME/../../docs/model
	cd "$BATS_TEST_TMPDIR"
}

@test "Spin finds in the models what their table says" {
	try "$MODEL/run" short
	assert_equal "$status $err" "0 "
	assert_equal "$(wc -l <<<"$out")" "$(grep -c ' short ' "$MODEL/table")"
}

@test "a verdict that is not the table's fails" {
	cp -r "$MODEL" broken
	sed -i '/^#/d; / short holds/!d; s/holds /alone /' broken/table
	assert test -s broken/table
	sed -i 1q broken/table
	try broken/run short
	assert_equal "$status" 1
	assert_match "$out" 'should be: alone'
}

@test "each switch of a model is used in the table, and each of the table's is known" {
	local model switch
	for model in "$MODEL"/*.pml; do
		sed -n 's/^ \*   *\([A-Z_0-9]*\)  .*/\1/p' "$model" | sort -u >said
		grep "^$(basename "$model" .pml) " "$MODEL/table" | tr -s ' ' '\n' | sed -n 's/^\([A-Z][A-Z_0-9]*\).*/\1/p' |
			sort -u >used
		assert_equal "$(comm -23 said used)" "" "switches of $model that no row uses"
		for switch in $(<used); do
			assert grep -qw "$switch" "$model"
		done
	done
}
