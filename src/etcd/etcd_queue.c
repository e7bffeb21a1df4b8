#include "etcd/etcd_queue.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/service.h"
#include "net/server.h"

/* --- base64 ---------------------------------------------------------------------------------- */

static void encode(const char *text, size_t length, char out[static ETCD_KEY_SIZE])
{
	if (b64_ntop((const unsigned char *)text, length, out, ETCD_KEY_SIZE) < 0)
		*out = '\0'; /* there is room */
}

/* A string of its own; NULL: it is no base64. */
static char *decode(const char *text)
{
	size_t size = strlen(text) + 1;
	char *out = malloc(size);
	int length = out ? b64_pton(text, (unsigned char *)out, size) : -1;

	if (length < 0) {
		free(out);
		return NULL;
	}
	out[length] = '\0';
	return out;
}

static char *encode_owned(char *text)
{
	size_t length = text ? strlen(text) : 0, size = length / 3 * 4 + 5;
	char *out = text ? malloc(size) : NULL;

	if (out)
		b64_ntop((const unsigned char *)text, length, out, size);
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

void etcd_key_range(const char *prefix, const char *name, char from[static ETCD_KEY_SIZE],
	char to[static ETCD_KEY_SIZE])
{
	char key[ETCD_KEY_SIZE], *end = stpcpy(key, prefix);

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

void etcd_key_own(
	const char *prefix, const char *name, int64_t lease, char key[static ETCD_KEY_SIZE])
{
	char text[ETCD_KEY_SIZE];
	char *end = stpcpy(write_name(stpcpy(text, prefix), name), "/");

	end += sprintf(end, "%" PRIx64, (uint64_t)lease);
	encode(text, (size_t)(end - text), key);
}

char *etcd_key_name(const char *key, const char *prefix)
{
	char *name = decode(key), *end;
	size_t length = strlen(prefix);

	if (name && strncmp(name, prefix, length) == 0 && (end = strchr(name + length, '/'))) {
		*end = '\0';
		memmove(name, name + length, (size_t)(end - name) - length + 1);
		if (url_decode(name))
			return name;
	}
	free(name);
	return NULL;
}

/* --- Values ---------------------------------------------------------------------------------- */

/* By state; NULL: of foreign clients. */
static const char *const states[] = {NULL, "waiting", "holding", "over", "released"};
static const char *const modes[] = {"exclusive", "shared", "permits"};

static int find(const char *const *names, int count, const char *name)
{
	for (int i = 0; name && i < count; i++)
		if (names[i] && strcmp(names[i], name) == 0)
			return i;
	return 0;
}

char *etcd_contender_value(const struct etcd_contender *contender, const struct owner *owner)
{
	const struct contender *c = &contender->is;
	char own[OWNER_TEXT];
	json_t *value = json_pack("{si ss* ss* si ss* sI sI so* sI sb ss*}", "dlock", LOCK_FORMAT,
		"state", states[c->state], "mode", modes[c->mode], "permits", c->permits, "token",
		c->id, "since", (json_int_t)c->since_us, "ttl", (json_int_t)c->ttl_ms, "least",
		contender->least_ms > 0 ? json_integer(contender->least_ms) : NULL, "fence",
		(json_int_t)c->fence, "detached", c->detached, "owner",
		c->owner ? c->owner : owner_write(owner, own));
	char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

	json_decref(value);
	return encode_owned(text);
}

int64_t json_number(const json_t *object, const char *name)
{
	const json_t *number = json_object_get(object, name);

	if (json_is_string(number))
		return strtoll(json_string_value(number), NULL, 10);
	return json_integer_value(number);
}

static const char *json_text(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static bool is_true(const json_t *object, const char *name)
{
	return json_is_true(json_object_get(object, name));
}

/* A value that is not dlock's leaves it foreign, and as good as exclusive. Returns the format. */
static int64_t read_value(struct etcd_contender *c, const char *value)
{
	struct contender *is = &c->is;
	char *text = decode(value);
	json_t *json = text ? json_loads(text, 0, NULL) : NULL;
	int64_t format = json_number(json, "dlock");

	free(text);
	is->id = json_text(json, "token");
	is->state = (enum contender_state)find(states, 6, json_text(json, "state"));
	if (format != LOCK_FORMAT || !is->id || is->state == CONTENDER_BY_PLACE) {
		is->id = "";
		is->state = CONTENDER_BY_PLACE;
		is->foreign = true;
		json_decref(json);
		return format;
	}
	c->record = json;
	is->mode = (enum lock_mode)find(modes, 3, json_text(json, "mode"));
	is->owner = json_text(json, "owner");
	is->permits = (int)json_number(json, "permits");
	is->since_us = json_number(json, "since");
	is->ttl_ms = json_number(json, "ttl");
	c->least_ms = json_number(json, "least");
	is->fence = (uint64_t)json_number(json, "fence");
	is->detached = is_true(json, "detached");
	/* A grant does not know its own revision yet. */
	if (is->fence == 0 && is->state != CONTENDER_WAITING)
		is->fence = (uint64_t)c->mod;
	return format;
}

/* --- The queue ------------------------------------------------------------------------------- */

bool etcd_queue_read(struct etcd_queue *queue, json_t *answer, const json_t *kvs)
{
	size_t count = json_array_size(kvs);
	int64_t format;

	*queue = (struct etcd_queue){.answer = answer,
		.revision = json_number(json_object_get(answer, "header"), "revision")};
	if (!contenders_open(&queue->all, sizeof(struct etcd_contender), count))
		return false;
	for (size_t i = 0; i < count; i++) {
		const json_t *kv = json_array_get(kvs, i);
		const char *value = json_text(kv, "value");
		struct etcd_contender *c = etcd_queue_at(queue, queue->all.count);

		c->key = json_text(kv, "key");
		c->is.place = json_number(kv, "create_revision");
		c->mod = json_number(kv, "mod_revision");
		c->lease = json_number(kv, "lease");
		if (!c->key)
			continue;
		format = read_value(c, value ? value : "");
		queue->format = format > queue->format ? format : queue->format;
		queue->all.count++;
	}
	contenders_sort(&queue->all);
	return true;
}

void etcd_queue_free(struct etcd_queue *queue)
{
	for (size_t i = 0; i < queue->all.count; i++)
		json_decref(etcd_queue_at(queue, i)->record);
	contenders_free(&queue->all);
	json_decref(queue->answer);
	*queue = (struct etcd_queue){0};
}

struct etcd_contender *etcd_queue_at(const struct etcd_queue *queue, size_t i)
{
	return (struct etcd_contender *)contenders_at(&queue->all, i);
}

struct etcd_contender *etcd_queue_find(const struct etcd_queue *queue, const char *key)
{
	for (size_t i = 0; i < queue->all.count; i++)
		if (strcmp(etcd_queue_at(queue, i)->key, key) == 0)
			return etcd_queue_at(queue, i);
	return NULL;
}
