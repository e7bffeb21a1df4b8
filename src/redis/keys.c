#include "redis/keys.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_DIGITS 12

/* The part of a key that is hashed, *length bytes. */
static const char *find_tag(const char *key, size_t *length)
{
	const char *open = strchr(key, '{');
	const char *close = open ? strchr(open + 1, '}') : NULL;

	if (!close || close == open + 1) {
		*length = strlen(key);
		return key;
	}
	*length = (size_t)(close - open - 1);
	return open + 1;
}

static unsigned hash(const char *text, size_t length)
{
	unsigned crc = 0;

	for (size_t i = 0; i < length; i++) {
		crc ^= (unsigned)(uint8_t)text[i] << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
	}
	return (crc & 0xFFFF) % KEYS_SLOTS;
}

unsigned keys_slot(const char *key)
{
	size_t length;
	const char *tag = find_tag(key, &length);

	return hash(tag, length);
}

/* A key with a '}' but no tag of its own cannot be put between braces. The smallest number in
 * its slot stands in for it: there is one below 10^6 for every slot. */
static size_t find_number(const char *key, char number[static TAG_DIGITS])
{
	unsigned slot = keys_slot(key);
	int length;

	for (unsigned i = 0;; i++) {
		length = snprintf(number, TAG_DIGITS, "%u", i);
		if (hash(number, (size_t)length) == slot)
			return (size_t)length;
	}
}

/* Puts the parts, up to NULL, and a NUL at *at, which moves on; returns where they begin. */
static char *put(char **at, const char *const *part)
{
	char *start = *at;

	for (; *part; part++)
		*at = stpcpy(*at, *part);
	++*at;
	return start;
}

#define PUT(...) put(&at, (const char *const[]){__VA_ARGS__, NULL})

bool keys_make(struct keys *keys, const char *prefix, const char *name, const char *token)
{
	char number[TAG_DIGITS];
	/* Eight strings and a tag; the longest is the prefix, a tag (of the two or a number), a
	 * word, the token and the name. */
	size_t longest = 2 * (strlen(prefix) + strlen(name)) + strlen(token) + TAG_DIGITS + 16;
	char *at = malloc(9 * longest);
	const char *tag;
	size_t tag_length;
	bool whole;

	*keys = (struct keys){.memory = at};
	if (!at)
		return false;
	keys->lock = PUT(prefix, name);
	tag = find_tag(keys->lock, &tag_length);
	whole = tag == keys->lock;
	if (whole && strchr(tag, '}')) {
		tag_length = find_number(keys->lock, number);
		tag = number;
		whole = false;
	}
	if (tag[tag_length] != '\0') {
		tag = memcpy(at, tag, tag_length);
		at[tag_length] = '\0';
		at += tag_length + 1;
	}
	keys->head = PUT(prefix, "{", tag, "}:");
	/* Names with one tag would else share their companions. */
	keys->tail = whole ? PUT("") : PUT(":", name);
	keys->meta = PUT(keys->head, "meta", keys->tail);
	keys->holders = PUT(keys->head, "holders", keys->tail);
	keys->queue = PUT(keys->head, "queue", keys->tail);
	keys->who = PUT(keys->head, "who:", token, keys->tail);
	keys->wake = PUT(keys->head, "wake:", token, keys->tail);
	return true;
}

char *keys_pattern(const char *prefix)
{
	char *pattern = malloc(2 * strlen(prefix) + 2);
	char *at = pattern;

	if (!pattern)
		return NULL;
	for (; *prefix; prefix++) {
		if (strchr("*?[]\\^-", *prefix))
			*at++ = '\\';
		*at++ = *prefix;
	}
	*at++ = '*';
	*at = '\0';
	return pattern;
}

void keys_once(const char *id, char text[static KEYS_ONCE_SIZE])
{
	const char *end = text + KEYS_ONCE_SIZE - 1;

	for (; id && *id && text + 3 <= end; id++)
		if (*id == ':' || *id == '%')
			text += sprintf(text, "%%%02X", (unsigned)*id);
		else
			*text++ = *id;
	*text = '\0';
}

static bool begins_with_companion_word(const char *text)
{
	/* "waits" and "inner" are an older dlock's. */
	static const char *const words[] = {
		"meta", "holders", "queue", "who", "wake", "waits", "inner", "once", "off"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t length = strlen(words[i]);

		if (strncmp(text, words[i], length) == 0 &&
			(text[length] == '\0' || text[length] == ':'))
			return true;
	}
	return false;
}

bool keys_is_companion(const char *name)
{
	for (const char *tag = strstr(name, "}:"); tag != NULL; tag = strstr(tag + 2, "}:"))
		if (begins_with_companion_word(tag + 2))
			return true;
	return false;
}

void keys_free(struct keys *keys)
{
	free(keys->memory);
	*keys = (struct keys){0};
}

const char *keys_lock_name(const char *key, const char *word, const char *prefix, size_t *length)
{
	size_t word_length = strlen(word);
	size_t prefix_length = strlen(prefix);
	const char *tag, *end, *name;

	if (strncmp(key, prefix, prefix_length) != 0 || key[prefix_length] != '{')
		return NULL;
	tag = key + prefix_length + 1;
	end = strchr(tag, '}');
	if (!end || strncmp(end, "}:", 2) != 0 || strncmp(end + 2, word, word_length) != 0)
		return NULL;
	name = end + 2 + word_length;
	if (*name == ':') {
		*length = strlen(++name);
		return name;
	}
	if (*name != '\0' || strncmp(tag, prefix, prefix_length) != 0)
		return NULL;
	*length = (size_t)(end - tag) - prefix_length;
	return tag + prefix_length;
}
