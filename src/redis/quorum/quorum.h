/*
 * A lock on a quorum of independent servers, as the files of this folder share it.
 *
 * Each server has a thread, its voter, which does there what src/redis/single does on one server.
 * An attempt has all of them promise the lock to the attempt's token, and goes on as soon as a
 * majority has. Then each tells its server the fencing token T, above the counters of that majority
 * (confirm.lua); a majority of confirmations is the grant. README.md says why that is right. An
 * attempt that failed is taken back, and the next one has another token.
 *
 * The caller's thread gives orders and counts; quorum->mutex is its own from the begin of a call to
 * the end, but while it waits for news.
 */
#pragma once

#include <pthread.h>

#include "lock/service.h"
#include "net/server.h"
#include "redis/redis_url.h"
#include "redis/single/single.h"

/* The time for servers that are slower than the majority: a span, and a multiple of the time that
 * the majority took. */
#define QUORUM_SHARE       (50 * NANOS_PER_MS)
#define QUORUM_SHARE_TIMES 4

#define QUORUM_WOKEN (10 * NANOS_PER_MS) /* at most, at random, once woken: others may be */

enum task {
	TASK_TAKE,
	TASK_CONFIRM,
	TASK_RENEW,
	TASK_RELEASE,
	TASK_LAST_WORD, /* the release again, in full, and no answer is awaited */
	TASK_LISTEN,
	TASK_FORCE,
	TASK_END, /* the thread ends */
};

enum vote {
	VOTE_NONE,      /* no answer yet */
	VOTE_GRANTED,   /* promised */
	VOTE_CONFIRMED, /* knows the fencing token */
	VOTE_BUSY,
	VOTE_ALREADY,
	VOTE_NO, /* see failure: does not count this time */
};

/* The arguments of an order. */
struct errand {
	unsigned attempt;
	char token[LOCK_TOKEN_SIZE];
	int64_t ticket;   /* when the first attempt began, by our own clock, in us; 0: it did not */
	uint64_t fence;   /* 0: not granted, as far as is known */
	nanos granted_at; /* 0: not yet */
	nanos until;
	struct release_terms terms; /* of a release, */
	bool leaves;                /* with which the place in the queue goes, */
	bool orphaned;              /* and which another process may have made necessary, */
	bool lost;                  /* or the lock is lost anyway */
	int64_t listen_ms;
	struct owner self; /* the request's, which may change meanwhile */
};

/* One server. */
struct voter {
	struct quorum *quorum;
	struct server server;  /* the one endpoint; its text is name; the rest is borrowed */
	char name[PLACE_TEXT]; /* HOST:PORT */
	pthread_t thread;
	int wakeup_fd; /* owned; readable: there is a new order; -1: no thread yet */

	/* The thread's. */
	struct single *single; /* owned */
	struct owner self;     /* as the errand has it */
	struct lock_answer reply;
	bool promised; /* something of the last attempt may be left there */
	bool enrolled; /* we may stand in its queue */
	nanos mend_after;

	/* With quorum->mutex. */
	enum task task;         /* the last order, */
	unsigned ordered, done; /* which is carried out once these are equal */
	bool busy;              /* the thread does something */
	bool written;           /* the last order needs no more of this process: it is on its way */
	bool touched;           /* as promised */
	bool had;               /* the server has had the lock since the grant */
	bool again;             /* the server had lost the lock since the last renewal */
	bool twin;              /* the server is another of the list's, by another name */
	bool deaf;              /* the server cannot be listened to */
	enum vote vote;
	struct lock_answer answer; /* to the request to acquire */
	nanos replied_at;
	nanos proved_at;       /* before the last request that it granted or extended was sent */
	enum lock_result word; /* the answer to the renewal, the release or the force; LOCK_TIMEOUT:
				* there is none yet */
	struct failure failure; /* why it does not count; code 0: it does, or may */
};

struct quorum {
	struct lock lock; /* first: struct lock_service's functions get this */
	struct lock_request request;
	pthread_mutex_t mutex;
	int news_fd;  /* owned; readable: a voter has something to say; -1: no thread was started */
	int watch_fd; /* owned; readable: a connection has dropped while the lock is held; -1: as
		       * that */
	size_t count, majority;
	struct voter *voters; /* owned; count of them */
	char waiter[LOCK_TOKEN_SIZE];
	struct keys waiter_keys;
	struct errand errand;
	int tries;          /* attempts since the caller asked */
	nanos began;        /* the last order */
	bool asked;         /* something of the last attempt may be left in a server */
	bool enrolled;      /* we may stand in queues */
	bool held;          /* a voter whose server is away tries to bring the lock back there */
	nanos asked_at;     /* before anything of this attempt was sent */
	nanos tried_at;     /* when the last attempt was given up; 0: the next may begin at once */
	nanos settled_at;   /* when enough servers have settled, if we do not queue */
	nanos look_at;      /* when asking again makes sense, by itself */
	nanos listen_until; /* until then we listen; 0: not yet */
	bool foreign;       /* the holder is a client that will not wake us */
};

typedef bool (*voter_test)(const struct voter *voter);

/* --- voter.c --- */

/* For the server number `which`; nothing runs yet. False: out of memory. */
bool voter_open(struct voter *voter, struct quorum *quorum, const struct server *list, size_t which,
	struct failure *failure);

/* Ends the thread, if there is one, and waits for that. Without the mutex. */
void voter_close(struct voter *voter);

/* The next thing to do; the first order starts the thread. It ends what is under way there, but a
 * renewal goes behind that. */
void voter_order(struct voter *voter, enum task task);

/* The thread's: carries out the last order. */
void voter_obey(struct voter *voter);

/* The last order is not carried out yet; and its request is not on its way either. */
bool voter_is_pending(const struct voter *voter);
bool voter_is_owed(const struct voter *voter);

/* --- quorum.c --- */

/* Orders all of which it is true (NULL: all). */
void quorum_order(struct quorum *quorum, enum task task, voter_test is);

/* Waits, without the mutex, until the caller has heard enough. limit may be NULL; else it says
 * after each news until when to wait for the next. */
enum deadline_end quorum_await(struct quorum *quorum, bool (*is_over)(const struct quorum *quorum),
	struct deadline (*limit)(const struct quorum *quorum, struct deadline deadline),
	struct deadline deadline);

/* The same until it is true of no voter. */
void quorum_await_while(struct quorum *quorum, voter_test is, struct deadline deadline);

/* For servers that are slower than the majority, from now on: its own time several times over, and
 * a span. */
struct deadline quorum_share(const struct quorum *quorum, nanos span);

/* False: the wait did not end before what it was for, and *answer is LOCK_FAILED. */
bool quorum_report_end(enum deadline_end end, struct lock_answer *answer);

/* --- quorum_tally.c --- */

size_t quorum_count(const struct quorum *quorum, enum vote vote);
size_t quorum_count_word(const struct quorum *quorum, enum lock_result word);
size_t quorum_count_if(const struct quorum *quorum, voter_test is);

/* So many that the others are no majority. */
bool quorum_is_blocked(const struct quorum *quorum, size_t count);

/* Since when the lock is proved: what a majority has granted or extended since. */
nanos quorum_proved_at(const struct quorum *quorum);

/* Why there is no majority: too few can be reached, or too many refuse. True: these do so for good.
 */
bool quorum_explain(const struct quorum *quorum, struct failure *failure);

/* A fault of the list of servers, which no other attempt will mend. NULL: none is known by now. */
const struct failure *quorum_find_refusal(const struct quorum *quorum);

/* How an attempt that got no majority is to be taken: LOCK_BUSY with the holder, LOCK_FAILED, or
 * LOCK_LOST. LOCK_LOST: it has no holder, another attempt may get it. */
void quorum_verdict(struct quorum *quorum, struct lock_answer *answer);

/* LOCK_BUSY, with the holder, as far as the votes tell. */
void quorum_busy(struct quorum *quorum, struct lock_answer *answer);

/* --- quorum_attempt.c, quorum_renew.c, quorum_release.c, quorum_wait.c, quorum_list.c --- */

/* struct lock_service's. */
lock_take_function quorum_take, quorum_renew;
lock_take_over_function quorum_take_over;
lock_release_function quorum_release;
lock_wait_function quorum_wait;
lock_force_function quorum_force;
lock_list_function quorum_list;

/* LOCK_LOST. */
void quorum_report_loss(struct quorum *quorum, struct lock_answer *answer);

/* Gives back what is left of the attempt, but no place in a queue. */
void quorum_give_back(struct quorum *quorum);
