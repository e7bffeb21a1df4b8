# contestants, figures -> an SVG of four panels of dots, each on a logarithmic scale of its own.
BEGIN {
	FS = "\t"
	panels = split("wrap handoff memory latency", part, " ")
	split("ms gap_ms waiter_kib three", metric, " ")
	title[1] = "one run, ms"
	title[2] = "end to next start, ms"
	title[3] = "memory of a waiter, KiB"
	title[4] = "three locks, round trips"
	left = 170
	width = 200
	apart = 50
	top = 64
	step = 26
}

/^#/ { next }

FNR == NR {
	label[$1] = $2
	row[++rows] = $1
	next
}

{ value[$1, $2, $3] = $4 }

function text(x, y, style, words) {
	printf "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, style, words
}

function log10(v) {
	return log(v) / log(10)
}

# Whole decades round the values of panel p, into low and high.
function span(p,    i, v, e) {
	low = 99
	high = -99
	for (i = 1; i <= rows; i++) {
		v = value[part[p], row[i], metric[p]] + 0
		if (v <= 0)
			continue
		e = log10(v)
		if (e < low)
			low = e
		if (e > high)
			high = e
	}
	low = low < 0 ? int(low) - (low != int(low)) : int(low)
	high = int(high) + (high > int(high))
}

function place(p, e) {
	return left + (p - 1) * (width + apart) + (e - low) / (high - low) * width
}

function draw_axis(p,    e) {
	text(place(p, low), top - 28, "class=\"title\"", title[p])
	for (e = low; e <= high; e++) {
		printf "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" class=\"grid\"/>\n", \
			place(p, e), place(p, e), top - 6, top + shown * step - 6
		text(place(p, e), top - 12, "class=\"tick\" text-anchor=\"middle\"", 10 ^ e)
	}
}

function draw_dots(p,    i, n, v, x, y, kind) {
	n = 0
	for (i = 1; i <= rows; i++) {
		if (!(row[i] in line))
			continue
		y = top + n++ * step + step / 2 - 6
		v = value[part[p], row[i], metric[p]] + 0
		if (v <= 0)
			continue
		kind = row[i] ~ /^(dlock|shared)/ ? "ours" : "theirs"
		x = place(p, log10(v))
		printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" class=\"%s\"/>\n", x, y, kind
		text(x + 9, y + 4, "class=\"" kind "\"", v < 10 ? sprintf("%.2f", v) : sprintf("%.0f", v))
	}
}

END {
	for (i = 1; i <= rows; i++)
		for (p = 1; p <= panels; p++)
			if (value[part[p], row[i], metric[p]] + 0 > 0 && !(row[i] in line)) {
				line[row[i]] = 1
				shown++
			}
	total = left + panels * (width + apart)
	tall = top + shown * step + 12
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n", \
		total, tall, total, tall
	print "<style>text{font:13px sans-serif;fill:#333}.title{font-weight:bold}.tick{font-size:11px;fill:#777}" \
		".grid{stroke:#ddd}circle.ours{fill:#c0392b}circle.theirs{fill:#7f8c8d}" \
		"text.ours{fill:#c0392b;font-weight:bold}</style>"
	print "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
	for (i = 1; i <= rows; i++)
		if (row[i] in line)
			text(left - 16, top + n++ * step + step / 2 - 2, \
				"text-anchor=\"end\"" (row[i] ~ /^(dlock|shared)/ ? " class=\"ours\"" : ""), label[row[i]])
	for (p = 1; p <= panels; p++) {
		span(p)
		draw_axis(p)
		draw_dots(p)
	}
	print "</svg>"
}
