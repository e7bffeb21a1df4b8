# contestants, columns, figures -> an SVG: a row for each contestant, a cell for each fault, the redder the more of
# its tries ended with commands that overlapped.
BEGIN {
	FS = "\t"
	left = 190
	cell = 84
	top = 92
	step = 28
}

/^#/ { next }

FILENAME == ARGV[1] {
	label[$1] = $2
	row[++rows] = $1
	next
}

FILENAME == ARGV[2] {
	if ($1 == "faults" && $2 != "-" && $2 != "grants") {
		metric[++columns] = $2
		title[$2] = $3
	}
	next
}

$1 == "faults" {
	value[$2, $3] = $4
	shown[$2] = 1
}

function text(x, y, style, words) {
	printf "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, style, words
}

# The heading of column i, in lines of at most 14 letters.
function draw_title(i,    n, words, j, line, y) {
	n = split(title[metric[i]], words, " ")
	y = top - 74
	line = ""
	for (j = 1; j <= n + 1; j++)
		if (j > n || length(line) + length(words[j]) > 13) {
			text(left + (i - 0.5) * cell, y, "class=\"tick\" text-anchor=\"middle\"", line)
			y += 12
			line = words[j]
		} else
			line = line (line == "" ? "" : " ") words[j]
}

# How bad: 0 to 1; -1 if it was not tried. Figures per 1,000 are as bad as can be from 100 on.
function badness(v,    of) {
	if (v == "" || v == "–" || v == "none")
		return -1
	if (split(v, of, " of ") == 2)
		return of[2] > 0 ? of[1] / of[2] : -1
	return v >= 100 ? 1 : v / 100
}

function colour(bad) {
	if (bad < 0)
		return "#eee"
	return bad == 0 ? "#d5ead8" : sprintf("rgb(%d,%d,%d)", 250 - 50 * bad, 200 - 145 * bad, 185 - 140 * bad)
}

END {
	for (i = 1; i <= rows; i++)
		tall += row[i] in shown
	total = left + columns * cell + 10
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n", \
		total, top + tall * step + 10, total, top + tall * step + 10
	print "<style>text{font:13px sans-serif;fill:#333}.tick{font-size:11px;fill:#555}.ours{font-weight:bold}</style>"
	print "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
	for (i = 1; i <= columns; i++)
		draw_title(i)
	for (i = 1; i <= rows; i++) {
		if (!(row[i] in shown))
			continue
		y = top + n++ * step
		text(left - 12, y + 18, "text-anchor=\"end\"" (row[i] ~ /^dlock/ ? " class=\"ours\"" : ""), label[row[i]])
		for (j = 1; j <= columns; j++) {
			v = value[row[i], metric[j]]
			printf "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", \
				left + (j - 1) * cell + 1, y + 1, cell - 2, step - 2, colour(badness(v))
			text(left + (j - 0.5) * cell, y + 18, "text-anchor=\"middle\"", v == "" ? "–" : v)
		}
	}
	print "</svg>"
}
