#include "etcd/etcd_queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- base64 ---------------------------------------------------------------------------------- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";

static void encode(const char *text, size_t length, char *out)
{
	const unsigned char *in = (const unsigned char *)text;

	for (size_t i = 0; i < length; i += 3) {
		unsigned group = (unsigned)in[i] << 16;

		group |= i + 1 < length ? (unsigned)in[i + 1] << 8 : 0;
		group |= i + 2 < length ? in[i + 2] : 0;
		*out++ = digits[group >> 18];
		*out++ = digits[group >> 12 & 63];
		*out++ = digits[i + 1 < length ? group >> 6 & 63 : 64];
		*out++ = digits[i + 2 < length ? group & 63 : 64];
	}
	*out = '\0';
}

/* A string of its own; what is no base64 ends it. */
static char *decode(const char *text)
{
	char *out = malloc(strlen(text) + 1), *at = out;
	unsigned group = 0, bits = 0;

	for (; out && *text != '\0' && *text != '='; text++) {
		const char *digit = strchr(digits, *text);

		if (!digit)
			break;
		group = group << 6 | (unsigned)(digit - digits);
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			*at++ = (char)(group >> bits);
		}
	}
	if (out)
		*at = '\0';
	return out;
}

static char *encode_owned(char *text)
{
	size_t length = text ? strlen(text) : 0;
	char *out = text ? malloc(length / 3 * 4 + 5) : NULL;

	if (out)
		encode(text, length, out);
	free(text);
	return out;
}

/* --- Keys ------------------------------------------------------------------------------------ */

/* No '/' in a name: else a/b would lie in the range of a. */
static char *write_name(char *at, const char *name)
{
	for (; *name != '\0'; name++)
		if (*name == '/' || *name == '%')
			at += sprintf(at, "%%%02X", (unsigned char)*name);
		else
			*at++ = *name;
	*at = '\0';
	return at;
}

void key_range(
	const char *prefix, const char *name, char from[static KEY_SIZE], char to[static KEY_SIZE])
{
	char key[KEY_SIZE], *end = stpcpy(key, prefix);

	if (name)
		end = stpcpy(write_name(end, name), "/");
	encode(key, (size_t)(end - key), from);
	/* The first that does not begin with it; no text ends with 0xff. */
	if (end > key)
		end[-1] = (char)(end[-1] + 1);
	else
		end++; /* "\0": to the end of all */
	encode(key, (size_t)(end - key), to);
}

void key_own(const char *prefix, const char *name, int64_t lease, char key[static KEY_SIZE])
{
	char text[KEY_SIZE];
	char *end = stpcpy(write_name(stpcpy(text, prefix), name), "/");

	end += sprintf(end, "%" PRIx64, (uint64_t)lease);
	encode(text, (size_t)(end - text), key);
}

char *key_name(const char *key, const char *prefix)
{
	char *name = decode(key), *end, *at, *to;
	size_t length = strlen(prefix);

	if (!name || strncmp(name, prefix, length) != 0 || !(end = strchr(name + length, '/'))) {
		free(name);
		return NULL;
	}
	*end = '\0';
	to = name;
	for (at = name + length; *at != '\0'; at++) {
		unsigned byte;

		if (*at == '%' && sscanf(at + 1, "%2x", &byte) == 1 && byte != 0) {
			*to++ = (char)byte;
			at += 2;
		} else {
			*to++ = *at;
		}
	}
	*to = '\0';
	return name;
}

/* --- Values ---------------------------------------------------------------------------------- */

static const char *const states[] = {NULL, "waiting", "holding", "over", "inside", "released"};
static const char *const modes[] = {"exclusive", "shared", "permits"};

static int find(const char *const *names, int count, const char *name)
{
	for (int i = 0; name && i < count; i++)
		if (names[i] && strcmp(names[i], name) == 0)
			return i;
	return 0;
}

static char *write_value(const struct contender *c, const char *owner)
{
	json_t *value = json_pack("{si ss* ss* si ss* sI sI sI sI sb sb ss*}", "dlock", 1, "state",
		states[c->state], "mode", modes[c->mode], "permits", c->permits, "token", c->token,
		"since", (json_int_t)c->since_us, "ttl", (json_int_t)c->ttl_ms, "fence",
		(json_int_t)c->fence, "around", (json_int_t)c->around, "detached", c->detached,
		"hold", c->hold, "owner", owner);
	char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

	json_decref(value);
	return encode_owned(text);
}

char *contender_value(const struct contender *contender, const struct owner *owner)
{
	char text[OWNER_TEXT];

	return write_value(contender, owner_write(owner, text));
}

char *contender_rewrite(const struct contender *contender)
{
	return write_value(
		contender, json_string_value(json_object_get(contender->record, "owner")) ?: "");
}

void contender_owner(const struct contender *contender, struct owner *owner)
{
	const char *text = json_string_value(json_object_get(contender->record, "owner"));

	owner_read(owner, text ? text : "");
}

int64_t json_number(const json_t *object, const char *name)
{
	const json_t *number = json_object_get(object, name);

	if (json_is_string(number))
		return strtoll(json_string_value(number), NULL, 10);
	return json_integer_value(number);
}

static bool is_true(const json_t *object, const char *name)
{
	return json_is_true(json_object_get(object, name));
}

/* A value that is not dlock's leaves it foreign. */
static void read_value(struct contender *c, const char *value)
{
	char *text = decode(value);
	json_t *json = text ? json_loads(text, 0, NULL) : NULL;
	const char *token = json_string_value(json_object_get(json, "token"));

	free(text);
	c->token = "";
	c->state = (enum contender_state)find(
		states, 6, json_string_value(json_object_get(json, "state")));
	if (json_number(json, "dlock") != 1 || !token || c->state == CONTENDER_FOREIGN) {
		c->state = CONTENDER_FOREIGN;
		json_decref(json);
		return;
	}
	c->record = json;
	c->token = token;
	c->mode = (enum lock_mode)find(modes, 3, json_string_value(json_object_get(json, "mode")));
	c->permits = (int)json_number(json, "permits");
	c->since_us = json_number(json, "since");
	c->ttl_ms = json_number(json, "ttl");
	c->fence = (uint64_t)json_number(json, "fence");
	c->around = json_number(json, "around");
	c->detached = is_true(json, "detached");
	c->hold = is_true(json, "hold");
	/* A grant does not know its own revision yet. */
	if (c->fence == 0 && c->state != CONTENDER_WAITING)
		c->fence = (uint64_t)c->mod;
}

/* --- The queue ------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	const struct contender *one = a, *other = b;

	return one->create < other->create ? -1 : one->create > other->create;
}

bool queue_read(struct queue *queue, json_t *answer, const json_t *kvs)
{
	size_t count = json_array_size(kvs);

	*queue = (struct queue){.answer = answer,
		.revision = json_number(json_object_get(answer, "header"), "revision")};
	queue->list = calloc(count + 1, sizeof(*queue->list));
	if (!queue->list)
		return false;
	for (size_t i = 0; i < count; i++) {
		const json_t *kv = json_array_get(kvs, i);
		const char *value = json_string_value(json_object_get(kv, "value"));
		struct contender *c = &queue->list[queue->count];

		c->key = json_string_value(json_object_get(kv, "key"));
		c->create = json_number(kv, "create_revision");
		c->mod = json_number(kv, "mod_revision");
		c->lease = json_number(kv, "lease");
		if (!c->key)
			continue;
		read_value(c, value ? value : "");
		queue->count++;
	}
	qsort(queue->list, queue->count, sizeof(*queue->list), compare);
	return true;
}

void queue_free(struct queue *queue)
{
	for (size_t i = 0; i < queue->count; i++)
		json_decref(queue->list[i].record);
	free(queue->list);
	json_decref(queue->answer);
	*queue = (struct queue){0};
}

struct contender *queue_find(const struct queue *queue, const char *key)
{
	for (size_t i = 0; i < queue->count; i++)
		if (strcmp(queue->list[i].key, key) == 0)
			return &queue->list[i];
	return NULL;
}

struct contender *queue_find_token(const struct queue *queue, const char *token)
{
	for (size_t i = 0; i < queue->count; i++)
		if (queue->list[i].record && strcmp(queue->list[i].token, token) == 0)
			return &queue->list[i];
	return NULL;
}

struct contender *queue_find_created(const struct queue *queue, int64_t create)
{
	for (size_t i = 0; i < queue->count; i++)
		if (queue->list[i].create == create)
			return &queue->list[i];
	return NULL;
}

static bool counts(const struct contender *c)
{
	return c->state != CONTENDER_INSIDE && c->state != CONTENDER_RELEASED;
}

const struct contender *queue_obstacle(const struct queue *queue, const struct contender *own,
	enum lock_mode mode, int permits, int *rank, int *ahead)
{
	const struct contender *last = NULL, *other = NULL;

	*rank = *ahead = 0;
	for (size_t i = 0; i < queue->count && &queue->list[i] != own; i++) {
		const struct contender *c = &queue->list[i];

		if (!counts(c))
			continue;
		last = c;
		++*ahead;
		*rank += c->state == CONTENDER_WAITING;
		if (c->state == CONTENDER_FOREIGN || c->mode != mode)
			other = c;
	}
	if (mode == LOCK_EXCLUSIVE)
		return last;
	return other || mode == LOCK_SHARED || *ahead < permits ? other : last;
}
