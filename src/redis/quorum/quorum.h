/*
 * A lock on a quorum of independent servers, as the files of this folder share it.
 *
 * An attempt asks all servers at once, each to promise the lock to the attempt's token, and goes on
 * as soon as a majority has. Then it tells all of them the fencing token T, above the counters of
 * that majority (confirm.lua); a majority of confirmations is the grant. HACKING says why that is
 * right. An attempt that failed is taken back, and the next one has another token.
 */
#pragma once

#include <stdatomic.h>

#include "lock/service.h"
#include "redis/keys.h"
#include "redis/link/peer.h"
#include "redis/redis_url.h"
#include "redis/script/owner_record.h"
#include "redis/single/single.h"

/* What servers get that are slower than the majority: a span, and a multiple of what the majority
 * took. */
#define QUORUM_SHARE       (50 * NANOS_PER_MS)
#define QUORUM_SHARE_TIMES 4

#define QUORUM_DIAL_PAUSE (50 * NANOS_PER_MS) /* between two tries to connect to a server */

#define QUORUM_REPEAT(kind) (1u << (kind))

enum vote_kind {
	VOTE_NONE, /* not asked yet, or it cannot be reached */
	VOTE_ASKED,
	VOTE_GRANTED,   /* promised */
	VOTE_CONFIRMED, /* knows the fencing token */
	VOTE_BUSY,
	VOTE_ALREADY,
	VOTE_NO, /* see failure: does not count this time */
};

/* What a server did with the last renewal or release, or with force. */
enum vote_word {
	WORD_NONE,
	WORD_YES,
	WORD_AGAIN,
	WORD_GONE,
	WORD_NO,
	WORD_FAULT, /* an error, or nonsense: see failure */
};

/* What one server said. */
struct vote {
	enum vote_kind kind;
	enum vote_word word;
	bool touched;      /* something of this attempt may be left there */
	bool had;          /* it has had the lock since the grant */
	bool renewing;     /* a renewal is under way */
	bool release_sent; /* a release is, */
	bool prompt;       /* and nothing was under way before it */
	nanos dialed_at;
	nanos sent_at;    /* before the renewal or release that is under way was sent */
	nanos proved_at;  /* before the last request that it granted or extended was sent */
	nanos replied_at; /* to the request to acquire */
	uint64_t fence;   /* GRANTED: a token that is above its counter and not below its clock */
	int64_t since_us;
	struct lock_run done;         /* ALREADY */
	char holder[LOCK_TOKEN_SIZE]; /* BUSY */
	bool claimed; /* that one's grant is complete, or it is no dlock; else it only tries */
	bool foreign, known, detached;
	struct owner owner;
	int64_t held_ms, free_in_ms;
	int64_t settling_ms, up_ms; /* BUSY for no other reason than --settle; else 0 */
	bool unsettled;             /* it did not say for how long it has been up */
	struct failure failure;     /* NO, FAULT */
};

/* What a keeper tells its front. */
struct quorum_shared {
	atomic_uint attempt; /* the keeper begins one after another; the token of the last one is
			      * what the front has to give back if the keeper dies */
};

struct quorum {
	struct lock lock; /* first: struct lock_service's functions get this */
	struct lock_request request;
	const char *server; /* the URL, for messages; borrowed */
	char mode[OWNER_RECORD_MODE];
	char text[OWNER_RECORD_TEXT];
	char once[KEYS_ONCE_SIZE];
	size_t count, majority;
	uint64_t random[2];           /* what tokens are made of */
	struct quorum_shared *shared; /* owned, a mapping */
	unsigned keyed;               /* the attempt that token and keys are for */
	char waiter[LOCK_TOKEN_SIZE];
	struct keys keys, waiter_keys;
	bool asked;     /* something of the last attempt may be left in a server */
	bool enrolled;  /* we may stand in queues */
	bool spent;     /* the next attempt takes a fresh token */
	bool cold;      /* a server did not know a script in this attempt */
	bool orphaned;  /* another process, which is dead, has asked: which servers is not known */
	int64_t ticket; /* when the first attempt began, by our own clock, in us; 0: it did not */
	nanos asked_at; /* before anything of this attempt was sent */
	nanos tried_at; /* when the last attempt was given up; 0: the next may begin at once */
	uint64_t fence; /* 0: not granted, as far as is known */
	nanos granted_at;
	nanos settled_at;   /* when enough servers have settled, if we do not queue */
	nanos look_at;      /* when asking again makes sense, by itself */
	nanos listen_until; /* until then we listen; 0: not yet */
	bool listening;     /* these connections do nothing else */
	bool foreign;       /* the holder is a client that will not wake us */
	bool lost;          /* so said a renewal */
	struct release_terms release_terms; /* of the release under way */
	int watch, mend;                    /* owned; -1: none: see quorum_watch */
	nanos mend_after;
	unsigned repeats; /* QUORUM_REPEAT of each: sent once more, in full, if it has to be */
	char who[OWNER_RECORD_SIZE]; /* the record that goes with a renewal */
	struct lock_answer scratch;  /* large */
	struct peer *peers;          /* owned; count of them, and of votes */
	struct vote *votes;          /* owned */
};

/* Token and keys of the last attempt, whichever process began it. False: out of memory. */
bool quorum_sync(struct quorum *quorum, struct failure *failure);

/* Until when quorum_wait is to wait if there is no place in the queues. */
void quorum_record_settling(struct quorum *quorum, const struct lock_answer *answer);

/* Begins to connect to each that is not connected; closes each connection: see peer.h. */
void quorum_connect_all(struct quorum *quorum);
void quorum_drop_all(struct quorum *quorum);

/* --- quorum_request.c --- */

/* Sends a server a request, behind whatever is under way there. False: it was not sent. */
bool quorum_send(struct quorum *quorum, size_t which, enum peer_kind kind, bool in_full);

/* --- quorum_attempt.c --- */

void quorum_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer);
void quorum_take_over(struct lock *lock, const struct lock_answer *granted);

/* --- quorum_replies.c --- */

/* Reads all replies that have come; records the servers that can no longer be reached. */
void quorum_collect(struct quorum *quorum);

/* Collects until it is true of no server, or time is up. */
void quorum_collect_while(struct quorum *quorum,
	bool (*is)(const struct vote *vote, const struct peer *peer), struct deadline deadline);

/* --- quorum_tally.c --- */

size_t quorum_count(const struct quorum *quorum, enum vote_kind kind);
size_t quorum_count_word(const struct quorum *quorum, enum vote_word word);

/* How many servers it is true of. */
size_t quorum_count_if(
	const struct quorum *quorum, bool (*is)(const struct vote *vote, const struct peer *peer));

/* Servers that may still answer the renewal, or force. */
size_t quorum_count_pending(const struct quorum *quorum);

/* Since when the lock is proved: what a majority has granted or extended since. */
nanos quorum_proved_at(const struct quorum *quorum);

/* Why there is no majority: too few can be reached, or too many refuse. */
void quorum_explain(const struct quorum *quorum, struct failure *failure);

/* Whether no majority can come together any more, because so many refuse for good. */
bool quorum_is_refused(const struct quorum *quorum);

/* What is wrong with the list of servers, or with the wait: no other attempt will mend that. NULL:
 * nothing that is known by now. */
struct failure *quorum_find_refusal(const struct quorum *quorum);

/* The same if the answer came after the lock was granted: answer->flawed, once. */
void quorum_report_flaw(const struct quorum *quorum, struct lock_answer *answer);

/* How an attempt that got no majority is to be taken: LOCK_BUSY with the holder, LOCK_FAILED, or
 * LOCK_LOST. LOCK_LOST: it has no holder, another attempt may get it. */
void quorum_verdict(struct quorum *quorum, struct lock_answer *answer);

/* LOCK_BUSY, with the holder, as far as the votes tell. */
void quorum_busy(struct quorum *quorum, struct lock_answer *answer);

/* --- quorum_renew.c --- */

void quorum_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer);

/* Begins to watch the connections there are, and ends it: see lock_watch_fd. */
void quorum_watch(struct quorum *quorum);
void quorum_unwatch(struct quorum *quorum);

/* LOCK_LOST. */
void quorum_report_loss(struct quorum *quorum, struct lock_answer *answer);

/* Takes in what has come since, without waiting. */
void quorum_catch_up(struct quorum *quorum);

/* Connects to a server that was not to be reached, but not all the time. */
void quorum_dial(struct quorum *quorum, size_t which);

/* --- quorum_release.c --- */

void quorum_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer);
void quorum_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct deadline deadline, struct lock_answer *answer);

/* --- quorum_wait.c --- */

enum lock_result quorum_wait(struct lock *lock, struct deadline deadline, struct failure *failure);

/* Before any other request. */
void quorum_stop_listening(struct quorum *quorum);

/* --- quorum_list.c --- */

bool quorum_list(struct lock_lister *lister, struct deadline deadline, struct failure *failure);
