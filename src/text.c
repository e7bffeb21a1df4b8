#include "text.h"

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

size_t text_character(const char *text)
{
	const unsigned char *byte = (const unsigned char *)text;

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (byte[0] < forms[i].from || byte[0] > forms[i].to)
			continue;
		if (forms[i].length > 1 && (byte[1] < forms[i].low || byte[1] > forms[i].high))
			return 0;
		for (size_t at = 2; at < forms[i].length; at++) {
			if ((byte[at] & 0xC0) != 0x80)
				return 0;
		}
		return forms[i].length;
	}
	return 0;
}

bool text_is_control(const char *text)
{
	const unsigned char *byte = (const unsigned char *)text;

	return byte[0] < 0x20 || byte[0] == 0x7F || (byte[0] == 0xC2 && byte[1] < 0xA0);
}

char *text_clean(char *text)
{
	char *to = text;

	for (const char *from = text; *from != '\0';) {
		size_t length = text_character(from);

		if (length == 0 || text_is_control(from)) {
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

size_t text_width(const char *text)
{
	size_t width = 0;

	for (; *text != '\0'; text++)
		width += ((unsigned char)*text & 0xC0) != 0x80;
	return width;
}
