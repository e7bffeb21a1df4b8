/*
 * A named lock with a TTL on some lock service, spoken to as one party that wants or holds it.
 *
 * A struct lock belongs to one process, and in it to one thread at a time. It is opened before the
 * fork and used after it, by one side; the other may take over when that one is dead
 * (lock_take_over). No call blocks longer than its patience. Nothing is said on stderr: failures
 * travel in struct failure.
 */
#pragma once

#include "base/clock.h"
#include "base/deadline.h"
#include "base/failure.h"
#include "lock/owner.h"
#include "lock/run.h"

struct lock;
struct server;

#define LOCK_TOKEN_SIZE  120 /* host:pid:128 random bits in hex, and the NUL */
#define LOCK_SERVER_SIZE 288
#define LOCK_OWN_SIZE    64
#define LOCK_NO_TTL      INT64_MAX

enum lock_mode { LOCK_EXCLUSIVE, LOCK_SHARED, LOCK_PERMITS };

/* The wish. Borrowed strings must outlive the lock. */
struct lock_request {
	const char *name;
	const char *prefix;
	enum lock_mode mode;
	int permits; /* with LOCK_PERMITS */
	int64_t ttl_ms;
	bool ttl_named; /* the command line itself asks for it; else the service may shorten it */
	int64_t at_least_ms; /* keep it that long from its grant, even if no process renews it */
	int64_t cooldown_ms; /* a success will do (LOCK_ALREADY) that began later than that before
			      * we first asked for the lock; 0: none */
	const char *once;    /* so does one on record under this ID; NULL: none */
	int64_t once_for_ms; /* for how long ours is put on record under it */
	int64_t settle_ms;   /* take nothing from a server that has been up for less than that, */
	bool settle_asked;   /* refuse one that does not say for how long, too; else it passes */
	bool settle_named;   /* the command line itself asks for it: a service without is refused */
	bool detached;       /* no process stays with it: it lives for its TTL; to renew or release
			      * it takes no more than its token (below), whose lock, mode and TTL
			      * the server then knows */
	bool queues;         /* busy: take a place in the queue (else -n) */
	int replicas;        /* a grant counts when so many have it; 0: do not ask */
	int64_t replicas_ms; /* within that */
	int priority;        /* a point counts as a minute of waiting */
	bool watched;        /* a user looks on while we wait: asks again when our rank changes */
	const char *held;    /* the dlocks that we run under: lines "TOKEN NAME", of each lock that
			      * one holds; may change between requests; NULL: none */
	const char *token;   /* NULL: a fresh one; else the owner token of a detached lock */
	int64_t fence;       /* lock_force: only the holder that has this fencing token; 0: all */
	char *token_page;    /* borrowed; LOCK_TOKEN_SIZE bytes that always have the token before it
			      * is asked with, for another process to read; NULL: nobody does */
	bool hold;           /* self is not the asker, but a process that is to hold the lock: one
			      * that does so already needs no second dlock for it */
	const struct owner *self; /* the owner that asks. It may change: the next renewal puts on
				   * record what it is then */
};

/* Whether it is about a lock that another process took: renewed or released by its token. Pure. */
bool lock_is_by_token(const struct lock_request *request);

/* How long the server is to keep the lock from now on, in ms. granted_at 0: it is not known to be
 * granted, and --at-least does not count yet, as a keeper renews at once if that asks for more. A
 * detached lock has no keeper. */
int64_t lock_ttl_ms(const struct lock_request *request, nanos granted_at);

enum lock_result {
	LOCK_GRANTED,   /* acquire: it is ours. renew: extended */
	LOCK_SET_AGAIN, /* renew: the server had lost it, no other took it, it is ours again */
	LOCK_PART,      /* acquire: one of several locks is ours; the next is to be asked for at
			 * once */
	LOCK_BUSY,      /* acquire: another holds it, or is ahead */
	LOCK_AROUND,    /* asking_run's: a dlock around this one holds it */
	LOCK_ALREADY,   /* acquire: the success that the request asks for is there; nothing is held
			 */
	/* From here to LOCK_LOST a release of several locks answers what comes last. */
	LOCK_RELEASED,  /* release: done */
	LOCK_GONE,      /* release: it was not there, and no owner the server knows had it since;
			 * or no grant is known here, and there was nothing to take back */
	LOCK_TIMEOUT,   /* patience ran out */
	LOCK_CANCELLED, /* cancel_fd became readable */
	LOCK_FAILED,    /* see failure; a code of EXIT_UNREACHABLE may be tried again */
	LOCK_LOST,      /* renew, release: proven that another owner has or had it, or it was ended;
			 * acquire: this attempt was ended meanwhile, asking again makes another */
	LOCK_UNREPLICATED, /* acquire: fewer replicas than request.replicas had it in time; given
			    * back; see failure */
};

/* Plain data: it crosses from the keeper to the front in shared memory. */
struct lock_answer {
	enum lock_result result;
	struct failure failure; /* LOCK_FAILED */
	bool flawed; /* renew and release, though they succeeded: failure says what could not be put
		      * on record */

	char server[LOCK_SERVER_SIZE]; /* which server gave it, if the URL does not say; "": it
					* does */

	/* LOCK_GRANTED, LOCK_SET_AGAIN */
	nanos asked_at;   /* before the request that was granted left: validity counts from here */
	uint64_t fence;   /* LOCK_BUSY: the last that the server gave; 0: none */
	nanos granted_at; /* when its answer came */
	int64_t ttl_ms;   /* the TTL that was really granted; 0: the one that was asked for;
			   * LOCK_NO_TTL: none is needed while a process holds it (of a foreign
			   * holder: LOCK_BUSY too) */
	bool has_slot; /* with permits: no other holder has `slot`, 0 to permits - 1; the lowest */
	int slot;
	bool unsettled; /* the server did not say for how long it has been up */

	struct lock_run done; /* LOCK_ALREADY: that success; of one under an ID only when it was */

	/* LOCK_BUSY */
	const char *name;    /* of several locks the one that is busy; borrowed; NULL: the only one
			      */
	const char *foreign; /* the holder, if it is no dlock ("another ... client"): static;
			      * NULL: a dlock does */
	nanos look_at;       /* when the lock may come free by expiry */
	int rank;            /* how many are ahead in the queue; -1: not queued */
	char holder_token[LOCK_TOKEN_SIZE]; /* cut to fit; of sharers the first to run out; "", or
					     * no token: it has given the lock back, which stays
					     * for a while; or there is none */
	bool known;                         /* holder, held_ms are filled in */
	bool detached;                      /* no process stays with it; lock_force alone says so */
	struct owner holder;
	int64_t held_ms;
	int64_t free_in_ms;  /* the holder's expiry; -1: it has none */
	int64_t settling_ms; /* nothing but request.settle_ms is in the way, for so long; 0 */
	int64_t up_ms;       /* then: for how long the server has been up */

	/* The service's own: what its functions in the front need of what they learnt in a keeper.
	 */
	_Alignas(8) unsigned char own[LOCK_OWN_SIZE];
};

/* With what a lock is released. */
struct release_terms {
	int64_t keep_ms; /* > 0: instead let it expire then (--at-least) */
	bool success;    /* COMMAND ended well: to be put on record, unless the lock was lost */
	bool ran;        /* a COMMAND ended: so is that, with its exit code */
	int exit;
	nanos valid_until; /* the end of the lease; in the past: no proof that it was ours so far */
};

/* Whether the server's service can do what the request asks for, and `abilities` (enum lock_ability
 * in service.h) beside. False with failure EXIT_USAGE: the one place where an option is refused
 * because a service lacks it. Pure. */
bool lock_service_can(const struct server *server, const struct lock_request *request,
	unsigned abilities, struct failure *failure);

/* Prepares a lock; nothing is sent yet. NULL with failure, lock_service_can's too. */
struct lock *lock_open(
	const struct server *server, const struct lock_request *request, struct failure *failure);
void lock_close(struct lock *lock);

/* One attempt to acquire: connects if that is needed, sends the request, and awaits the answer.
 * Meanwhile repeats it: in full if the server does not know the script, after a pause if it cannot
 * answer just now (LOADING, a failover). Any result that enum lock_result has for acquire. Of
 * several locks (lock_set.h) it is an attempt to acquire the next, and LOCK_LOST may mean: one that
 * was held was lost, all were released, ask again. */
void lock_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer);

/* Whether a server may have taken up a request of ours: lock_release takes it back. Pure. */
bool lock_may_be_asked(const struct lock *lock);

/* For a process that was forked before anything was asked, once the one that asked is dead: by the
 * token that stands in request.token_page, lock_release gives back whatever that one had. granted:
 * its answer, if it held the lock: then lock_renew goes on for it. Else NULL, and nothing else may
 * be called but lock_close. */
void lock_take_over(struct lock *lock, const struct lock_answer *granted);

/* After LOCK_BUSY with request.queues: waits until asking again makes sense, by message, and by
 * the holder's expiry when we are first; without a place in the queue: until answer.settling_ms are
 * over. Keeps the place in the queue alive meanwhile, through reconnects too. LOCK_GRANTED: ask
 * now. LOCK_TIMEOUT, LOCK_CANCELLED: it may be called again and goes on where it was. LOCK_FAILED:
 * not to be mended by reconnecting. */
enum lock_result lock_wait(struct lock *lock, struct deadline deadline, struct failure *failure);

/* Extends the lease by a TTL from now on: LOCK_GRANTED, LOCK_SET_AGAIN, LOCK_LOST, LOCK_TIMEOUT,
 * LOCK_CANCELLED, or LOCK_FAILED. One bounded try; reconnects if the connection is gone. By the
 * token of a detached lock: LOCK_GRANTED, or LOCK_LOST with a failure that says why, and nothing
 * was changed; request.ttl_ms 0 is the TTL that it was acquired with. */
void lock_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer);

/* Releases the lock, takes back a request under way and the place in the queue, whichever there
 * is, and hands off to the next. LOCK_RELEASED, LOCK_GONE, LOCK_LOST, or as above. release_terms
 * may be NULL: nothing of them. One bounded try after another until patience ends. By the token of
 * a detached lock: LOCK_RELEASED, or LOCK_LOST as for lock_renew; a server that refuses from the
 * start is not tried again. */
void lock_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer);

/* Takes the answer about a holder; context is its owner's. */
typedef void lock_holder_taker(const struct lock_answer *held, void *context);

/* Releases the lock of any holder, a foreign client too. It is free then, or its next waiter's, and
 * no former holder can set it again. LOCK_RELEASED: tell has been called for each holder that it
 * had, with an answer that holder_describe() can put into words; free_in_ms: until when that
 * holder's processes are stopped at the latest, -1: that is not known. LOCK_GONE: it was free,
 * or no holder has request.fence, and nothing was changed. Else as above; sent only once, so
 * without an answer it is unknown whether it was released. */
void lock_force(struct lock *lock, lock_holder_taker *tell, void *context, struct deadline deadline,
	struct lock_answer *answer);

#define LOCK_VERIFY_LIMIT  (5 * NANOS_PER_SEC)  /* for lock_verify, if nobody waits for it */
#define LOCK_VERIFY_GLANCE (100 * NANOS_PER_MS) /* while something else waits */

/* For the process whose last request handed the lock off: sees to it that the next owner has taken
 * it, or else that it goes on to another. Returns when that is settled, at once if nothing was
 * handed off, and `limit` (a span) after the last change at the latest. True: it is not settled;
 * the waiters' own timers go on from there. With a limit of 0 it only says that. */
bool lock_verify(struct lock *lock, nanos limit);

/* A descriptor that becomes readable when a connection drops while no request is under way; -1:
 * none. */
int lock_watch_fd(const struct lock *lock);

const char *lock_token(const struct lock *lock);
