/* A NAME, a PREFIX and the ID of --once: what passes as one has keys that lead back to it, all in
 * one slot. And a record that stands in the server, which anybody may have written. */
#include "lock/name.h"

#include "fuzz.h"
#include "lock/services.h"
#include "redis/keys.h"
#include "redis/script/owner_record.h"

static void check_keys(const char *prefix, const char *name)
{
	struct keys keys = {0};
	const char *found;
	size_t length;

	MUST(keys_make(&keys, prefix, name, "host:1:0"));
	MUST(keys_slot(keys.queue) == keys_slot(keys.lock));
	MUST(keys_slot(keys.who) == keys_slot(keys.lock));
	found = keys_lock_name(keys.queue, "queue", prefix, &length);
	MUST(found != NULL && length == strlen(name) && strncmp(found, name, length) == 0);
	keys_free(&keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	char *second = strchr(text, '\n');
	char once[KEYS_ONCE_SIZE];
	struct owner_record record;
	size_t length;

	if (owner_record_read(&record, text))
		MUST(memchr(record.owner.label, '\0', sizeof(record.owner.label)) != NULL);
	(void)keys_lock_name(text, "meta", "lock:", &length);
	if (second != NULL)
		*second++ = '\0';
	if (services_name_fault(text) == NULL) {
		check_keys("lock:", text);
		if (second != NULL && name_prefix_fault(second) == NULL)
			check_keys(second, text);
	}
	if (name_id_fault(text) == NULL)
		keys_once(text, once);
	free(text);
	return 0;
}
