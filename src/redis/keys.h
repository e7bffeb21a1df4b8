/* The names of a lock's keys: all in one hash slot, all under the prefix. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lock/name.h"

#define KEYS_SLOTS 16384

/* Companions are HEAD word TAIL. All owned, by one allocation. */
struct keys {
	char *lock; /* PREFIX NAME */
	char *meta, *holders, *queue;
	char *who, *wake; /* of one token */
	char *head, *tail;
	void *memory;
};

/* Names them for a token ("" if none matters). False: out of memory. keys_free() in any case, which
 * may be repeated. */
bool keys_make(struct keys *keys, const char *prefix, const char *name, const char *token);
void keys_free(struct keys *keys);

/* Whether a key's text without its prefix is a companion key rather than a lock: it holds "}:"
 * directly followed by meta, holders, queue, who, wake, waits, inner, once or off (the word ends
 * the text or is followed by ':'). */
bool keys_is_companion(const char *name);

#define KEYS_ONCE_SIZE (3 * NAME_ID_BYTES + 1) /* enough for keys_once */

/* The text for an ID in the name of a companion "once:ID": the ID with ':' and '%' as in a URL,
 * because behind it ":NAME" may follow, and no two may be the same. ID NULL is "". */
void keys_once(const char *id, char text[static KEYS_ONCE_SIZE]);

/* A pattern of Redis for the keys that begin with the prefix. free() it; NULL: out of memory. */
char *keys_pattern(const char *prefix);

/* The slot of a key in a Redis Cluster: CRC16 (XMODEM: polynomial 0x1021, from 0) of its hash tag,
 * which is what stands between its first '{' and the next '}' unless that is nothing; else of all.
 */
unsigned keys_slot(const char *key);

/* Which lock a companion key, "queue" or "meta", belongs to: its NAME inside key, *length bytes of
 * it; NULL when the key is no such companion under the prefix. */
const char *keys_lock_name(const char *key, const char *word, const char *prefix, size_t *length);
