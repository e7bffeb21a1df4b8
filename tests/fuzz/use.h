/* What is done with a lock, for fuzzers: each checks what comes of it. */
#ifndef USE_H
#define USE_H

#include "lock/lock.h"

/* Opens it; NULL: that was refused, which is checked. lock_close() with it. */
struct lock *use_open(const struct server *server, const struct lock_request *request);

/* Asks, and waits where it is busy. True: it was granted. */
bool use_acquire(struct lock *lock, struct lock_answer *answer);

/* Renews it some times. */
void use_renew(struct lock *lock, struct lock_answer *answer);

/* Gives it back. */
void use_give(struct lock *lock, struct lock_answer *answer);

/* All of these, one after the other, and closes it. */
void use_whole(struct lock *lock);

/* The same with one that it opens. */
void use_lock(const struct server *server, const struct lock_request *request);

/* Breaks it. */
void use_force(struct lock *lock, struct lock_answer *answer);

/* Looks at the locks of these names. */
void use_survey(const struct server *server, char *const *names, size_t name_count, bool idle_too);

/* The same twice, over the same connection. */
void use_look(const struct server *server, char *const *names, size_t name_count);

/* Is it fit? */
void use_examine(const struct server *server, const struct lock_request *request);

#endif
