#include "base/utf8_width.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

#define MORE "\u2026"

/* As terminals have it, which differs from the library in three points: what is put beside a
 * character (Mc) takes a column, the vowels and finals of Hangul join the syllable before them, and
 * ideographs are wide before they are assigned. */
static int columns(utf8proc_int32_t code)
{
	if (code >= 0x1160 && code <= 0x11FF)
		return 0;
	if (code >= 0x20000 && code <= 0x3FFFF)
		return 2;
	switch (utf8proc_category(code)) {
	case UTF8PROC_CATEGORY_MC:
		return 1;
	case UTF8PROC_CATEGORY_MN:
	case UTF8PROC_CATEGORY_ME:
		return 0;
	case UTF8PROC_CATEGORY_CF:
		return code == 0xAD; /* the soft hyphen is shown */
	default:
		return utf8proc_charwidth(code);
	}
}

int utf8_width(const char *text)
{
	utf8proc_int32_t code;

	if (utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &code) < 2)
		return 1;
	return columns(code);
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
