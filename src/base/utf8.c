#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

#define MORE "\u2026"

size_t utf8_character(const char *text)
{
	utf8proc_int32_t code;
	utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &code);

	return *text == '\0' || length < 0 ? 0 : (size_t)length;
}

bool utf8_is_control(const char *text)
{
	const unsigned char *byte = (const unsigned char *)text;

	return byte[0] < 0x20 || byte[0] == 0x7F || (byte[0] == 0xC2 && byte[1] < 0xA0);
}

/* Whether a terminal is told to show text in another order or on another line: by the characters of
 * the property Bidi_Control, and the separators of lines and paragraphs. */
static bool is_reordering(const char *text)
{
	static const char *const characters[] = {"\u061C", "\u200E", "\u200F", "\u2028", "\u2029",
		"\u202A", "\u202B", "\u202C", "\u202D", "\u202E", "\u2066", "\u2067", "\u2068",
		"\u2069"};

	for (size_t i = 0; i < sizeof(characters) / sizeof(characters[0]); i++)
		if (strncmp(text, characters[i], strlen(characters[i])) == 0)
			return true;
	return false;
}

bool utf8_is_unsafe(const char *text)
{
	return utf8_is_control(text) || ((unsigned char)*text >= 0x80 && is_reordering(text));
}

char *utf8_clean(char *text)
{
	char *to = text;

	for (const char *from = text; *from != '\0';) {
		size_t length = utf8_character(from);

		if (length == 0 || utf8_is_unsafe(from)) {
			*to++ = '?';
			from += length == 0 ? 1 : length;
			continue;
		}
		while (length-- > 0)
			*to++ = *from++;
	}
	*to = '\0';
	return text;
}

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

/* The width of the character at text: 0 (it joins the one before), 1 or 2. */
static size_t width_of(const char *text)
{
	utf8proc_int32_t code;

	if (utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &code) < 2)
		return 1;
	return (size_t)columns(code);
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
		width += width_of(text);
	return width;
}

size_t utf8_width_fit(const char *text, size_t *columns)
{
	const char *at = text;

	for (; *at != '\0' && width_of(at) <= *columns; at += step(at))
		*columns -= width_of(at);
	return (size_t)(at - text);
}

char *utf8_width_cut(char *text, size_t size, size_t columns)
{
	size_t width = 0, end = 0; /* of what is left before the '…' */
	char *at = text;

	for (; *at != '\0'; at += step(at)) {
		width += width_of(at);
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
