#include "views.h"

#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>

#include "failure.h"
#include "lock.h"

static void free_view(struct lock_view *view)
{
	free((char *)view->name);
	free((char *)view->key);
	free((struct lock_view_party *)view->holders);
	free((struct lock_view_party *)view->waiters);
	free((char *)view->dissent);
}

static struct lock_view_party *copy_parties(const struct lock_view_party *parties, size_t count)
{
	struct lock_view_party *copy = calloc(count == 0 ? 1 : count, sizeof(*copy));

	if (copy != NULL && count > 0)
		memcpy(copy, parties, count * sizeof(*copy));
	return copy;
}

void views_take(const struct lock_view *view, void *context)
{
	struct views *views = context;
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

bool views_sort(struct views *views, struct failure *failure)
{
	if (views->out_of_memory)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	if (views->count > 0)
		qsort(views->list, views->count, sizeof(*views->list), compare_names);
	return true;
}

void views_free(struct views *views)
{
	for (size_t i = 0; i < views->count; i++)
		free_view(&views->list[i]);
	free(views->list);
	*views = (struct views){0};
}
