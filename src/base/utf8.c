#include "base/utf8.h"

#include <string.h>

/* Which second byte may follow which first one: table 3-7 of the Unicode standard. It leaves out
 * overlong forms, surrogates, and what lies beyond U+10FFFF. Every further byte is 80 to BF. */
static const struct {
	unsigned char from, to, length, low, high;
} forms[] = {
	{0x01, 0x7F, 1, 0x00, 0x00},
	{0xC2, 0xDF, 2, 0x80, 0xBF},
	{0xE0, 0xE0, 3, 0xA0, 0xBF},
	{0xE1, 0xEC, 3, 0x80, 0xBF},
	{0xED, 0xED, 3, 0x80, 0x9F},
	{0xEE, 0xEF, 3, 0x80, 0xBF},
	{0xF0, 0xF0, 4, 0x90, 0xBF},
	{0xF1, 0xF3, 4, 0x80, 0xBF},
	{0xF4, 0xF4, 4, 0x80, 0x8F},
};

size_t utf8_character(const char *text)
{
	const unsigned char *byte = (const unsigned char *)text;

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (byte[0] < forms[i].from || byte[0] > forms[i].to)
			continue;
		if (forms[i].length > 1 && (byte[1] < forms[i].low || byte[1] > forms[i].high))
			return 0;
		for (size_t at = 2; at < forms[i].length; at++)
			if ((byte[at] & 0xC0) != 0x80)
				return 0;
		return forms[i].length;
	}
	return 0;
}

bool utf8_is_control(const char *text)
{
	const unsigned char *byte = (const unsigned char *)text;

	return byte[0] < 0x20 || byte[0] == 0x7F || (byte[0] == 0xC2 && byte[1] < 0xA0);
}

/* What tells a terminal to show text in another order or on another line: the characters of the
 * property Bidi_Control, and the separators of lines and paragraphs. */
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
