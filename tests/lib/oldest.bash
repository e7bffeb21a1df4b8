# The dlock of the oldest release that is still supported (../compat/oldest), beside the one under test:
# `load ../lib/oldest` after helper, then oldest_begin in setup_file.
#
# It is built once, in the folder of the build, of ../compat/oldest.tar.xz: a clone may have no history, a tarball no git.
# OLDEST_DLOCK names one that was built elsewhere, with its dlock-postgres beside it.

# Sets SIDES: a folder with old/dlock and new/dlock.
oldest_begin() {
	export SIDES=$BATS_FILE_TMPDIR/sides
	local program=${OLDEST_DLOCK:-}
	[[ -n $program ]] || program=$(oldest_built) || return
	mkdir -p "$SIDES/old" "$SIDES/new"
	ln -s "$(realpath "$program")" "$SIDES/old/dlock"
	ln -s "$(realpath "$BIN/dlock")" "$SIDES/new/dlock"
}

# as old|new COMMAND...: what it calls dlock is that one.
as() { PATH=$SIDES/$1:$PATH "${@:2}"; }

oldest_commit() { grep -v '^#' "$BATS_TEST_DIRNAME/../compat/oldest"; }

# Prints the program's name.
oldest_built() {
	local top build commit folder
	top=$(realpath "$BATS_TEST_DIRNAME/../..")
	build=$(realpath "${TEST_BIN:-$top/tests/programs}/../..")
	commit=$(oldest_commit)
	folder=$build/oldest/$commit
	if [[ ! -x $folder/made/src/dlock ]]; then
		mkdir -p "$build/oldest"
		# Others may want it at the same time.
		flock "$build/oldest/lock" bash -euc "$(declare -f oldest_build); oldest_build \"\$@\"" \
			bash "$top" "$commit" "$folder" >&2 || return
	fi
	echo "$folder/made/src/dlock"
}

oldest_build() { # TOP COMMIT FOLDER
	[[ ! -x $3/made/src/dlock ]] || return 0
	rm -rf "$3"
	mkdir -p "$3"
	tar -C "$3" -xJf "$1/tests/compat/oldest.tar.xz"
	mkdir "$3/made"
	(
		cd "$3"
		autoreconf -fi
		cd made
		../configure -q --without-tls --without-etcd --without-zookeeper CFLAGS=-O1
		make -s -j2 src/redis/script/script_text.c src/postgres/sql_text.c
		make -s -j2 src/dlock-postgres
		make -s -j2 src/dlock
	) >"$3.log" 2>&1 </dev/null 3>&- 4>&- || {
		tail -n 20 "$3.log"
		return 1
	}
}
