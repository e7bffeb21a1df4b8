#include "zookeeper/zookeeper_queue.h"

#include <bsd/string.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/service.h"
#include "net/server.h"

#define USUAL_PREFIX "lock:"
#define NEWER        "~dlock%d-" /* begins the nodes of another LOCK_FORMAT */
#define DIGITS       10 /* of a number; one that has run over, and is negative, is not taken */

/* --- Names ----------------------------------------------------------------------------------- */

/* No '/' in a node's name, and it is neither "." nor "..". */
static char *encode(char *at, const char *name)
{
	for (bool first = true; *name != '\0'; name++, first = false)
		if (*name == '/' || *name == '%' || (*name == '.' && first))
			at += sprintf(at, "%%%02X", (unsigned char)*name);
		else
			*at++ = *name;
	*at = '\0';
	return at;
}

static const char *prefix_part(const char *prefix)
{
	return strcmp(prefix, USUAL_PREFIX) == 0 ? "" : prefix;
}

void zookeeper_queue_path(const struct server *server, const char *prefix, const char *name,
	char path[static NODE_SIZE])
{
	char whole[NODE_SIZE / 3];

	snprintf(whole, sizeof(whole), "%s%s", prefix_part(prefix), name);
	snprintf(path, NODE_SIZE, "%s/", server->path ? server->path : "");
	encode(path + strlen(path), whole);
}

bool zookeeper_queue_name(char *child, const char *prefix, const char **name)
{
	const char *part = prefix_part(prefix);

	if (!url_decode(child) || strncmp(child, part, strlen(part)) != 0)
		return false;
	*name = child + strlen(part);
	return true;
}

void zookeeper_queue_id(const char *token, char id[static ID_SIZE])
{
	size_t length = strlen(token);

	strlcpy(id, length < ID_SIZE - 1 ? token : token + length - (ID_SIZE - 1), ID_SIZE);
}

static const struct pattern {
	const char *text;
	enum lock_mode mode;
} patterns[] = {
	{"__lock__", LOCK_EXCLUSIVE},
	{"__rlock__", LOCK_SHARED},
	{"lock-", LOCK_EXCLUSIVE},
	{"__WRIT__", LOCK_EXCLUSIVE},
	{"__READ__", LOCK_SHARED},
};

/* By style: for all but shared, and for shared. */
static const struct style {
	const char *name;
	size_t exclusive, shared; /* in patterns */
} styles[] = {{"curator", 2, 4}, {"curator-rw", 3, 4}};

void zookeeper_queue_node(const struct server *server, const struct lock_request *request,
	const char *id, char node[static NODE_SIZE])
{
	bool shared = request->mode == LOCK_SHARED;
	size_t pattern = shared;
	char permits[16] = "";
	bool curator = false;

	for (size_t i = 0; server->setting && i < 2; i++)
		if (strcmp(server->setting, styles[i].name) == 0) {
			pattern = shared ? styles[i].shared : styles[i].exclusive;
			curator = true;
		}
	if (request->mode == LOCK_PERMITS)
		snprintf(permits, sizeof(permits), "-p%d", request->permits);
	if (curator)
		snprintf(node, NODE_SIZE, "_c_%.8s-%.4s-%.4s-%.4s-%.12s%s-%s", id, id + 8, id + 12,
			id + 16, id + 20, permits, patterns[pattern].text);
	else
		snprintf(node, NODE_SIZE, "%s%s%s", id, permits, patterns[pattern].text);
}

/* --- Contenders ------------------------------------------------------------------------------ */

/* Where the number at the end of a node's name begins; NULL: there is none. */
static const char *find_number(const char *node)
{
	size_t length = strlen(node);
	const char *number = node + length - DIGITS;

	if (length < DIGITS || strspn(number, "0123456789") != DIGITS)
		return NULL;
	return number;
}

int64_t zookeeper_queue_place(const char *node)
{
	const char *number = find_number(node);

	return number ? strtol(number, NULL, 10) : 0;
}

/* The hex digits of its beginning, whatever dashes stand between them. */
static const char *read_id(const char *at, char id[static ID_SIZE])
{
	size_t length = 0;

	if (strncmp(at, "_c_", 3) == 0)
		at += 3;
	for (; length < ID_SIZE - 1 && (*at == '-' || strspn(at, "0123456789abcdef") > 0); at++)
		if (*at != '-')
			id[length++] = *at;
	id[length == ID_SIZE - 1 ? length : 0] = '\0';
	return at;
}

static bool read_contender(struct zookeeper_contender *c, const char *node)
{
	const char *number = find_number(node), *rest;

	*c = (struct zookeeper_contender){.node = node};
	if (!number)
		return false;
	rest = read_id(node, c->id);
	c->is.place = zookeeper_queue_place(node);
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		size_t length = strlen(patterns[i].text);

		if ((size_t)(number - node) < length ||
			strncmp(number - length, patterns[i].text, length) != 0)
			continue;
		c->is.mode = patterns[i].mode;
		if (sscanf(rest, "-p%d", &c->is.permits) == 1 && c->is.permits > 0)
			c->is.mode = LOCK_PERMITS;
		return true;
	}
	return false;
}

static bool fail_contender(const char *node, struct failure *failure)
{
	int format;

	if (sscanf(node, NEWER, &format) == 1 && format > LOCK_FORMAT)
		return lock_fail_format(failure, "the lock's node", format);
	return failure_set(failure, EXIT_PROTOCOL,
		"the lock's node has a child that is no lock's: %.100s", node);
}

bool zookeeper_queue_read(
	struct zookeeper_queue *queue, struct zookeeper_reply *children, struct failure *failure)
{
	*queue = (struct zookeeper_queue){
		.names = children->names, .name_count = children->name_count};
	children->names = NULL;
	children->name_count = 0;
	if (!contenders_open(&queue->all, sizeof(struct zookeeper_contender), queue->name_count))
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	for (size_t i = 0; i < queue->name_count; i++)
		if (!read_contender(zookeeper_queue_at(queue, queue->all.count++), queue->names[i]))
			return fail_contender(queue->names[i], failure);
	contenders_sort(&queue->all);
	for (size_t i = 0; i < queue->all.count; i++)
		zookeeper_queue_at(queue, i)->is.id = zookeeper_queue_at(queue, i)->id;
	return true;
}

void zookeeper_queue_free(struct zookeeper_queue *queue)
{
	for (size_t i = 0; i < queue->all.count; i++)
		free(zookeeper_queue_at(queue, i)->record);
	for (size_t i = 0; i < queue->name_count; i++)
		free(queue->names[i]);
	free(queue->names);
	contenders_free(&queue->all);
	*queue = (struct zookeeper_queue){0};
}

struct zookeeper_contender *zookeeper_queue_at(const struct zookeeper_queue *queue, size_t i)
{
	return (struct zookeeper_contender *)contenders_at(&queue->all, i);
}

/* --- Records --------------------------------------------------------------------------------- */

void zookeeper_record_write(const struct zookeeper_record *record, const struct owner *owner,
	char text[static DATA_SIZE])
{
	char own[OWNER_TEXT];
	int length = snprintf(text, DATA_SIZE,
		"dlock=1\tttl=%" PRId64 "\tsince=%" PRId64 "\tsession=%" PRIx64 "\tpassword=",
		record->ttl_ms, record->since_us, record->session.client_id);

	for (size_t i = 0; i < sizeof(record->session.passwd); i++)
		length += snprintf(text + length, DATA_SIZE - (size_t)length, "%02x",
			(unsigned char)record->session.passwd[i]);
	snprintf(text + length, DATA_SIZE - (size_t)length, "\t%s", owner_write(owner, own));
}

/* The value of a key, which a tab or the end ends; "": it is not there. */
static const char *find_value(const char *text, const char *key)
{
	size_t length = strlen(key);

	for (const char *at = text; at; at = strchr(at, '\t')) {
		at += *at == '\t';
		if (strncmp(at, key, length) == 0 && at[length] == '=')
			return at + length + 1;
	}
	return "";
}

void zookeeper_record_read(struct zookeeper_record *record, const struct zookeeper_reply *reply)
{
	const char *text, *password;
	unsigned byte;

	*record = (struct zookeeper_record){.stat = reply->stat};
	if (sscanf(reply->text, "dlock=%d\t", &record->format) != 1)
		record->format = 0;
	record->ours = record->format == LOCK_FORMAT;
	strlcpy(record->text, reply->text, sizeof(record->text));
	text = record->text;
	if (!record->ours)
		return;
	record->ttl_ms = strtoll(find_value(text, "ttl"), NULL, 10);
	record->since_us = strtoll(find_value(text, "since"), NULL, 10);
	record->session.client_id = (int64_t)strtoull(find_value(text, "session"), NULL, 16);
	password = find_value(text, "password");
	for (size_t i = 0; i < sizeof(record->session.passwd); i++)
		if (sscanf(password + 2 * i, "%2x", &byte) == 1)
			record->session.passwd[i] = (char)byte;
		else
			break;
}

bool zookeeper_record_note(struct zookeeper_contender *c, const struct zookeeper_record *record)
{
	struct contender *is = &c->is;

	c->record = malloc(sizeof(*c->record));
	if (!c->record)
		return false;
	*c->record = *record;
	is->fence = (uint64_t)record->stat.czxid;
	is->foreign = !record->ours;
	is->owner = record->ours ? c->record->text : NULL;
	is->since_us = record->ours ? record->since_us : record->stat.ctime * 1000;
	is->ttl_ms = record->ours ? record->ttl_ms : -1;
	return true;
}
