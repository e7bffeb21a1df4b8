#!/bin/sh
# Turns the scripts into C: embed.sh prelude.lua SCRIPT.lua... > embedded.c
# a.lua+b.lua is one script, a_b, that is made of both.
#
# Each script becomes "const struct script script_NAME" (redis/script.h): the prelude and the
# script as they are sent, without comments and indentation, and their SHA-1, by which the server
# knows them. Nothing is computed at run time.
set -eu

prelude=$1
shift

# A comment has a line of its own: "--" inside a string stays.
strip() {
	sed -e 's/^[[:blank:]]*//' -e '/^--/d' -e '/^$/d' "$@"
}

printf '/* Made by embed.sh. */\n#include "redis/script.h"\n'
for script; do
	parts=$(echo "$script" | tr + ' ')
	name=$(basename -s .lua $parts | paste -sd_ -)
	sha=$(strip "$prelude" $parts | sha1sum | cut -c1-40)
	printf '\nstatic const char %s_text[] =\n' "$name"
	strip "$prelude" $parts | sed -e 's/[\\"]/\\&/g' -e 's/.*/\t"&\\n"/'
	printf '\t;\n\nconst struct script script_%s = {\n' "$name"
	printf '\t.sha = "%s",\n\t.text = %s_text,\n\t.length = sizeof(%s_text) - 1,\n};\n' \
		"$sha" "$name" "$name"
done
