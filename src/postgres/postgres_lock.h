/* One lock in a PostgreSQL database, as one holder or waiter sees it. One thread at a time. */
#pragma once

#include "lock/service.h"
#include "postgres/postgres_session.h"

#define POSTGRES_OWNER (OWNER_TEXT + 16)

struct postgres_lock {
	struct lock lock; /* first: struct lock_service's functions get this */
	struct lock_request request;
	struct postgres_session session;
	char key[641];              /* a prefix, and a name */
	char owner[POSTGRES_OWNER]; /* as it is on record */
	int64_t ticket;             /* 0: not asked yet */
	int64_t number;             /* of the session, as the server counts them; 0: none */
	uint64_t fence;             /* of the grant; 0: none, */
	nanos granted_at;           /* which was then */
	bool is_plain;              /* granted by sql_take: sql_release may do */
	nanos look_at;              /* when asking again makes sense, by itself */
};

/* The record of the owner that asks. */
void postgres_write_owner(const struct lock_request *request, char text[static POSTGRES_OWNER]);

/* struct lock_service's. */
void postgres_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer);
void postgres_take_over(struct lock *lock, const struct lock_answer *granted);
void postgres_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer);
void postgres_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer);
enum lock_result postgres_wait(
	struct lock *lock, struct deadline deadline, struct failure *failure);
void postgres_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct deadline deadline, struct lock_answer *answer);
bool postgres_check(const struct server *server, const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure);

bool postgres_list(struct lock_lister *lister, struct deadline deadline, struct failure *failure);
