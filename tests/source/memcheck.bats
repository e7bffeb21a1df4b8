# Under valgrind: the unit tests, and each fuzzer over its corpus. No error, and no block that nothing points to.

load ../lib/helper

setup_file() { export BATS_TEST_TIMEOUT=$((300 * TEST_PATIENCE)); }

setup() {
	export LC_ALL=C.UTF-8
	PROGRAMS=${builddir:-$BATS_TEST_DIRNAME/../..}/tests
	grep -qE '__(asan|tsan)_init' "${DLOCK:-$PROGRAMS/../src/dlock}" && left_out 'a sanitizer is in the way of valgrind'
	cd "$BATS_TEST_TMPDIR"
	# waitid(2) takes NULL if the caller does not want to know which process it was.
	printf '{\n\tnull\n\tMemcheck:Param\n\twaitid(infop)\n\t...\n\tfun:waitid\n}\n' >suppressed
}

# clean PROGRAM [ARG]...
clean() {
	try valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite \
		--errors-for-leak-kinds=definite --suppressions=suppressed "$@"
	[[ $status == 0 ]] || fail "$1: status $status" "$(head -c 4000 try.err)"
}

@test "unit tests: no error, no leak" {
	local program
	for program in "$BATS_TEST_DIRNAME"/../unit/*_test.c; do
		clean "$PROGRAMS/unit/$(basename "$program" .c)"
	done
}

# fuzz NAME...
fuzz() {
	"$BATS_TEST_DIRNAME/../fuzz/pack" -x corpus "$@"
	local name files
	for name; do
		files=("corpus/$name"/*)
		clean "$PROGRAMS/fuzz/fuzz_$name" 0 "${files[@]}"
		assert_equal "$err" "${#files[@]} files, 0 changed"
	done
}

@test "fuzzers over their corpora: no error, no leak" {
	local names
	names=$(cd "$BATS_TEST_DIRNAME/../fuzz/corpus" && ls -I servers -I tls)
	fuzz $names
}

@test "fuzzers of whole servers over their corpora: no error, no leak" { fuzz servers; }

@test "fuzzers behind TLS over their corpora: no error, no leak" { fuzz tls; }

@test "a program that reads too far, or leaves a block behind, is found" {
	cat >bad.c <<-'END'
		#include <stdlib.h>
		int main(int argc, char **argv)
		{
			volatile char *block = malloc(8);
			if (argc > 1)
				return block[8] == 1;
			block = NULL;
			return argv == NULL;
		}
	END
	cc -g -o bad bad.c
	run -1 clean ./bad beyond
	assert_match "$output" 'status 99.*Invalid read'
	run -1 clean ./bad
	assert_match "$output" 'status 99.*definitely lost'
}
