#!/bin/sh
# Turns the scripts into C: embed.sh prelude.lua SCRIPT.lua... > embedded.c
#
# Each script becomes "const struct script script_NAME" (redis/script/script.h): the prelude and the
# script as they are sent, without comments and indentation, and their SHA-1, by which the server
# knows them. Nothing is computed at run time. Each begins with a comment for Dragonfly, which else refuses keys
# that are not declared.
#
# One that says "Stands before OTHER.lua and ANOTHER.lua" becomes script_NAME_OTHER and
# script_NAME_ANOTHER: the prelude, itself, and the other.
#
# A line "--+ FILE.lua" stands for that file. A script that has such a line for the prelude gets no other.
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

# embed NAME FILE...
embed() {
	name=$1
	shift
	sha=$(strip "$@" | sha1sum | cut -c1-40)
	printf '\nstatic const char %s_text[] =\n' "$name"
	strip "$@" | sed -e 's/[\\"]/\\&/g' -e 's/.*/\t"&\\n"/'
	printf '\t;\n\nconst struct script script_%s = {\n' "$name"
	printf '\t.sha = "%s",\n\t.text = %s_text,\n\t.length = sizeof(%s_text) - 1,\n};\n' \
		"$sha" "$name" "$name"
}

prelude=$1
shift
printf '/* Made by embed.sh. */\n#include "redis/script/script.h"\n'
for script; do
	own=$(basename "$script" .lua)
	if grep -q '^--+ prelude.lua$' "$script"; then
		embed "$own" "$script"
		continue
	fi
	others=$(sed -n 's/^-- Stands before \(.*\)\.lua and \(.*\)\.lua.*/\1 \2/p' "$script")
	if [ -z "$others" ]; then
		embed "$own" "$prelude" "$script"
		continue
	fi
	for second; do
		other=$(basename "$second" .lua)
		case " $others " in
		*" $other "*) embed "${own}_$other" "$prelude" "$script" "$second" ;;
		esac
	done
done
