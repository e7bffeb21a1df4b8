/*
 * What a lock service must offer. Another one (PostgreSQL, etcd, a local file) is one more folder
 * and one more line in the table of lock.c. The contract of each member is that of lock_MEMBER in
 * lock.h; a service never sees the options, prints nothing and keeps nothing global.
 */
#ifndef DLOCK_LOCK_SERVICE_H
#define DLOCK_LOCK_SERVICE_H

#include "lock/lock.h"

struct lock_finding;
struct lock_view;
struct server;

struct lock_service {
	struct lock *(*open)(const struct server *server, const struct lock_request *request,
		struct failure *failure);
	void (*close)(struct lock *lock);
	enum lock_result (*ask)(
		struct lock *lock, struct deadline deadline, struct failure *failure);
	bool (*is_busy)(const struct lock *lock); /* may be NULL: never known so early */
	void (*answer)(struct lock *lock, struct deadline deadline, struct lock_answer *answer);
	void (*adopt_answer)(struct lock *lock, const struct lock_answer *answer);
	enum lock_result (*wait)(
		struct lock *lock, struct deadline deadline, struct failure *failure);
	void (*renew)(struct lock *lock, struct deadline deadline, struct lock_answer *answer);
	void (*release)(struct lock *lock, const struct release_terms *release_terms,
		struct deadline deadline, struct lock_answer *answer);
	bool (*release_send)(struct lock *lock, const struct release_terms *release_terms,
		struct deadline deadline); /* may be NULL: never */
	void (*release_finish)(struct lock *lock, const struct release_terms *release_terms,
		struct deadline deadline, struct lock_answer *answer);
	void (*force)(struct lock *lock,
		void (*tell)(const struct lock_answer *held, void *context), void *context,
		struct deadline deadline, struct lock_answer *answer); /* may be NULL: cannot */
	enum lock_result (*verify)(
		struct lock *lock, struct lock_answer *answer, struct deadline deadline);
	void (*reset)(struct lock *lock);
	int (*watch_fd)(const struct lock *lock);
	const char *(*token)(const struct lock *lock);
	bool (*needs_guardian)(struct lock *lock); /* may be NULL: never */
	/* Both may be NULL: it cannot be one of several locks. */
	void (*assume_asked)(struct lock *lock);
	bool (*take_token)(struct lock *lock, const char *token, struct failure *failure);
	const char *(*fences)(struct lock *lock); /* NULL: it is one lock */
	bool (*list)(const struct server *server, const char *prefix, char *const *patterns,
		size_t pattern_count, bool idle_too,
		void (*show)(const struct lock_view *view, void *context), void *context,
		struct deadline deadline, struct failure *failure);
	/* What lock_list_again() keeps between two looks, as lock_list_once() would see it; all may
	 * be NULL: then each look is a survey. */
	void *(*list_open)(const struct server *server, const char *prefix, char *const *patterns,
		size_t pattern_count, struct failure *failure);
	bool (*list_again)(void *state, void (*show)(const struct lock_view *view, void *context),
		void *context, struct deadline deadline, struct failure *failure);
	void (*list_close)(void *state);
	bool (*check)(const struct server *server, const struct lock_request *request,
		void (*take)(const struct lock_finding *finding, void *context), void *context,
		struct failure *failure);
};

/* Every service's struct lock begins with this. */
struct lock {
	const struct lock_service *service;
};

#endif
