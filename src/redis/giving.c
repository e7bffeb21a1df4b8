/* Giving back, and seeing to it that what was handed on was taken. */
#include "redis/single.h"

#include <stddef.h>
#include <string.h>

#include "redis/connection.h"
#include "redis/fault.h"
#include "server.h"

#define BEHIND_MOST (500 * NANOS_PER_MS) /* for a release behind a request that is not answered */

bool single_by_token(const struct single *single)
{
	return single->request.detached && single->request.token;
}

bool single_read_denial(const struct reply *reply, struct lock_answer *answer)
{
	static const struct {
		const char *word, *reason;
	} denials[] = {
		{"denied", "not held with this token: it is wrong, or has expired"},
		{"ended", "the lock was given back with this token before"},
		{"attended", "the token is that of a holder who still runs and gives the lock back "
			     "himself; --force breaks it"},
	};
	const char *word = reply_text(reply_at(reply, 0));

	for (size_t i = 0; word && i < sizeof(denials) / sizeof(denials[0]); i++) {
		if (strcmp(word, denials[i].word) != 0)
			continue;
		answer->result = LOCK_LOST;
		failure_set(&answer->failure, EXIT_BUSY, "%s", denials[i].reason);
		return true;
	}
	return false;
}

/* The same moment by the server's clock (us): what is handed to it late proves nothing. 0: it is
 * past. The grant was made before its answer came, so this is rather too early. */
static int64_t proof_ends(const struct single *single, const struct lock_parting *parting)
{
	if (single->since_us == 0 || parting->valid_until <= clock_now())
		return 0;
	return single->since_us + (parting->valid_until - single->granted_at) / NANOS_PER_US;
}

static void begin_release(
	struct single *single, struct call *call, const struct lock_parting *parting)
{
	const struct lock_request *request = &single->request;

	if (single_by_token(single)) {
		call_begin(call, &script_detached_release, &single->keys, single->token);
		call_add(call, "");
		return;
	}
	call_begin(call, &script_release, &single->keys, single->token);
	call_add(call, single->mode);
	call_add_number(call, parting->keep_ms);
	call_add_number(call, (int64_t)single->fence);
	call_add_number(call, (int64_t)single->generation);
	call_add_number(call, single->since_us);
	call_add_number(call, single->loss_told ? 0 : 1);
	call_add_number(call, parting->success ? 1 : 0);
	call_add_number(call, request->cooldown_ms);
	call_add(call, single->once);
	call_add_number(call, request->once_for_ms);
	call_add_number(call, proof_ends(single, parting));
}

/* False: it is no answer to a release. */
static bool read_release(
	const struct single *single, const struct reply *reply, struct lock_answer *answer)
{
	static const struct {
		const char *word;
		enum lock_result result;
	} words[] = {{"released", LOCK_RELEASED}, {"gone", LOCK_GONE}, {"lost", LOCK_LOST}};
	const char *word = reply_text(reply_at(reply, 0));

	for (size_t i = 0; word && i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(word, words[i].word) != 0)
			continue;
		answer->result = words[i].result;
		single_read_handed(reply_at(reply, 1), answer);
		return true;
	}
	if (!single_by_token(single) || !single_read_denial(reply, answer))
		return false;
	/* On the connection before this one the same release may have landed. */
	if (single->session.dials > 1 && word && strcmp(word, "ended") == 0) {
		answer->result = LOCK_RELEASED;
		single_read_handed(reply_at(reply, 1), answer);
	}
	return true;
}

static bool is_redirect(const char *error)
{
	struct failure unheard;

	return error && fault_read(error, "", &unheard) == FAULT_REDIRECT;
}

/*
 * A request is under way on this connection. Sent behind it, the release cannot be overtaken by it,
 * as it could on a connection of its own: what is granted late would then stay for a TTL. How many
 * replies come first is not known where a child has read some; none of them looks like ours. A
 * release in full needs no second request.
 */
static enum wire release_behind(struct single *single, struct call *call, struct patience patience,
	struct lock_answer *answer)
{
	struct session *session = &single->session;
	nanos left = patience.until == NANOS_NEVER ? NANOS_NEVER : patience.until - clock_now();
	struct patience limit =
		patience_within(patience, left / 2 < BEHIND_MOST ? left / 2 : BEHIND_MOST);
	enum wire wire = WIRE_CLOSED;
	bool found = false;

	if (call_append(call, session->connection, true))
		wire = connection_flush(session->connection, limit, &answer->failure);
	while (wire == WIRE_OK && !found) {
		struct reply *reply;

		wire = connection_read(session->connection, &reply, limit, &answer->failure);
		if (wire != WIRE_OK)
			break;
		found = read_release(single, reply, answer);
		/* What is under way there will not be granted there. */
		if (!found && is_redirect(reply_error(reply)))
			wire = session_heed(session, reply_error(reply), &answer->failure);
		reply_free(reply);
	}
	session->waiting = session->owes = false;
	session->greetings = 0;
	if (found)
		return WIRE_OK;
	session_drop(session);
	return wire == WIRE_FAILED ? WIRE_CLOSED : wire;
}

static enum wire release_once(struct single *single, const struct lock_parting *parting,
	struct patience patience, struct lock_answer *answer)
{
	struct session *session = &single->session;
	struct reply *reply;
	struct call call;
	enum wire wire;

	begin_release(single, &call, parting);
	waiting_stop(single);
	/* Behind a WAIT it would wait as well; on a connection of its own it may overtake the
	 * request, which then finds that its token has ended. */
	if (session->connection && session->waiting && !session->owes)
		return release_behind(single, &call, patience, answer);
	wire = session_call(session, &call, &reply, patience, &answer->failure);
	if (wire != WIRE_OK)
		return wire;
	if (!read_release(single, reply, answer)) {
		fault_nonsense(&answer->failure, session_peer(session));
		wire = WIRE_FAILED;
	}
	reply_free(reply);
	return wire;
}

/* Nothing of this attempt is left in the server. */
static void forget(struct single *single)
{
	single->asked = false;
	single->loss_told = false;
	single->fence = single->generation = single->ticket = 0;
	single->since_us = 0;
	single->granted_at = 0;
	single->spent = true;
}

bool single_part(struct lock *lock, const struct lock_parting *parting, struct patience patience)
{
	struct single *single = (struct single *)lock;
	struct session *session = &single->session;
	struct failure unheard;
	struct call call;

	if (!session->connection || session->waiting || session->dials != single->asked_on ||
		session->server->tls)
		return false;
	begin_release(single, &call, parting);
	/* It may have gone over another connection in the end. */
	return session_send(session, &call, patience, &unheard) == WIRE_OK &&
	       session->dials == single->asked_on;
}

/* Whatever is not in order is left to an ordinary release, which may be repeated. */
void single_hear(struct lock *lock, const struct lock_parting *parting, struct patience patience,
	struct lock_answer *answer)
{
	struct single *single = (struct single *)lock;
	struct session *session = &single->session;
	struct reply *reply;
	struct call call;
	bool heard = false;

	single_clear(answer);
	begin_release(single, &call, parting);
	session->waiting = true;
	if (session->connection &&
		session_receive(session, &call, &reply, patience, &answer->failure) == WIRE_OK) {
		heard = read_release(single, reply, answer);
		reply_free(reply);
	}
	if (heard)
		forget(single);
	else
		single_release(lock, parting, patience, answer);
}

void single_release(struct lock *lock, const struct lock_parting *parting, struct patience patience,
	struct lock_answer *answer)
{
	static const struct lock_parting plain;
	struct single *single = (struct single *)lock;
	enum wire wire;

	single_clear(answer);
	answer->result = LOCK_RELEASED;
	if (!single->asked)
		return;
	for (;;) {
		wire = release_once(single, parting ? parting : &plain, patience, answer);
		if (wire == WIRE_OK) {
			forget(single);
			return;
		}
		answer->result =
			wire == WIRE_TIMEOUT ? LOCK_TIMEOUT : single_result(wire, patience);
		if (wire == WIRE_CANCELLED ||
			(wire == WIRE_FAILED && answer->failure.code != EXIT_UNREACHABLE))
			return;
		if (single_by_token(single) && single->session.dials == 0)
			return;
		if (!single_pause(patience, &answer->result))
			return;
	}
}

enum lock_result single_verify(
	struct lock *lock, struct lock_answer *answer, struct patience patience)
{
	struct single *single = (struct single *)lock;
	struct reply *reply;
	struct call call;
	enum wire wire;

	waiting_stop(single);
	call_begin(&call, &script_verify, &single->keys, single->token);
	for (int i = 0; i < answer->handed_count; i++)
		call_add(&call, answer->handed[i]);
	wire = session_call(&single->session, &call, &reply, patience, &answer->failure);
	if (wire != WIRE_OK) {
		/* What comes late would be taken for the answer to what is asked next. */
		session_drop(&single->session);
		return single_result(wire, patience);
	}
	single_read_handed(reply_at(reply, 1), answer);
	reply_free(reply);
	return LOCK_RELEASED;
}
