# contestants, columns, figures -> one Markdown table per part that has figures.
BEGIN { FS = "\t" }

/^#/ { next }

FILENAME == ARGV[1] {
	label[$1] = $2
	row[++rows] = $1
	next
}

FILENAME == ARGV[2] {
	if ($2 == "-")
		part[++parts] = $1 FS $3
	else
		column[$1, ++columns[$1]] = $2 FS $3
	next
}

{
	value[$1, $2, $3] = $4
	has_row[$1, $2] = has_column[$1, $3] = has_part[$1] = 1
}

function print_line(p, who, kind,    line, i, c) {
	line = "|"
	if (kind == "values")
		line = "| " label[who]
	for (i = 1; i <= columns[p]; i++) {
		split(column[p, i], c, FS)
		if (!has_column[p, c[1]])
			continue
		if (kind == "heading")
			line = line " | " c[2]
		else if (kind == "rule")
			line = line " --- |"
		else
			line = line " | " ((p, who, c[1]) in value ? value[p, who, c[1]] : "–")
	}
	print kind == "rule" ? line " --- |" : line " |"
}

END {
	for (i = 1; i <= parts; i++) {
		split(part[i], p, FS)
		if (!has_part[p[1]])
			continue
		print "\n## " p[2] "\n"
		print_line(p[1], "", "heading")
		print_line(p[1], "", "rule")
		for (j = 1; j <= rows; j++)
			if (has_row[p[1], row[j]])
				print_line(p[1], row[j], "values")
	}
}
