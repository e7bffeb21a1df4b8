/* What stands in etcd under a lock's name: lines "CREATED KEY VALUE", the value as it is before
 * base64. What dlock writes of a contender it reads as the same. */
#include <netinet/in.h>
#include <resolv.h>

#include "etcd/etcd_queue.h"
#include "fuzz.h"
#include "line.h"

static char *encode(const char *text)
{
	size_t length = strlen(text), size = length / 3 * 4 + 5;
	char *out = malloc(size);

	MUST(out != NULL && b64_ntop((const unsigned char *)text, length, out, size) >= 0);
	return out;
}

static void add(json_t *kvs, char *line)
{
	char *created = strsep(&line, " "), *key = strsep(&line, " ");
	char *name = encode(key ? key : ""), *value = encode(line ? line : "");

	/* What is no UTF-8 jansson does not take. */
	json_array_append_new(
		kvs, json_pack("{ss* ss* ss* si ss}", "create_revision", created, "key", name,
			     "value", value, "mod_revision", 7, "lease", "9"));
	free(name);
	free(value);
}

static void read_again(const struct etcd_contender *c)
{
	char *value = etcd_contender_value(c, &(struct owner){0});
	json_t *kvs = json_pack("[{sI ss ss}]", "create_revision", (json_int_t)c->is.place, "key",
		c->key, "value", value ? value : "");
	struct etcd_queue queue;
	const struct contender *again;

	MUST(value && etcd_queue_read(&queue, json_incref(kvs), kvs) && queue.all.count == 1);
	again = &etcd_queue_at(&queue, 0)->is;
	MUST(!again->foreign && strcmp(again->id, c->is.id) == 0 && again->state == c->is.state &&
		again->mode == c->is.mode && again->permits == c->is.permits &&
		again->detached == c->is.detached);
	etcd_queue_free(&queue);
	json_decref(kvs);
	free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *rest = text, *line;
	json_t *kvs = json_array();
	struct etcd_queue queue;

	while ((line = strsep(&rest, "\n")) != NULL)
		add(kvs, line);
	MUST(etcd_queue_read(&queue, json_incref(kvs), kvs));
	line_try(&queue.all);
	for (size_t i = 0; i < queue.all.count; i++) {
		const struct etcd_contender *c = etcd_queue_at(&queue, i);

		MUST(etcd_queue_find(&queue, c->key) != NULL);
		free(etcd_key_name(c->key, "lock:"));
		if (!c->is.foreign)
			read_again(c);
	}
	etcd_queue_free(&queue);
	json_decref(kvs);
	free(text);
	return 0;
}
