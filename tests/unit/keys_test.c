/* keys.c. With arguments PREFIX NAME: prints the lock's key, its companions and their slot, so that
 * a server can be asked whether that is right. */
#include "redis/keys.h"

#include <stdio.h>
#include <string.h>

static int count, failures;

static void ok(bool good, const char *what)
{
	failures += !good;
	printf("%sok %d - %s\n", good ? "" : "not ", ++count, what);
}

static void is(const char *seen, const char *expected)
{
	bool good = strcmp(seen, expected) == 0;

	ok(good, expected);
	if (!good)
		printf("# seen: %s\n", seen);
}

/* The values are from CRC-16/XMODEM's catalogue entry and from the Redis Cluster specification. */
static void test_slots(void)
{
	ok(keys_slot("123456789") == 0x31C3, "the check value of CRC16");
	ok(keys_slot("") == 0, "nothing");
	ok(keys_slot("{user1000}.following") == keys_slot("{user1000}.followers"),
		"one tag, one slot");
	ok(keys_slot("{user1000}.following") == keys_slot("user1000"), "only the tag counts");
	ok(keys_slot("foo{}{bar}") != keys_slot("bar"), "an empty tag is none");
	ok(keys_slot("foo{{bar}}zap") == keys_slot("{bar"), "to the first closing brace");
	ok(keys_slot("foo{bar}{zap}") == keys_slot("bar"), "the first tag");
}

static void test_plain(void)
{
	struct keys keys;

	ok(keys_make(&keys, "lock:", "deploy", "web:1:ab"), "a plain name");
	is(keys.lock, "lock:deploy");
	is(keys.meta, "lock:{lock:deploy}:meta");
	is(keys.holders, "lock:{lock:deploy}:holders");
	is(keys.queue, "lock:{lock:deploy}:queue");
	is(keys.who, "lock:{lock:deploy}:who:web:1:ab");
	is(keys.wake, "lock:{lock:deploy}:wake:web:1:ab");
	is(keys.head, "lock:{lock:deploy}:");
	is(keys.tail, "");
	keys_free(&keys);
	keys_free(&keys);
}

static void test_tagged(void)
{
	struct keys keys;

	ok(keys_make(&keys, "lock:", "a{t}b", "T"), "a name with a tag of its own");
	is(keys.lock, "lock:a{t}b");
	is(keys.meta, "lock:{t}:meta:a{t}b");
	is(keys.who, "lock:{t}:who:T:a{t}b");
	is(keys.tail, ":a{t}b");
	keys_free(&keys);
	ok(keys_make(&keys, "{p}:", "n", "T"), "a tag in the prefix");
	is(keys.queue, "{p}:{p}:queue:n");
	keys_free(&keys);
	ok(keys_make(&keys, "lock:", "p}q", "T"), "a brace that closes nothing");
	ok(strspn(keys.head + strlen("lock:{"), "0123456789") ==
			strlen(keys.head) - strlen("lock:{}:"),
		"has a number for a tag");
	is(keys.tail, ":p}q");
	keys_free(&keys);
}

static void test_once(void)
{
	char text[KEYS_ONCE_SIZE];
	char longest[NAME_ID_BYTES + 1] = "";

	keys_once("2026-11-21", text);
	is(text, "2026-11-21");
	keys_once("a:b%c", text);
	is(text, "a%3Ab%25c");
	keys_once(NULL, text);
	is(text, "");
	memset(longest, ':', NAME_ID_BYTES);
	keys_once(longest, text);
	ok(strlen(text) == 3 * NAME_ID_BYTES, "the longest ID");
}

static const struct {
	const char *prefix, *name;
} odd[] = {
	{"lock:", "x"},
	{"lock:", "p}q"},
	{"lock:", "{}r"},
	{"lock:", "}{"},
	{"lock:", "{"},
	{"lock:", "}"},
	{"lock:", "a{b"},
	{"lock:", "s{t}u"},
	{"lock:", "{{a}}"},
	{"lock:", "{}{a}"},
	{"lock:", "é {v}"},
	{"lock:", "\"'%s%n\\"},
	{"lock:", "a b"},
	{"", "bare"},
	{"", "{t}"},
	{"", "}"},
	{"{t}:", "x"},
	{"{t}", "}x{y}"},
	{"pre}fix:", "x"},
	{"a:b:", "queue"},
	{"lock:", "meta"},
	{"lock:", "{lock:x}"},
	{"lock:", "}}}{{{"},
	{"lock:", "{a}{b}{c}"},
};

static void test_odd(void)
{
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		const char *prefix = odd[i].prefix, *name = odd[i].name;
		struct keys keys;
		size_t length;
		const char *found;
		bool made = keys_make(&keys, prefix, name, "h:1:00");
		const char *all[] = {keys.meta, keys.holders, keys.queue, keys.who, keys.wake};
		bool slots = made, prefixes = made;

		for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
			slots = slots && keys_slot(all[k]) == keys_slot(keys.lock);
			prefixes = prefixes && strncmp(all[k], prefix, strlen(prefix)) == 0;
		}
		ok(slots && prefixes, name);
		found = keys_lock_name(keys.queue, "queue", prefix, &length);
		ok(found && length == strlen(name) && strncmp(found, name, length) == 0,
			keys.queue);
		ok(!keys_lock_name(keys.lock, "queue", prefix, &length) &&
				!keys_lock_name(keys.meta, "queue", prefix, &length),
			"neither the lock nor meta is a queue");
		keys_free(&keys);
	}
}

/* The longest that is allowed, and a tag in the way of every length. */
static void test_long(void)
{
	char name[513], prefix[129];
	struct keys keys;

	memset(name, '}', 512);
	memset(prefix, 'p', 128);
	name[512] = prefix[128] = '\0';
	ok(keys_make(&keys, prefix, name, "t") && strlen(keys.lock) == 640, "640 bytes");
	ok(keys_slot(keys.wake) == keys_slot(keys.lock), "in one slot");
	keys_free(&keys);
}

static int print(const char *prefix, const char *name)
{
	struct keys keys;

	if (!keys_make(&keys, prefix, name, "h:1:00"))
		return 1;
	printf("%u\n%s\n%s\n%s\n%s\n%s\n%s\n", keys_slot(keys.lock), keys.lock, keys.meta,
		keys.holders, keys.queue, keys.who, keys.wake);
	keys_free(&keys);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return print(argv[1], argv[2]);
	test_slots();
	test_plain();
	test_tagged();
	test_once();
	test_odd();
	test_long();
	printf("1..%d\n", count);
	return failures > 0;
}
