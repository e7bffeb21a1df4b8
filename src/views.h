/* What a server told of its locks: each view with all that it points to is a copy of our own. */
#ifndef DLOCK_VIEWS_H
#define DLOCK_VIEWS_H

#include <stdbool.h>
#include <stddef.h>

struct failure;
struct lock_view;

/* Begins as zeros. */
struct views {
	struct lock_view *list; /* owned */
	size_t count;
	bool out_of_memory;
};

/* For lock_survey() and lock_look(): context is a struct views. */
void views_take(const struct lock_view *view, void *context);

/* By name. False with failure EXIT_SYSTEM when not all could be kept. */
bool views_sort(struct views *views, struct failure *failure);

/* They are as at the beginning then. */
void views_free(struct views *views);

#endif
