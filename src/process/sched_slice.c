#include "process/sched_slice.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHORTEST 100000 /* ns; less is taken for this */

/* The first version of sched_setattr(2)'s: glibc has none before 2.41, and <linux/sched/types.h>
 * does not go together with its <sched.h>. */
struct attributes {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t slice;
	uint64_t deadline;
	uint64_t period;
};

static bool get(struct attributes *attributes)
{
	return syscall(SYS_sched_getattr, 0, attributes, sizeof(*attributes), 0) == 0;
}

static bool set(const struct attributes *attributes)
{
	return syscall(SYS_sched_setattr, 0, attributes, 0) == 0;
}

uint64_t sched_slice_shorten(void)
{
	struct attributes attributes = {0};
	uint64_t before;

	/* A caller that has asked for another policy knows better; and an older kernel says 0. */
	if (!get(&attributes) || attributes.policy != SCHED_OTHER || attributes.slice <= SHORTEST)
		return 0;
	before = attributes.slice;
	attributes.slice = SHORTEST;
	return set(&attributes) ? before : 0;
}

void sched_slice_set(uint64_t slice)
{
	struct attributes attributes = {0};

	if (slice == 0 || !get(&attributes))
		return;
	attributes.slice = slice;
	set(&attributes);
}
