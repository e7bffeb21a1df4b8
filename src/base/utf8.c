#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

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
