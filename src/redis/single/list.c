/* Looking at locks: for `dlock status`. Changes nothing in the server. */
#include "redis/single/single.h"

#include <bsd/stdlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/name.h"
#include "redis/keys.h"
#include "redis/link/connection.h"
#include "redis/link/error_reply.h"
#include "redis/link/link.h"
#include "redis/script/owner_record.h"
#include "redis/script/replies.h"
#include "redis/script/script.h"

#define SCAN_COUNT  "1000"
#define CURSOR_SIZE 24
#define AT_ONCE     256 /* locks that are asked about in one write */

struct found {
	char *name;       /* owned */
	struct keys keys; /* while it is asked about */
	bool shown;
};

struct listing {
	struct link own;                  /* with the URL's server */
	struct link *link;                /* borrowed; the one in use */
	const struct lock_lister *lister; /* borrowed; this one */
	struct failure *failure;
	bool scans;          /* names come by SCAN; else they are those that are asked for */
	struct found *names; /* owned */
	size_t name_count, name_size;
};

/* Set the listing's failure; false. */
static bool listing_fail_memory(struct listing *listing)
{
	return failure_set(listing->failure, EXIT_SYSTEM, "out of memory");
}

static bool listing_fail_nonsense(struct listing *listing)
{
	return error_reply_nonsense(listing->failure, link_server_name(listing->link));
}

static bool keep_name(struct listing *listing, const char *name, size_t length)
{
	if (listing->name_count == listing->name_size) {
		size_t size = listing->name_size == 0 ? 64 : 2 * listing->name_size;
		struct found *names = reallocarray(listing->names, size, sizeof(*names));

		if (!names)
			return listing_fail_memory(listing);
		listing->names = names;
		listing->name_size = size;
	}
	listing->names[listing->name_count] = (struct found){.name = strndup(name, length)};
	return listing->names[listing->name_count++].name != NULL || listing_fail_memory(listing);
}

/* A lock is found by its key, by its queue if it is free or about to be, and by what the server
 * remembers of it. */
static bool handle_key(struct listing *listing, const char *key)
{
	const struct lock_query *query = &listing->lister->query;
	size_t prefix_length = strlen(query->prefix);
	size_t length;
	const char *name = keys_lock_name(key, "queue", query->prefix, &length);

	if (!name && query->idle_too)
		name = keys_lock_name(key, "meta", query->prefix, &length);
	if (name)
		return keep_name(listing, name, length);
	/* A server that was asked for this prefix may answer anything. */
	if (strncmp(key, query->prefix, prefix_length) != 0)
		return true;
	name = key + prefix_length;
	return *name == '\0' || keys_is_companion(name) || keep_name(listing, name, strlen(name));
}

static bool scan_some(struct listing *listing, const char *pattern, char cursor[static CURSOR_SIZE])
{
	struct reply *reply;
	const struct reply *keys;
	const char *next;
	bool good;

	if (link_ask(listing->link, &reply,
		    WORDS("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT),
		    lock_lister_limit(listing->lister), listing->failure) != IO_OK)
		return false;
	next = reply_text(reply_at(reply, 0));
	keys = reply_at(reply, 1);
	good = next != NULL || listing_fail_nonsense(listing);
	snprintf(cursor, CURSOR_SIZE, "%s", next ? next : "0");
	for (size_t i = 0; good && i < reply_count(keys); i++) {
		const char *key = reply_text(reply_at(keys, i));

		good = !key || handle_key(listing, key);
	}
	reply_free(reply);
	return good;
}

/* Companions share the prefix, so nothing more narrow is asked for: one pass finds all. */
static bool scan(struct listing *listing)
{
	char *pattern = keys_pattern(listing->lister->query.prefix);
	char cursor[CURSOR_SIZE] = "0";
	bool good = pattern || listing_fail_memory(listing);

	while (good) {
		good = scan_some(listing, pattern, cursor);
		if (strcmp(cursor, "0") == 0)
			break;
	}
	free(pattern);
	return good;
}

/* A moment may lie ahead of the server's clock, which was set back meanwhile. */
static struct lock_view_owner view_owner(
	const struct owner_record *record, int64_t now_us, int64_t ttl_ms)
{
	int64_t past_us = now_us > record->moment ? now_us - record->moment : 0;

	return (struct lock_view_owner){
		.owner = record->owner,
		.mode = record->mode,
		.priority = record->priority,
		/* Handed over, and not claimed yet: it has held for no time at all. */
		.ms = ttl_ms >= 0 && !record->claimed ? 0 : past_us / 1000,
		.ttl_ms = ttl_ms,
		.since_us = record->claimed || ttl_ms < 0 ? record->moment : now_us,
		.detached = record->detached,
		.held = record->held,
	};
}

/* Both read as many as there are; how many. */
static size_t read_holders(
	struct lock_view_owner *holders, const struct reply *list, int64_t now_us)
{
	size_t count = 0;

	for (size_t i = 0; i + 2 < reply_count(list); i += 3) {
		const char *token = reply_text(reply_at(list, i + 2));
		struct owner_record record;

		if (!owner_record_read(&record, reply_text(reply_at(list, i + 1))))
			record = (struct owner_record){.claimed = true, .moment = now_us};
		holders[count] = view_owner(
			&record, now_us, reply_within(reply_at(list, i), -1, REPLIES_MS_MOST));
		holders[count++].token = token && *token != '\0' ? token : NULL;
	}
	return count;
}

/* nested: numbers of those that hold something, from 1, with their tokens. */
static size_t read_waiters(struct lock_view_owner *waiters, const struct reply *list,
	const struct reply *nested, int64_t now_us)
{
	size_t count = 0, next = 0;

	for (size_t i = 0; i < reply_count(list); i++) {
		bool is_nested = reply_integer(reply_at(nested, next)) == (int64_t)i + 1;
		struct owner_record record;

		if (owner_record_read(&record, reply_text(reply_at(list, i)))) {
			waiters[count] = view_owner(&record, now_us, -1);
			if (is_nested)
				waiters[count].token = reply_text(reply_at(nested, next + 1));
			count++;
		}
		next += is_nested ? 2 : 0;
	}
	return count;
}

static enum lock_mode read_mode(const char *kind)
{
	if (kind && strcmp(kind, "shared") == 0)
		return LOCK_SHARED;
	return kind && strcmp(kind, "permits") == 0 ? LOCK_PERMITS : LOCK_EXCLUSIVE;
}

static struct lock_counters read_counters(const struct reply *list)
{
	return (struct lock_counters){
		.acquisitions = reply_within(reply_at(list, 0), 0, INT64_MAX),
		.contentions = reply_within(reply_at(list, 1), 0, INT64_MAX),
		.timeouts = reply_within(reply_at(list, 2), 0, INT64_MAX),
		.losses = reply_within(reply_at(list, 3), 0, INT64_MAX),
		.waited_us = reply_within(reply_at(list, 4), 0, INT64_MAX),
		.held_us = reply_within(reply_at(list, 5), 0, INT64_MAX),
	};
}

static void read_hold_off(struct lock_view *view, const struct reply *reply)
{
	const char *reason = reply_text(reply_at(reply, 0));

	if (!reason)
		return;
	view->hold_off =
		strcmp(reason, "settle") == 0 ? LOCK_HOLD_OFF_SETTLE : LOCK_HOLD_OFF_RETURN;
	view->hold_off_ms = reply_within(reply_at(reply, 1), 0, REPLIES_MS_MOST);
}

static bool show_reply(
	struct listing *listing, const struct found *found, const struct reply *reply)
{
	int64_t now_us = reply_within(reply_at(reply, 0), 0, REPLIES_US_MOST);
	const char *kind = reply_text(reply_at(reply, 1));
	const struct reply *held = reply_at(reply, 4), *queue = reply_at(reply, 5);
	struct lock_view_owner *holders, *waiters;
	struct lock_view view = {
		.name = found->name,
		.key = found->keys.lock,
		.mode = read_mode(kind),
		.foreign = kind && strcmp(kind, "foreign") == 0,
		.ttl_ms = reply_within(reply_at(reply, 2), -1, REPLIES_MS_MOST),
		.fence = (uint64_t)reply_within(reply_at(reply, 3), 0, REPLIES_US_MOST),
		.counters = read_counters(reply_at(reply, 6)),
	};
	bool good;

	if (!kind)
		return listing_fail_nonsense(listing);
	run_read(&view.last_run, reply_text(reply_at(reply_at(reply, 8), 0)), now_us);
	run_read(&view.last_success, reply_text(reply_at(reply_at(reply, 8), 1)), now_us);
	view.holders = holders = calloc(reply_count(held) / 3 + 1, sizeof(*holders));
	view.waiters = waiters = calloc(reply_count(queue) + 1, sizeof(*waiters));
	good = holders && waiters;
	read_hold_off(&view, reply_at(reply, 7));
	if (good) {
		view.holder_count = read_holders(holders, held, now_us);
		view.waiter_count = read_waiters(waiters, queue, reply_at(reply, 9), now_us);
		lock_lister_show(listing->lister, &view, view.fence != 0);
	}
	free(holders);
	free(waiters);
	return good || listing_fail_memory(listing);
}

/* By itself: the answer to it was an error, or is to come by another connection. A key that is no
 * lock is passed over, unless it was asked for by its name. */
static bool show_lock(struct listing *listing, const struct found *found)
{
	struct reply *reply;
	struct call call;
	enum io_result io;
	bool good;

	listing->link->key = found->keys.lock;
	call_begin(&call, &script_inspect, &found->keys, "");
	io = link_call(
		listing->link, &call, &reply, lock_lister_limit(listing->lister), listing->failure);
	if (io != IO_OK)
		return io == IO_FAILED && listing->scans && listing->failure->code == EXIT_PROTOCOL;
	good = show_reply(listing, found, reply);
	reply_free(reply);
	return good;
}

/* In one write; the first in full, as the server may not know the script. A lock that is answered
 * with an error is left out, as are those behind a connection that broke; a server that does not
 * answer within the patience is not asked again. */
static bool show_together(struct listing *listing, struct found *found, size_t count)
{
	struct link *link = listing->link;
	struct deadline limit = lock_lister_limit(listing->lister);
	enum io_result io = link_open(link, limit, listing->failure);
	bool good = true;

	for (size_t i = 0; io == IO_OK && i < count; i++) {
		struct call call;

		call_begin(&call, &script_inspect, &found[i].keys, "");
		call_append(&call, link->connection, i == 0);
	}
	if (io == IO_OK)
		io = connection_flush(link->connection, limit, listing->failure);
	for (size_t i = 0; io == IO_OK && good && i < count; i++) {
		struct reply *reply;

		limit = lock_lister_limit(listing->lister);
		io = connection_read(link->connection, &reply, limit, listing->failure);
		if (io != IO_OK)
			break;
		link->heard = true;
		if (!reply_error(reply)) {
			good = show_reply(listing, &found[i], reply);
			found[i].shown = true;
		}
		reply_free(reply);
	}
	if (io != IO_OK || !good)
		link_drop(link);
	return good && io != IO_CANCELLED && io != IO_TIMEOUT;
}

static bool show_batch(struct listing *listing, struct found *found, size_t count)
{
	bool good = true;

	for (size_t i = 0; good && i < count; i++)
		good = keys_make(&found[i].keys, listing->lister->query.prefix, found[i].name, "");
	good = good ? show_together(listing, found, count) : listing_fail_memory(listing);
	for (size_t i = 0; i < count; i++) {
		good = good && (found[i].shown || show_lock(listing, &found[i]));
		keys_free(&found[i].keys);
	}
	return good;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct found *)a)->name, ((const struct found *)b)->name);
}

static void free_names(struct listing *listing)
{
	for (size_t i = 0; i < listing->name_count; i++)
		free(listing->names[i].name);
	listing->name_count = 0;
}

/* The locks that were found by now, each once; then none is. */
static bool show_names(struct listing *listing)
{
	const struct lock_query *query = &listing->lister->query;
	struct found *names = listing->names;
	size_t kept = 0;
	bool good = true;

	if (listing->name_count > 0)
		qsort(names, listing->name_count, sizeof(*names), compare_names);
	for (size_t i = 0; i < listing->name_count; i++) {
		const char *name = names[i].name;
		bool wanted = !listing->scans ||
			      (lock_query_wants(query, name) && !lock_query_names(query, name));

		if (wanted && (kept == 0 || strcmp(names[kept - 1].name, name) != 0))
			names[kept++] = names[i];
		else
			free(names[i].name);
	}
	listing->name_count = kept;
	for (size_t i = 0; good && i < kept; i += AT_ONCE)
		good = show_batch(listing, names + i, kept - i < AT_ONCE ? kept - i : AT_ONCE);
	free_names(listing);
	return good;
}

/* A node that cannot be reached must not be taken for one that has no locks. */
static bool look_at_node(struct listing *listing, const struct place *place)
{
	struct link node = {.server = listing->own.server, .route.home = *place};
	bool good;

	listing->link = &node;
	good = link_open(&node, lock_lister_limit(listing->lister), listing->failure) == IO_OK &&
	       node.route.home.host[0] != '\0' && scan(listing) && show_names(listing);
	listing->link = &listing->own;
	link_close(&node);
	return good;
}

/* A Cluster has no SCAN of all. */
static bool look_for_all(struct listing *listing)
{
	struct deadline limit = lock_lister_limit(listing->lister);
	struct place *places = NULL;
	size_t count = 0;
	bool good = link_open(listing->link, limit, listing->failure) == IO_OK &&
		    cluster_masters_find(listing->link, listing->lister->query.prefix, &places,
			    &count, limit, listing->failure) == IO_OK;

	if (good && count == 0)
		good = scan(listing) && show_names(listing);
	for (size_t i = 0; good && i < count; i++)
		good = look_at_node(listing, &places[i]);
	free(places);
	return good;
}

/* The locks that are named, and then, if a pattern or all are asked for, the locks that SCAN finds;
 * over the connection that there is, if there is one. */
static bool look_at_all(struct listing *listing)
{
	const struct lock_query *query = &listing->lister->query;
	struct deadline limit = lock_lister_limit(listing->lister);
	bool good = link_open(listing->link, limit, listing->failure) == IO_OK;
	bool scans = query->pattern_count == 0;

	listing->scans = false;
	for (size_t i = 0; good && i < query->pattern_count; i++)
		if (lock_query_is_glob(query, query->patterns[i]))
			scans = true;
		else
			good = keep_name(listing, query->patterns[i], strlen(query->patterns[i]));
	good = good && show_names(listing);
	listing->scans = scans;
	if (good && scans)
		good = look_for_all(listing);
	free_names(listing);
	return good;
}

static void list_close(void *state)
{
	struct listing *listing = state;

	link_close(&listing->own);
	free(listing->names);
	free(listing);
}

bool single_list(struct lock_lister *lister, struct failure *failure)
{
	struct listing *listing = lock_lister_state(lister, sizeof(*listing), list_close, failure);

	if (!listing)
		return false;
	listing->own.server = lister->server;
	listing->link = &listing->own;
	listing->lister = lister;
	listing->failure = failure;
	if (look_at_all(listing))
		return true;
	/* An answer that is still to come would be taken for the one to the next question. */
	link_drop(&listing->own);
	return false;
}
