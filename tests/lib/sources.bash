# The sources as users get them, and builds of them in folders of a test's own: `load ../lib/sources`.

builddir=${builddir:-$BATS_TEST_DIRNAME/../..}

# sources_to FOLDER: what `make dist` packs.
sources_to() { quietly_in "$builddir" make -s distdir distdir="$(realpath -m "$1")"; }

# quietly_in FOLDER COMMAND...: says what COMMAND said last only if it fails.
quietly_in() {
	(cd "$1" && "${@:2}") >"$BATS_FILE_TMPDIR/said" 2>&1 </dev/null 3>&- 4>&- || {
		tail -n 30 "$BATS_FILE_TMPDIR/said" >&2
		fail "failed in $1: ${*:2}"
	}
}

# builds SOURCES FOLDER [CONFIGURE OPTION]...: SOURCES by a name that begins at FOLDER. Optimized little: it is soon made.
builds() {
	mkdir -p "$2"
	quietly_in "$2" "$1/configure" -q CFLAGS=-O1 "${@:3}"
	quietly_in "$2" make -s -j2 all
}
