/*
 * The door: what a lock service must offer. Another one is one more folder and one more line in the
 * table of services.c.
 *
 * read_url, open, close, take, wait, renew, release, check and list are required. The
 * contracts are those of lock_FUNCTION in lock.h, unless a comment says otherwise. A service never
 * sees the options, prints nothing, keeps nothing global, and blocks no longer than its deadline.
 * It is not asked for what it cannot do: lock.c has refused that by then.
 */
#pragma once

#include "lock/lock.h"
#include "lock/lock_check.h"
#include "lock/lock_list.h"

struct server;
struct server_reading;

/* The abilities of a service beside an exclusive lock that is waited for. */
enum lock_ability {
	LOCK_CAN_SHARE = 1 << 0,     /* --shared */
	LOCK_CAN_PERMITS = 1 << 1,   /* --permits */
	LOCK_CAN_PRIORITY = 1 << 2,  /* --priority */
	LOCK_CAN_RECORD = 1 << 3,    /* --once, --cooldown: successes on record */
	LOCK_CAN_KEEP = 1 << 4,      /* --at-least: the lock stays though no process renews it */
	LOCK_CAN_DETACH = 1 << 5,    /* acquire, renew and release by token */
	LOCK_CAN_JOIN = 1 << 6,      /* --also: one of several locks that have one token */
	LOCK_CAN_REPLICATE = 1 << 7, /* --wait-replicas */
	LOCK_CAN_SETTLE = 1 << 8,    /* --settle */
	LOCK_CAN_FORCE = 1 << 9,     /* release --force */
	LOCK_CAN_SHOW = 1 << 10,     /* its list shows each owner's token, and what a waiter holds,
				      * from the moment it is on record; none of a holder or waiter
				      * that is no process, or has died a second ago. Then lock_wait
				      * finds the circles of waits */
};

/* Why a service lacks an ability: half a sentence, for the refusal. */
struct lock_lack {
	unsigned ability; /* 0: the end of the list */
	const char *why;
};

/* The meaning of a URL's scheme. */
struct lock_scheme {
	const char *name; /* NULL: the end of the list */
	bool tls;         /* by our own layer (net/tls.h) */
	int port;         /* of a host for which the URL names none; 0: there are no hosts */
	int form;         /* which of the service's own forms it is */
};

/* A look at the locks that there are. The first begins with state and close zero. */
struct lock_lister {
	const struct server *server; /* borrowed */
	struct lock_query query;     /* with what is borrowed */
	lock_view_taker *show;       /* for each lock */
	void *context;
	nanos span, least; /* for each of the server's answers, as struct deadline has them, */
	int cancel_fd;     /* and what ends the wait for one */
	void *state;       /* the service's, if the next look has a use for it, and then */
	void (*close)(void *state); /* gives the state back */
};

/* For a service's list: shows a lock that is asked for; one that is free and has no waiters only if
 * such are asked for, too, and it is `known` to the service. */
void lock_lister_show(const struct lock_lister *lister, const struct lock_view *view, bool known);

/* For the next answer. */
struct deadline lock_lister_limit(const struct lock_lister *lister);

/* For a service's list: lister->state, which is `size` bytes of zeros if this is the first look.
 * NULL with failure: out of memory. */
void *lock_lister_state(struct lock_lister *lister, size_t size, void (*close)(void *state),
	struct failure *failure);

/* The types of a service's functions. */
typedef void lock_take_function(
	struct lock *lock, struct deadline deadline, struct lock_answer *answer);
typedef void lock_take_over_function(struct lock *lock, const struct lock_answer *granted);
typedef void lock_release_function(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer);
typedef bool lock_verify_function(struct lock *lock, nanos limit);
typedef enum lock_result lock_wait_function(
	struct lock *lock, struct deadline deadline, struct failure *failure);
typedef void lock_force_function(struct lock *lock, lock_holder_taker *tell, void *context,
	struct deadline deadline, struct lock_answer *answer);
typedef bool lock_check_function(const struct server *server, const struct lock_request *request,
	lock_finding_taker *take, void *context, struct failure *failure);
typedef bool lock_list_function(struct lock_lister *lister, struct failure *failure);

struct lock_service {
	const char *name;                  /* in messages: "etcd" */
	const struct lock_scheme *schemes; /* which URLs are its own */
	unsigned can;                      /* enum lock_ability */
	const struct lock_lack *lacks;     /* why not the rest; NULL: no reasons are given */
	const char *password_variable;     /* has a password as DLOCK_PASSWORD does, or is that
					    * itself (NULL: the service has no passwords) */

	/* Reads reading->text into reading->server, which has its scheme already and is zero
	 * otherwise. The service sets server->text. False with failure: EXIT_USAGE, the URL quoted
	 * without its password. */
	bool (*read_url)(struct server_reading *reading);
	struct lock *(*open)(const struct server *server, const struct lock_request *request,
		struct failure *failure);
	void (*close)(struct lock *lock);
	/* One attempt to acquire, from sending the request to its answer. Each attempt after a
	 * release has a fresh token, unless request.token gives one. The token stands in
	 * lock->token before the service asks with it. lock->asked says afterwards whether
	 * something may be left in the server. */
	lock_take_function *take;
	/* NULL: lock->token, asked, orphaned and fence, which are set by then, say enough. granted:
	 * renew is to go on where the holder that is dead was, and release says LOCK_LOST if the
	 * lock was taken away. */
	lock_take_over_function *take_over;
	lock_take_function *renew;
	lock_release_function *release;
	lock_verify_function *verify; /* NULL: a handoff needs no second look */
	lock_wait_function *wait; /* after LOCK_CANCELLED it may be called again, and goes on where
				   * it was */
	int (*watch_fd)(const struct lock *lock); /* NULL: there is none */
	lock_force_function *force;               /* LOCK_CAN_FORCE */
	lock_check_function *check; /* the findings that only this service has about a server
				     * (lock_check.h), and lock_trial */
	lock_list_function *list;   /* one look, as lock_list_look. After a failure the next one
				     * connects anew */
};

/* Looking for circles of waits. */
struct lock_circles {
	const struct server *server;      /* NULL: the service sees to them itself, or cannot */
	const char *prefix, *name, *held; /* the request's */
	nanos due;                        /* when to look; 0: the wait has not begun */
	uint64_t seen;                    /* the circle that was seen; 0: none */
};

/* Every service's struct lock begins with this. */
struct lock {
	const struct lock_service *service;
	char *token; /* the service keeps it right; request.token_page, or */
	char token_own[LOCK_TOKEN_SIZE];
	bool asked; /* the service keeps it right: something may be left in the server that only a
		     * release takes away */
	uint64_t fence;   /* lock.c's: of the grant; 0: none, as far as is known, */
	nanos granted_at; /* which was then */
	bool orphaned;    /* lock.c's: another process, which is dead, has asked by our token. The
			   * service clears it once it has found what that had */
	struct lock *beside; /* lock_set.c's: another of several that are asked for one after the
			      * other, and so on in a ring: a connection on which nothing is under
			      * way may be used for each. NULL: there are none */
	struct lock_circles circles; /* lock.c's */
	bool is_by_token;            /* lock.c's: of a detached lock, by its token */
	nanos asked_first;           /* lock.c's: when it was first asked for; 0: not yet */
};

/* Whether it took over a lock that is held, and has not found it yet. */
bool lock_is_heir(const struct lock *lock);

/* The format of what services keep of locks. It goes up with a change that an older dlock must
 * not meet: a service that finds a higher one changes nothing, and fails with lock_fail_format. */
#define LOCK_FORMAT 1
#define LOCK_NEWER  "keeps this lock for a newer dlock than this one"

/* False, with EXIT_CONFIG. */
bool lock_fail_format(struct failure *failure, const char *server, int64_t format);

/* For a service's take: within how long before now (ms) a success must have begun that will do for
 * request.cooldown_ms; 0: none will. The time counts back from the first such call for the lock, so
 * the service can reckon by its own clock. */
int64_t lock_window_ms(struct lock *lock, const struct lock_request *request);

/* For a service's open: `size` bytes of zeros that begin with a struct lock of the service. NULL
 * with failure. */
void *lock_new(size_t size, const struct lock_service *service, const struct lock_request *request,
	struct failure *failure);
