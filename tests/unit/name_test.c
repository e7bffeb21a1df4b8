/* What may be a NAME and a PREFIX, and which characters a terminal gets to see. */
#include "lock/name.h"

#include "base/utf8.h"
#include "lock/services.h"
#include "tap.h"

#define EMPTY     "is empty"
#define LONG      "is longer than 512 bytes"
#define URL       "looks like a server's URL"
#define NOT_UTF8  "is not UTF-8"
#define CONTROL   "holds a control character"
#define COMPANION "ends like a companion key of dlock"

static const struct {
	const char *name;
	const char *fault;
} names[] = {
	{"deploy", NULL},
	{"a", NULL},
	{" ", NULL},
	{"with space", NULL},
	{"\"quotes'", NULL},
	{"{tag}x", NULL},
	{"{}", NULL},
	{"}{", NULL},
	{"100%s%n", NULL},
	{"-n", NULL},
	{"a/b", NULL},
	{"a:b", NULL},
	{"//", NULL},
	{":/", NULL},
	{"*?[x]\\", NULL},
	{"b\xc3\xa4r", NULL},
	{"\xe2\x82\xac", NULL},
	{"\xf0\x9f\x94\x92", NULL},
	{"\xf4\x8f\xbf\xbf", NULL},
	{"\xed\x9f\xbf", NULL},
	{"\xee\x80\x80", NULL},
	{"\xc2\xa0", NULL},
	{"", EMPTY},
	{"redis://h", URL},
	{"://", URL},
	{"x://y", URL},
	{"a\tb", CONTROL},
	{"a\n", CONTROL},
	{"\x01", CONTROL},
	{"\x1b[31m", CONTROL},
	{"\x7f", CONTROL},
	{"\xc2\x80", CONTROL},
	{"\xc2\x9f", CONTROL},
	{"x\xc2\x85y", CONTROL},
	{"\x80", NOT_UTF8},
	{"\xff", NOT_UTF8},
	{"\xfe", NOT_UTF8},
	{"\xc3", NOT_UTF8},
	{"\xc0\xaf", NOT_UTF8},
	{"\xc1\xbf", NOT_UTF8},
	{"\xe0\x80\xaf", NOT_UTF8},
	{"\xe0\x9f\xbf", NOT_UTF8},
	{"\xed\xa0\x80", NOT_UTF8},
	{"\xe2\x82", NOT_UTF8},
	{"\xf0\x8f\xbf\xbf", NOT_UTF8},
	{"\xf4\x90\x80\x80", NOT_UTF8},
	{"\xf5\x80\x80\x80", NOT_UTF8},
	{"\xf0\x9f\x94", NOT_UTF8},
	{"\xe2(\xa1", NOT_UTF8},
	{"a\xc3(", NOT_UTF8},
	{"x}:meta", COMPANION},
	{"x}:holders", COMPANION},
	{"x}:queue", COMPANION},
	{"x}:who:1", COMPANION},
	{"x}:wake:1", COMPANION},
	{"x}:once:1", COMPANION},
	{"x{t}y}:meta:x", COMPANION},
	{"{lock:x}:meta", COMPANION},
	{"}:a}:meta", COMPANION},
	{"}:who", COMPANION},
	{"}:}:meta", COMPANION},
	{"}:metal", NULL},
	{"x:meta", NULL},
	{"meta", NULL},
	{"}meta", NULL},
	{"}: meta", NULL},
	{"}:whose", NULL},
	{"}:", NULL},
	{"}:META", NULL},
};

static const struct {
	const char *prefix;
	const char *fault;
} prefixes[] = {
	{"lock:", NULL},
	{"", NULL},
	{"{tag}", NULL},
	{"a{b}c{d}:", NULL},
	{"}", NULL},
	{"{a{b}", NULL},
	{"b\xc3\xa4r:", NULL},
	{"{", "holds a '{' that begins no hash tag"},
	{"a{", "holds a '{' that begins no hash tag"},
	{"{}", "holds a '{' that begins no hash tag"},
	{"}{", "holds a '{' that begins no hash tag"},
	{"{a}{", "holds a '{' that begins no hash tag"},
	{"{a}{}", "holds a '{' that begins no hash tag"},
	{"a\n", CONTROL},
	{"\xff", NOT_UTF8},
};

static const struct {
	const char *text;
	const char *wanted;
	size_t width;
} cleaned[] = {
	{"", "", 0},
	{"plain", "plain", 5},
	{"a\tb\n", "a?b?", 4},
	{"\x1b[2J", "?[2J", 4},
	{"\x7f", "?", 1},
	{"\xc2\x9b"
	 "31m",
		"?31m", 4},
	{"\x9b"
	 "31m",
		"?31m", 4},
	{"b\xc3\xa4r", "b\xc3\xa4r", 3},
	{"\xe2\x82", "??", 2},
	{"\xe2\x82\xac\xe2", "\xe2\x82\xac?", 2},
	{"\xed\xa0\x80", "???", 3},
	{"\xff\xfe", "??", 2},
	{"\xf0\x9f\x94\x92!", "\xf0\x9f\x94\x92!", 3},
	{"e\u0301\u4e2d\uff21", "e\u0301\u4e2d\uff21", 5},
	{"a\u202eb\u2066c\u200fd\u2028e\u061cf", "a?b?c?d?e?f", 11},
	{"a\u200bb\u00ad", "a\u200bb\u00ad", 3},
	{"\u0915\u093e", "\u0915\u093e", 2},
	{"\u1112\u1161\u11ab", "\u1112\u1161\u11ab", 2},
	{"\ud55c\u3002\uff71", "\ud55c\u3002\uff71", 5},
	{"\U0001f512\u20ac", "\U0001f512\u20ac", 3},
	{"\U00020000\U0003fffd", "\U00020000\U0003fffd", 4},
};

static void test_lengths(void)
{
	char text[NAME_MAX_BYTES + 2];

	memset(text, 'x', sizeof(text));
	text[NAME_MAX_BYTES] = '\0';
	same(name_fault(text), NULL, "a NAME of 512 bytes");
	text[NAME_MAX_BYTES] = 'x';
	text[NAME_MAX_BYTES + 1] = '\0';
	same(name_fault(text), LONG, "a NAME of 513 bytes");
	text[128] = '\0';
	same(name_prefix_fault(text), NULL, "a prefix of 128 bytes");
	text[128] = 'x';
	text[129] = '\0';
	same(name_prefix_fault(text), "is longer than 128 bytes", "a prefix of 129 bytes");
	memset(text, 'x', 257);
	text[257] = '\0';
	same(name_id_fault(text), "is longer than 256 bytes", "an ID of 257 bytes");
	text[256] = '\0';
	same(name_id_fault(text), NULL, "an ID of 256 bytes");
	same(name_id_fault(""), "is empty", "an empty ID");
	same(name_id_fault("a:b}:{c}%"), NULL, "an ID of what names may not hold");
	same(name_id_fault("a\tb"), "holds a control character", "an ID with a tab");
	same(name_id_fault("\xff"), "is not UTF-8", "an ID that is not UTF-8");
}

int main(void)
{
	char what[64];

	for (size_t i = 0; i < COUNT(names); i++) {
		snprintf(what, sizeof(what), "NAME %zu", i);
		same(services_name_fault(names[i].name), names[i].fault, what);
	}
	test_lengths();
	for (size_t i = 0; i < COUNT(prefixes); i++) {
		snprintf(what, sizeof(what), "prefix %zu", i);
		same(name_prefix_fault(prefixes[i].prefix), prefixes[i].fault, what);
	}
	for (size_t i = 0; i < COUNT(cleaned); i++) {
		char text[32];

		snprintf(text, sizeof(text), "%s", cleaned[i].text);
		snprintf(what, sizeof(what), "cleaned text %zu", i);
		same(utf8_clean(text), cleaned[i].wanted, what);
		ok(utf8_width_of_text(text) == cleaned[i].width, "its width is %zu",
			cleaned[i].width);
	}
	return tap_end();
}
