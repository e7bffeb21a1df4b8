#include "lock/reentrance.h"

#include <bsd/string.h>
#include <string.h>

#include "lock/deadlock.h"
#include "lock/token.h"

struct finding {
	const struct lock_request *request;
	int count;
	bool (*read)(const void *context, int i, struct reentrance_holder *holder);
	const void *context;
};

static bool is_inside(const struct reentrance_holder *holder, const struct reentrance_holder *outer)
{
	return holder->around == outer->id && holder->lives;
}

static bool has_inside(const struct finding *f, const struct reentrance_holder *outer)
{
	struct reentrance_holder holder;

	for (int i = 0; i < f->count; i++)
		if (f->read(f->context, i, &holder) && is_inside(&holder, outer))
			return true;
	return false;
}

static int find_outer(const struct finding *f, struct reentrance_holder *outer)
{
	for (int i = 0; f->request->outer && i < f->count; i++)
		if (f->read(f->context, i, outer) && !outer->detached && outer->around == 0 &&
			token_is_among(f->request->outer, outer->token) &&
			strcmp(outer->owner.host, f->request->self->host) == 0 &&
			(!outer->over || has_inside(f, outer)))
			return i;
	return -1;
}

/* Whether a `dlock hold` for the same process has it, or is inside that one. */
static bool is_covered(const struct finding *f, int found, const struct reentrance_holder *outer)
{
	struct reentrance_holder holder;

	for (int i = 0; f->request->hold && i < f->count; i++)
		if (f->read(f->context, i, &holder) && holder.hold &&
			(i == found || is_inside(&holder, outer)) &&
			owner_is_same(&holder.owner, f->request->self))
			return true;
	return false;
}

int reentrance_find(const struct lock_request *request, int count,
	bool (*read)(const void *context, int i, struct reentrance_holder *holder),
	const void *context, struct lock_answer *answer)
{
	const struct finding finding = {request, count, read, context};
	struct reentrance_holder outer;
	int found = find_outer(&finding, &outer);

	if (found < 0)
		return -1;
	strlcpy(answer->holder_token, outer.token, sizeof(answer->holder_token));
	answer->whole = outer.mode == LOCK_EXCLUSIVE;
	answer->result = LOCK_WITHIN;
	if (outer.mode == LOCK_EXCLUSIVE || outer.mode == request->mode) {
		answer->covered = is_covered(&finding, found, &outer);
		return found;
	}
	deadlock_by_mode(outer.mode, answer);
	return found;
}
