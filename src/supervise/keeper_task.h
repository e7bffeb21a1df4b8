/* What the front gives its keeper to do. */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "supervise/contact.h"
#include "supervise/front.h"

struct lease;

/* All borrowed: the keeper has its own copy by fork. */
struct keeper_task {
	const struct front_task *run; /* lock_ask has sent the request */
	struct lease *lease;
	struct contact contact;
	nanos answer_until; /* how long the answer may take, */
	nanos answer_least; /* and from when a keeper that comes late to it notices (deadline.h) */
	bool notifies;      /* the front tells a service manager of it (notify.h) */
	bool nested;        /* there is a dlock among our ancestors */
	int wakeup_fd;      /* an eventfd that wakes the front */
	int leash;          /* of the front's guardian; -1: it has none */
};
