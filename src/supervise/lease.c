#include "supervise/lease.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/number.h"

#define MARGIN_PART 10 /* of the TTL */

nanos lease_valid_until(const struct lease_terms *terms, nanos asked_at)
{
	return terms->ttl == NANOS_NEVER ? NANOS_NEVER
					 : asked_at + terms->ttl - terms->ttl / MARGIN_PART;
}

nanos lease_kill_at(nanos valid_until)
{
	return valid_until == NANOS_NEVER ? NANOS_NEVER : valid_until - LEASE_KILL_RESERVE;
}

nanos lease_stop_at(const struct lease_terms *terms, nanos valid_until)
{
	return valid_until == NANOS_NEVER ? NANOS_NEVER : lease_kill_at(valid_until) - terms->grace;
}

nanos lease_renew_every(const struct lease_terms *terms)
{
	if (terms->ttl == NANOS_NEVER)
		return NANOS_NEVER;
	return number_least(terms->ttl / 3, lease_stop_at(terms, lease_valid_until(terms, 0)) / 2);
}

nanos lease_first_renewal(const struct lease_terms *terms, nanos asked_at)
{
	nanos every = lease_renew_every(terms);

	return every != NANOS_NEVER && terms->at_least > terms->ttl ? asked_at
								    : clock_after(asked_at, every);
}

nanos lease_overrun_at(const struct lease_terms *terms, nanos granted_at)
{
	return terms->max_run == 0 ? NANOS_NEVER : clock_after(granted_at, terms->max_run);
}

struct lease *lease_open(void)
{
	int fd = memfd_create("dlock lease", MFD_CLOEXEC);
	bool is_file = fd >= 0 && ftruncate(fd, sizeof(struct lease)) == 0;
	struct lease *lease = mmap(NULL, sizeof(*lease), PROT_READ | PROT_WRITE,
		MAP_SHARED | (is_file ? 0 : MAP_ANONYMOUS), is_file ? fd : -1, 0);

	if (fd >= 0 && !is_file)
		close(fd);
	if (lease == MAP_FAILED)
		return NULL;
	lease->fd = is_file ? fd : -1;
	return lease;
}

void lease_begin_anew(struct lease *lease)
{
	struct lease_terms terms = lease->terms;

	memset(lease, 0, offsetof(struct lease, fd));
	lease->terms = terms;
}

nanos lease_validity(const struct lease *lease)
{
	nanos until = atomic_load(&lease->valid_until);

	for (int i = 0; i < LEASE_HOSTS && lease->hosts[i]; i++)
		until = number_least(until, atomic_load(&lease->hosts[i]->valid_until));
	return until;
}

void lease_adopt_ttl(struct lease *lease, int64_t ttl_ms)
{
	struct lease_terms *terms = &lease->terms;

	if (ttl_ms == 0)
		return;
	terms->ttl = ttl_ms == LOCK_NO_TTL ? NANOS_NEVER : ttl_ms * NANOS_PER_MS;
	if (terms->ttl != NANOS_NEVER)
		terms->grace = number_least(terms->grace, terms->ttl / 3);
}

bool lease_decide(struct lease *lease, enum lease_phase phase)
{
	enum lease_phase asking = LEASE_ASKING;

	return atomic_compare_exchange_strong(&lease->phase, &asking, phase);
}
