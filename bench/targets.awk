# Holds the figures against the targets, each by its least value: noise only ever adds.
#	-v part=NAME	that part's, those marked "check"; says which are missed; exit 1 if any
#	-v there=NAMES	the contestants that are there, in lines; what is wanted of others is passed over
#	-v report=1	a list of all that were measured
BEGIN { FS = "\t" }

/^#/ { next }

FNR == NR {
	targets[++count] = $0
	next
}

{
	key = $1 FS $2 FS $3
	if (!(key in least) || $4 + 0 < least[key] + 0)
		least[key] = $4
}

function verdict(key, limit) {
	if (!(key in least))
		return "not measured"
	return least[key] + 0 <= limit + 0 ? "met" : "missed"
}

END {
	for (i = 1; i <= count; i++) {
		split(targets[i], f, FS)
		key = f[1] FS f[2] FS f[3]
		result = verdict(key, f[4])
		if (report && result != "not measured" && !shown++)
			print "\n## Targets\n\n| target | at most | measured | |\n| --- | --- | --- | --- |"
		if (report && result != "not measured")
			printf "| %s | %s | %s | %s |\n", f[6], f[4], least[key], result
		if (f[1] != part || f[5] != "check")
			continue
		if (result == "not measured" && f[2] ~ /^(dlock-|shared)/ && index("\n" there "\n", "\n" f[2] "\n") == 0) {
			printf "%s: left out, as %s is not there\n", f[6], f[2]
			continue
		}
		printf "%s: %s (at most %s): %s\n", f[6], least[key], f[4], result
		failed = failed || result != "met"
	}
	exit failed
}
