#include "lock/lock_list.h"

#include <bsd/stdlib.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "lock/name.h"
#include "lock/service.h"
#include "lock/services.h"
#include "net/server.h"

static void free_view(struct lock_view *view)
{
	free((char *)view->name);
	free((char *)view->key);
	free((struct lock_view_owner *)view->holders);
	free((struct lock_view_owner *)view->waiters);
	free((char *)view->dissent);
}

static struct lock_view_owner *copy_parties(const struct lock_view_owner *owners, size_t count)
{
	struct lock_view_owner *copy = calloc(count == 0 ? 1 : count, sizeof(*copy));

	if (copy != NULL && count > 0)
		memcpy(copy, owners, count * sizeof(*copy));
	for (size_t i = 0; copy != NULL && i < count; i++)
		copy[i].token = copy[i].held = NULL;
	return copy;
}

void lock_list_take(const struct lock_view *view, void *context)
{
	struct lock_list *views = context;
	struct lock_view *list = reallocarray(views->list, views->count + 1, sizeof(*list));
	struct lock_view copy = *view;

	if (list == NULL) {
		views->out_of_memory = true;
		return;
	}
	views->list = list;
	copy.name = strdup(view->name);
	copy.key = strdup(view->key);
	copy.holders = copy_parties(view->holders, view->holder_count);
	copy.waiters = copy_parties(view->waiters, view->waiter_count);
	copy.dissent = view->dissent == NULL ? NULL : strdup(view->dissent);
	if (copy.name == NULL || copy.key == NULL || copy.holders == NULL || copy.waiters == NULL ||
		(view->dissent != NULL && copy.dissent == NULL)) {
		views->out_of_memory = true;
		free_view(&copy);
		return;
	}
	list[views->count++] = copy;
}

static int compare_names(const void *one, const void *other)
{
	return strcmp(
		((const struct lock_view *)one)->name, ((const struct lock_view *)other)->name);
}

bool lock_list_sort(struct lock_list *views, struct failure *failure)
{
	if (views->out_of_memory)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	if (views->count > 0)
		qsort(views->list, views->count, sizeof(*views->list), compare_names);
	return true;
}

void lock_list_free(struct lock_list *views)
{
	for (size_t i = 0; i < views->count; i++)
		free_view(&views->list[i]);
	free(views->list);
	*views = (struct lock_list){0};
}

bool lock_query_is_glob(const struct lock_query *query, const char *pattern)
{
	return !query->exact && name_is_glob(pattern);
}

bool lock_query_wants(const struct lock_query *query, const char *name)
{
	for (size_t i = 0; i < query->pattern_count; i++) {
		const char *pattern = query->patterns[i];

		/* A backslash in a NAME is one. */
		if (lock_query_is_glob(query, pattern) ? fnmatch(pattern, name, 0) == 0
						       : strcmp(pattern, name) == 0)
			return true;
	}
	return query->pattern_count == 0;
}

bool lock_query_names(const struct lock_query *query, const char *name)
{
	for (size_t i = 0; i < query->pattern_count; i++)
		if (!lock_query_is_glob(query, query->patterns[i]) &&
			strcmp(query->patterns[i], name) == 0)
			return true;
	return false;
}

void lock_lister_show(const struct lock_lister *lister, const struct lock_view *view, bool known)
{
	const struct lock_query *query = &lister->query;
	bool idle_too =
		query->idle_too || (query->named_too && lock_query_names(query, view->name));

	if (view->foreign || view->holder_count + view->waiter_count > 0 || (known && idle_too))
		lister->show(view, lister->context);
}

void *lock_lister_state(struct lock_lister *lister, size_t size, void (*close)(void *state),
	struct failure *failure)
{
	if (!lister->state)
		lister->state = calloc(1, size);
	if (!lister->state)
		failure_set(failure, EXIT_SYSTEM, "out of memory");
	lister->close = close;
	return lister->state;
}

struct lock_lister *lock_list_open(
	const struct server *server, const struct lock_query *query, struct failure *failure)
{
	struct lock_lister *lister;

	if (!services_serve(server, failure))
		return NULL;
	lister = calloc(1, sizeof(*lister));
	if (lister)
		*lister = (struct lock_lister){.server = server, .query = *query};
	else
		failure_set(failure, EXIT_SYSTEM, "out of memory");
	return lister;
}

bool lock_list_look(struct lock_lister *lister, lock_view_taker *show, void *context,
	struct deadline deadline, struct failure *failure)
{
	lister->show = show;
	lister->context = context;
	lister->span = deadline.until - clock_now();
	lister->cancel_fd = deadline.cancel_fd;
	lister->least = deadline.least;
	failure->code = EXIT_DONE;
	if (lister->server->service->list(lister, failure))
		return true;
	if (failure->code == EXIT_DONE)
		failure_set(failure, EXIT_UNREACHABLE, "no answer from %s", lister->server->text);
	return false;
}

struct deadline lock_lister_limit(const struct lock_lister *lister)
{
	return (struct deadline){clock_now() + lister->span, lister->cancel_fd, lister->least};
}

void lock_list_close(struct lock_lister *lister)
{
	if (lister->state)
		lister->close(lister->state);
	free(lister);
}
