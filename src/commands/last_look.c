#include "commands/last_look.h"

#include <string.h>

#include "cli/options.h"
#include "lock/lock_list.h"

#define LIMIT (80 * NANOS_PER_MS) /* -w is kept to 100 ms or so */

struct look {
	const char *name;
	struct lock_answer *answer;
	bool seen;
};

/* If there are sharers: the one that was named before, if it is still among them. */
static const struct lock_view_owner *find_holder(
	const struct lock_view *view, const struct owner *before)
{
	for (size_t i = 0; i < view->holder_count; i++)
		if (owner_is_same(&view->holders[i].owner, before))
			return &view->holders[i];
	return view->holder_count > 0 ? &view->holders[0] : NULL;
}

static void take(const struct lock_view *view, void *context)
{
	struct look *look = context;
	struct lock_answer *answer = look->answer;
	const struct lock_view_owner *holder = find_holder(view, &answer->holder);

	if (strcmp(view->name, look->name) != 0)
		return;
	look->seen = true;
	answer->known = holder != NULL;
	answer->free_in_ms = view->ttl_ms;
	if (!view->foreign)
		answer->foreign = NULL;
	else if (!answer->foreign)
		answer->foreign = "another client";
	if (holder) {
		answer->holder = holder->owner;
		answer->held_ms = holder->ms;
	} else {
		answer->free_in_ms = view->foreign ? view->ttl_ms : 0;
	}
}

enum last_look last_look(const struct options *options, struct lock_answer *answer)
{
	struct look look = {answer->name ? answer->name : options->name, answer, false};
	const struct lock_query query = {
		options->prefix, (char *const[]){(char *)look.name}, 1, false, false, true};
	struct failure unheard;
	struct lock_lister *lister = lock_list_open(options->server, &query, &unheard);
	struct deadline limit = {.until = clock_now() + LIMIT, .cancel_fd = -1};
	bool done = lister && lock_list_look(lister, take, &look, limit, &unheard);

	if (lister)
		lock_list_close(lister);
	if (!done)
		return LAST_LOOK_UNHEARD;
	return look.seen ? LAST_LOOK_HELD : LAST_LOOK_FREE;
}
