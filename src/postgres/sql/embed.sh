#!/bin/sh
# Turns the SQL files into C: embed.sh FILE.sql... makes sql_install (postgres/sql_text.h). All of it is one
# DO block, which is one statement: it is executed as a whole or not at all, one client after the other.
set -eu

text() {
	echo 'DO $dlock$ BEGIN PERFORM pg_catalog.pg_advisory_xact_lock(1684826994, 1);'
	cat "$@"
	echo 'END $dlock$'
}

printf '/* Made by embed.sh. */\n#include "postgres/sql_text.h"\n\nconst char sql_install[] =\n'
text "$@" | sed -e '/^[[:blank:]]*--/d' -e 's/[[:blank:]]-- .*//' -e '/^$/d' -e 's/[\\"]/\\&/g' -e 's/.*/\t"&\\n"/'
printf '\t;\n'
