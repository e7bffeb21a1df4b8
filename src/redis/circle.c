#include "redis/circle.h"

#include <bsd/string.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "redis/connection.h"
#include "redis/single.h"

#define FIRST     NANOS_PER_SEC        /* most waits are over by then */
#define AGAIN     (20 * NANOS_PER_SEC) /* within a record's life: LIFE in circle.lua */
#define CONFIRM   (300 * NANOS_PER_MS) /* for proofs to come */
#define LIMIT     (500 * NANOS_PER_MS) /* for the server */
#define CONFIRMED 2
#define HELD_MOST 16

void circle_begin(struct single *single)
{
	struct circle *circle = &single->waiting.circle;
	const char *held = single->request.held;

	if (!held || *held == '\0')
		circle->look_at = NANOS_NEVER;
	else if (circle->look_at == 0 || (circle->look_at == NANOS_NEVER && !circle->unable))
		circle->look_at = clock_now() + FIRST;
}

void circle_note_proof(struct single *single, const char *text)
{
	strlcpy(single->waiting.circle.proof, text, CIRCLE_PROOF);
}

nanos circle_due(const struct circle *circle)
{
	return circle->proof[0] != '\0' ? 0 : circle->look_at;
}

/* The keys to publish under, from lines "TOKEN NAME". How many. */
static size_t make_keys(const struct single *single, struct keys keys[static HELD_MOST],
	char tokens[static HELD_MOST][LOCK_TOKEN_SIZE])
{
	const char *line = single->request.held;
	size_t count = 0;

	while (*line != '\0' && count < HELD_MOST) {
		char text[LOCK_TOKEN_SIZE + 520];
		size_t length = strcspn(line, "\n");
		char *name;

		snprintf(text, sizeof(text), "%.*s", (int)length, line);
		line += length + (line[length] == '\n');
		name = strchr(text, ' ');
		if (!name)
			continue;
		*name++ = '\0';
		strlcpy(tokens[count], text, LOCK_TOKEN_SIZE);
		if (!keys_make(&keys[count], single->request.prefix, name, text))
			break;
		count++;
	}
	return count;
}

static enum wire ask(struct single *single, const char *next, struct reply **reply)
{
	struct circle *circle = &single->waiting.circle;
	struct keys keys[HELD_MOST];
	char tokens[HELD_MOST][LOCK_TOKEN_SIZE];
	size_t count = make_keys(single, keys, tokens);
	struct patience patience = {clock_now() + LIMIT, -1};
	struct failure unheard;
	struct call call;
	enum wire wire;

	call_begin(&call, &script_circle, &single->keys, single->token);
	call_add_number(&call, (int64_t)single->ticket);
	call_add(&call, circle->proof);
	call_add(&call, circle->asked);
	call_add(&call, next);
	for (size_t i = 0; i < count; i++) {
		call_add(&call, keys[i].waits);
		call_add(&call, tokens[i]);
	}
	wire = session_call(&single->session, &call, reply, patience, &unheard);
	for (size_t i = 0; i < count; i++)
		keys_free(&keys[i]);
	return wire;
}

/* "host:pid", of a token. */
static int owner_length(const char *token)
{
	const char *last = strrchr(token, ':');

	return last ? (int)(last - token) : (int)strlen(token);
}

/* a is held by web3:77, which waits for b, which is held by web4:9, which waits for ... */
static void describe(const struct single *single, const struct reply *list, struct failure *failure)
{
	size_t prefix = strlen(single->request.prefix);
	char text[sizeof(failure->text)];
	size_t used = (size_t)snprintf(text, sizeof(text), "%.60s", single->request.name);

	for (size_t i = 0; i + 1 < reply_count(list) && used < sizeof(text); i += 2) {
		const char *holder = reply_text(reply_at(list, i));
		const char *key = reply_text(reply_at(list, i + 1));

		if (!holder || !key || strlen(key) < prefix)
			break;
		used += (size_t)snprintf(text + used, sizeof(text) - used,
			" is held by %.*s, which waits for %.60s, which", owner_length(holder),
			holder, key + prefix);
	}
	failure_set(failure, EXIT_DEADLOCK, "waiting would deadlock: %s is held around here", text);
}

/* A circle in which we are the last: again, until that is certain. */
static enum wire confirm(
	struct single *single, const char *next, const struct reply *list, struct failure *failure)
{
	struct circle *circle = &single->waiting.circle;

	if (circle->asked[0] != '\0' && ++circle->confirmed == CONFIRMED) {
		describe(single, list, failure);
		return WIRE_FAILED;
	}
	strlcpy(circle->asked, next, CIRCLE_PROOF);
	circle->look_at = clock_now() + CONFIRM;
	return WIRE_OK;
}

enum wire circle_look(struct single *single, struct failure *failure)
{
	struct circle *circle = &single->waiting.circle;
	bool only_proves = circle->proof[0] != '\0';
	char next[CIRCLE_PROOF] = "";
	struct reply *reply;
	const char *word;
	enum wire wire;

	if (!only_proves)
		snprintf(next, sizeof(next), "%.32s%u", single->token + owner_length(single->token),
			++circle->round);
	wire = ask(single, next, &reply);
	circle->proof[0] = '\0';
	/* Whoever asks for proof has seen a circle: we shall see it too. */
	if (!only_proves || circle->look_at > clock_now() + FIRST)
		circle->look_at = clock_now() + (only_proves ? FIRST : AGAIN);
	if (wire == WIRE_FAILED) {
		circle->unable = true;
		circle->look_at = NANOS_NEVER;
		return WIRE_OK;
	}
	/* It cannot just now: the wait itself will find out whether that is for good. */
	if (wire == WIRE_AGAIN && single->session.connection)
		return WIRE_OK;
	if (wire != WIRE_OK)
		return WIRE_CLOSED;
	word = reply_text(reply_at(reply, 0));
	if (word && strcmp(word, "circle") == 0) {
		wire = confirm(single, next, reply_at(reply, 1), failure);
	} else if (!only_proves) {
		if (circle->asked[0] != '\0') /* not every one has given its proof */
			circle->look_at = clock_now() + FIRST;
		circle->asked[0] = '\0';
		circle->confirmed = 0;
	}
	reply_free(reply);
	return wire;
}
