#include "supervise/lease.h"

#include <stddef.h>
#include <sys/mman.h>

#define MARGIN_PART 10 /* of the TTL */

static nanos smaller(nanos a, nanos b)
{
	return a < b ? a : b;
}

nanos lease_valid_until(const struct lease_terms *terms, nanos asked_at)
{
	return asked_at + terms->ttl - terms->ttl / MARGIN_PART;
}

nanos lease_kill_at(nanos valid_until)
{
	return valid_until - LEASE_KILL_RESERVE;
}

nanos lease_stop_at(const struct lease_terms *terms, nanos valid_until)
{
	return lease_kill_at(valid_until) - terms->grace;
}

nanos lease_renew_every(const struct lease_terms *terms)
{
	return smaller(terms->ttl / 3, lease_stop_at(terms, lease_valid_until(terms, 0)) / 2);
}

nanos lease_overrun_at(const struct lease_terms *terms, nanos granted_at)
{
	return terms->max_run == 0 ? NANOS_NEVER : clock_after(granted_at, terms->max_run);
}

struct lease *lease_open(void)
{
	struct lease *lease = mmap(
		NULL, sizeof(*lease), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return lease == MAP_FAILED ? NULL : lease;
}

void lease_reset(struct lease *lease)
{
	atomic_store(&lease->valid_until, 0);
	lease->granted_at = 0;
	atomic_store(&lease->phase, LEASE_ASKING);
}

bool lease_decide(struct lease *lease, enum lease_phase phase)
{
	enum lease_phase asking = LEASE_ASKING;

	return atomic_compare_exchange_strong(&lease->phase, &asking, phase);
}
