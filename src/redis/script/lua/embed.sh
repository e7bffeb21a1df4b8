#!/bin/sh
# Turns the scripts into C: embed.sh prelude.lua SCRIPT.lua... > embedded.c
#
# Each script becomes "const struct script script_NAME" (redis/script/script.h): the prelude and the
# script as they are sent, without comments and indentation, and their SHA-1, by which the server
# knows them. Nothing is computed at run time. Each begins with a comment for Dragonfly, which else refuses keys
# that are not declared.
#
# A line "--+ FILE.lua" stands for that file.
#
# embed.sh -t FILE.lua... prints what is sent: these files, one after the other.
set -eu

# A comment has a line of its own: "--" inside a string stays.
strip() {
	echo '--!df flags=allow-undeclared-keys'
	awk -v folder="$(dirname "$1")" '
		function put(line, file) {
			if (!sub(/^--[+] /, "", line)) {
				print line
				return
			}
			file = folder "/" line
			while ((getline line < file) > 0)
				put(line)
			close(file)
		}
		{ put($0) }' "$@" | sed -e 's/^[[:blank:]]*//' -e '/^--/d' -e '/^$/d'
}

if [ "$1" = -t ]; then
	shift
	strip "$@"
	exit
fi

prelude=$1
shift
printf '/* Made by embed.sh. */\n#include "redis/script/script.h"\n'
for script; do
	name=$(basename "$script" .lua)
	sha=$(strip "$prelude" "$script" | sha1sum | cut -c1-40)
	printf '\nstatic const char %s_text[] =\n' "$name"
	strip "$prelude" "$script" | sed -e 's/[\\"]/\\&/g' -e 's/.*/\t"&\\n"/'
	printf '\t;\n\nconst struct script script_%s = {\n' "$name"
	printf '\t.sha = "%s",\n\t.text = %s_text,\n};\n' "$sha" "$name"
done
