/* What stands in ZooKeeper under a lock's node: lines "CHILD RECORD". */
#include "fuzz.h"
#include "line.h"
#include "zookeeper/zookeeper_queue.h"

#define MOST 200

static char *copy(const char *text)
{
	char *copied = strdup(text);

	MUST(copied != NULL);
	return copied;
}

/* Each says of itself what the line has behind its name. */
static void note(struct zookeeper_queue *queue, char *const *records)
{
	for (size_t i = 0; i < queue->all.count; i++) {
		struct zookeeper_contender *c = zookeeper_queue_at(queue, i);
		struct zookeeper_reply reply = {.stat = {.czxid = 7, .ctime = 9}};
		struct zookeeper_record record;

		for (size_t j = 0; j < queue->name_count; j++)
			if (queue->names[j] == c->node && records[j])
				snprintf(reply.text, sizeof(reply.text), "%s", records[j]);
		zookeeper_record_read(&record, &reply);
		MUST(zookeeper_record_note(c, &record));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *rest = text, *line;
	struct zookeeper_reply children = {.names = calloc(MOST, sizeof(*children.names))};
	char *records[MOST] = {NULL};
	struct failure failure = {0};
	struct zookeeper_queue queue;

	MUST(children.names != NULL);
	while (children.name_count < MOST && (line = strsep(&rest, "\n")) != NULL) {
		char *name = strsep(&line, " ");

		records[children.name_count] = line;
		children.names[children.name_count++] = copy(name);
	}
	if (zookeeper_queue_read(&queue, &children, &failure)) {
		line_try(&queue.all);
		note(&queue, records);
		line_try(&queue.all);
	} else {
		MUST(failure.code == EXIT_PROTOCOL);
	}
	zookeeper_queue_free(&queue);
	free(text);
	return 0;
}
