/* Several locks as one, as its own files share it: lock_set.c takes them, lock_set_held.c has
 * them: renews, gives back. */
#ifndef DLOCK_LOCK_SET_OWN_H
#define DLOCK_LOCK_SET_OWN_H

#include "backend.h"

#define SET_HELD 16384 /* what does not fit is left out */

struct member {
	struct lock *lock; /* owned */
	const char *name;
	bool asked;  /* something may be left in the server */
	bool within; /* an outer dlock holds it: nothing to renew, nothing to give back */
	nanos asked_at;
	struct lock_answer answer; /* the last; while it is held, that of the grant */
	char token[LOCK_TOKEN_SIZE];
	uint64_t fence;
};

struct lock_set {
	struct lock lock; /* first: struct backend's functions get this */
	nanos renew_every;
	nanos retry_at; /* after a renewal that failed */
	size_t count;
	size_t next;            /* the first that is not held: asked, or waited for */
	size_t named;           /* request.name's */
	bool put_by;            /* members[next].answer is the answer to lock_ask */
	char *fences;           /* owned */
	const char *outer_held; /* borrowed: request.held */
	char held[SET_HELD];    /* the same, and our own: the members' request.held */
	struct member members[];
};

/* --- lock_set_held.c --- */

/* Takes over a grant from member->answer. */
void member_note_grant(struct member *member);

/* Neither to be renewed nor given back where an outer dlock holds it. */
bool member_is_ours(const struct member *member);

/* From when those that are held count; NANOS_NEVER: none of them is ours. */
nanos set_oldest(const struct lock_set *set);

/* When those that are held are to be renewed; NANOS_NEVER: none is. */
nanos set_refresh_due(const struct lock_set *set);

/* Renews what is held, where that is due; gives all back where one of them was lost. */
void set_refresh(struct lock_set *set, struct patience patience);

/* struct backend's */
void set_renew(struct lock *lock, struct patience patience, struct lock_answer *answer);
void set_release(struct lock *lock, const struct lock_parting *parting, struct patience patience,
	struct lock_answer *answer);
enum lock_result set_verify(
	struct lock *lock, struct lock_answer *answer, struct patience patience);

#endif
