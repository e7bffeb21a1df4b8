/* The task that the front gives its keeper. */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "supervise/front.h"

struct lease;

/* All borrowed: the keeper has its own copy by fork. */
struct keeper_task {
	const struct front_task *run;
	struct lease *lease;
	bool notifies; /* the front tells a service manager of it (notify.h) */
	bool nested;   /* there is a dlock among our ancestors */
	int wakeup_fd; /* an eventfd that wakes the front */
	int news_fd;   /* readable when the front has news, or is gone; the front's is `tell_fd` */
	int tell_fd;
};
