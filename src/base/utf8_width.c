#include "base/utf8_width.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define MORE "\u2026"

static const struct range {
	uint32_t from, to;
	int columns;
} ranges[] = {
#include "base/utf8_width_table.h"
};

/* The code point of the well-formed character at text. */
static uint32_t decode(const char *text, size_t length)
{
	static const unsigned char masks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
	const unsigned char *byte = (const unsigned char *)text;
	uint32_t code = byte[0] & masks[length];

	for (size_t i = 1; i < length; i++)
		code = code << 6 | (byte[i] & 0x3F);
	return code;
}

static int compare(const void *key, const void *element)
{
	uint32_t code = *(const uint32_t *)key;
	const struct range *range = element;

	return code < range->from ? -1 : code > range->to;
}

int utf8_width(const char *text)
{
	size_t length = utf8_character(text);
	const struct range *range;
	uint32_t code;

	if (length < 2)
		return 1;
	code = decode(text, length);
	range = bsearch(
		&code, ranges, sizeof(ranges) / sizeof(ranges[0]), sizeof(ranges[0]), compare);
	return range == NULL ? 1 : range->columns;
}

static size_t step(const char *text)
{
	size_t length = utf8_character(text);

	return length == 0 ? 1 : length;
}

size_t utf8_width_of_text(const char *text)
{
	size_t width = 0;

	for (; *text != '\0'; text += step(text))
		width += (size_t)utf8_width(text);
	return width;
}

char *utf8_width_cut(char *text, size_t size, size_t columns)
{
	size_t width = 0, end = 0; /* of what is left before the '…' */
	char *at = text;

	for (; *at != '\0'; at += step(at)) {
		width += (size_t)utf8_width(at);
		if (width < columns && (size_t)(at - text) + step(at) + sizeof(MORE) <= size)
			end = (size_t)(at - text) + step(at);
		if (width > columns)
			break;
	}
	if (*at == '\0')
		return text;
	if (columns == 0)
		*text = '\0';
	else
		memcpy(text + end, MORE, sizeof(MORE));
	return text;
}
