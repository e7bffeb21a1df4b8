#include "redis/check/probe.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "redis/keys.h"

#define TEXT_SIZE     700
#define NAMES_AT_ONCE 200
#define KEY_SIZE      200 /* a prefix has 128 bytes at most */

static const char *usual_advice(enum exit_code code)
{
	switch (code) {
	case EXIT_REFUSED:
		return "the right user, password or certificate";
	case EXIT_PROTOCOL:
		return "the URL of a Redis or Valkey server";
	case EXIT_SYSTEM:
		return "more memory or descriptors for dlock (ulimit)";
	default:
		return "see that it runs, can be reached from here, and takes writes";
	}
}

void probe_report(struct probe *probe, const char *subject, enum lock_verdict verdict,
	enum exit_code code, const char *advice, const char *found, ...)
{
	char text[TEXT_SIZE];
	struct lock_finding finding = {
		probe->server->text, subject, verdict, EXIT_DONE, text, advice, NULL};
	va_list arguments;

	va_start(arguments, found);
	vsnprintf(text, sizeof(text), found, arguments);
	va_end(arguments);
	if (verdict == LOCK_UNFIT && probe->code == EXIT_DONE)
		probe->code = code;
	if (verdict == LOCK_UNFIT && !advice)
		finding.advice = usual_advice(code);
	if (verdict != LOCK_FIT)
		finding.code = verdict == LOCK_UNFIT && !probe->is_one_of_many ? code : EXIT_BUSY;
	probe->take(&finding, probe->context);
}

static enum io_result read_replies(struct probe *probe, size_t count, struct reply **replies,
	struct deadline deadline, struct failure *failure)
{
	for (size_t i = 0; i < count; i++) {
		enum io_result io =
			connection_read(probe->link.connection, &replies[i], deadline, failure);

		if (io == IO_OK)
			continue;
		while (i > 0)
			reply_free(replies[--i]);
		return io;
	}
	return IO_OK;
}

bool probe_fail(struct probe *probe, const char *subject, const struct failure *failure)
{
	probe_report(probe, subject, LOCK_UNFIT, failure->code, NULL, "%s", failure->text);
	return false;
}

bool probe_ask(struct probe *probe, const char *subject, const struct probe_command *commands,
	size_t count, struct reply **replies)
{
	struct deadline deadline = deadline_alone(clock_after(clock_now(), PROBE_LIMIT));
	struct failure failure = {0};
	enum io_result io = link_open(&probe->link, deadline, &failure);

	for (size_t i = 0; io == IO_OK && i < count; i++)
		connection_append(probe->link.connection, commands[i].words);
	if (io == IO_OK)
		io = connection_flush(probe->link.connection, deadline, &failure);
	if (io == IO_OK)
		io = read_replies(probe, count, replies, deadline, &failure);
	if (io == IO_OK)
		return true;
	link_drop(&probe->link);
	if (failure.code == EXIT_DONE)
		failure_set(&failure, EXIT_UNREACHABLE, "%s does not answer", probe->server->text);
	return subject && probe_fail(probe, subject, &failure);
}

static void write_name(char name[static 40], uint64_t number)
{
	snprintf(name, 40, "dlock-check-%016" PRIx64, number);
}

/* How many of the names from this number on there are before one that this node has; count: it has
 * none of them. */
static size_t find_own(struct probe *probe, uint64_t number, size_t count)
{
	char keys[NAMES_AT_ONCE][KEY_SIZE], name[40];
	struct probe_command asks[NAMES_AT_ONCE];
	struct reply *replies[NAMES_AT_ONCE];
	size_t own = count;

	for (size_t i = 0; i < count; i++) {
		write_name(name, number + i);
		snprintf(keys[i], KEY_SIZE, "%s%s", probe->request->prefix, name);
		asks[i] = (struct probe_command){.words = {"GET", keys[i]}};
	}
	if (!probe_ask(probe, NULL, asks, count, replies))
		return 0;
	for (size_t i = count; i-- > 0;) {
		const char *error = reply_error(replies[i]);

		if (!error || strncmp(error, "MOVED ", 6) != 0)
			own = i;
		reply_free(replies[i]);
	}
	return own;
}

/* In a Cluster other nodes have most of the keys, so one that this node has is looked for: in about
 * as many round trips as redirects are followed. */
bool probe_name_keys(struct probe *probe)
{
	uint64_t number = 0;
	size_t count = 1, own = 1;

	for (int round = 0; round <= REDIRECTS_MOST && own == count; round++) {
		count = round == 0 ? 1 : NAMES_AT_ONCE;
		if (getrandom(&number, sizeof(number), 0) < 0)
			number = (uint64_t)clock_now();
		own = find_own(probe, number, count);
	}
	write_name(probe->name, number + own);
	return keys_make(&probe->keys, probe->request->prefix, probe->name, "");
}

bool probe_is_refusal(const char *error)
{
	return strncmp(error, "NOPERM", 6) == 0 || strncmp(error, "ERR unknown command", 19) == 0;
}
