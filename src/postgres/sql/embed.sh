#!/bin/sh
# embed.sh FOLDER turns the SQL files into C (postgres/postgres_session.h). What makes schema and functions is one DO
# block, which is one statement: it is executed as a whole or not at all, one client after the other.
set -eu
cd "$1"

embed() { # NAME, and text on stdin
	printf '\nconst char %s[] =\n' "$1"
	sed -e '/^[[:blank:]]*--/d' -e 's/[[:blank:]]-- .*//' -e '/^$/d' -e 's/[\\"]/\\&/g' -e 's/.*/\t"&\\n"/'
	printf '\t;\n'
}

printf '/* Made by embed.sh. */\n#include "postgres/postgres_session.h"\n'
{
	echo 'DO $dlock$ BEGIN PERFORM pg_catalog.pg_advisory_xact_lock(1684826994, 1);'
	cat schema.sql functions.sql
	echo 'END $dlock$;'
} | embed sql_install
embed sql_settings <settings.sql
embed sql_format <format.sql
embed sql_take <take.sql
embed sql_release <release.sql
