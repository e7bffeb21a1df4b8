/*
 * What a lock service must offer. Another one (PostgreSQL, etcd, a local file) is one more folder
 * and one more line in the table of lock.c. The contract of each member is that of lock_MEMBER in
 * lock.h; a backend never sees the options, prints nothing and keeps nothing global.
 */
#ifndef DLOCK_BACKEND_H
#define DLOCK_BACKEND_H

#include "lock.h"

struct backend {
	struct lock *(*open)(const struct server *server, const struct lock_request *request,
		struct failure *failure);
	void (*close)(struct lock *lock);
	enum lock_result (*ask)(
		struct lock *lock, struct patience patience, struct failure *failure);
	bool (*is_busy)(const struct lock *lock); /* may be NULL: never known so early */
	void (*answer)(struct lock *lock, struct patience patience, struct lock_answer *answer);
	void (*learn)(struct lock *lock, const struct lock_answer *answer);
	enum lock_result (*listen)(
		struct lock *lock, struct patience patience, struct failure *failure);
	void (*renew)(struct lock *lock, struct patience patience, struct lock_answer *answer);
	void (*release)(struct lock *lock, const struct lock_parting *parting,
		struct patience patience, struct lock_answer *answer);
	bool (*part)(struct lock *lock, const struct lock_parting *parting,
		struct patience patience); /* may be NULL: never */
	void (*hear)(struct lock *lock, const struct lock_parting *parting,
		struct patience patience, struct lock_answer *answer);
	void (*force)(struct lock *lock,
		void (*tell)(const struct lock_answer *held, void *context), void *context,
		struct patience patience, struct lock_answer *answer); /* may be NULL: cannot */
	enum lock_result (*verify)(
		struct lock *lock, struct lock_answer *answer, struct patience patience);
	void (*reset)(struct lock *lock);
	int (*watch_fd)(const struct lock *lock);
	const char *(*token)(const struct lock *lock);
	const char *(*fences)(struct lock *lock); /* NULL: it is one lock */
	bool (*survey)(const struct server *server, const char *prefix, char *const *patterns,
		size_t pattern_count, bool idle_too,
		void (*show)(const struct lock_view *view, void *context), void *context,
		struct patience patience, struct failure *failure);
	/* What lock_look() keeps between two looks, as lock_survey() would see it; all may be NULL:
	 * then each look is a survey. */
	void *(*look_open)(const struct server *server, const char *prefix, char *const *patterns,
		size_t pattern_count, struct failure *failure);
	bool (*look)(void *state, void (*show)(const struct lock_view *view, void *context),
		void *context, struct patience patience, struct failure *failure);
	void (*look_close)(void *state);
	bool (*examine)(const struct server *server, const struct lock_request *request,
		void (*take)(const struct lock_finding *finding, void *context), void *context,
		struct failure *failure);
};

/* Every backend's struct lock begins with this. */
struct lock {
	const struct backend *backend;
};

#endif
