# From sorted lines "BEGIN END" in ns: total, median and 99th percentile of the gaps between one's
# end and the next one's begin, in ms. Fails when two overlap: then there was no lock.
function at(part) {
	return gap[int(part * (n - 1)) + 1] / 1e6
}

NR > 1 {
	if ($1 < end) {
		print "two commands overlap by " end - $1 " ns" >"/dev/stderr"
		overlap = 1
	}
	# insertion into the sorted gaps: there are few hundred
	value = $1 - end
	for (i = n++; i > 0 && gap[i] > value; i--)
		gap[i + 1] = gap[i]
	gap[i + 1] = value
}

{ end = $2 }

END {
	if (NR != runs) {
		print NR " commands ran, not " runs >"/dev/stderr"
		exit 1
	}
	if (overlap)
		exit 1
	printf "%.0f %.3f %.3f\n", total, at(0.5), at(0.99)
}
