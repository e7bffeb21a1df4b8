/* How a step of talking to a Redis server ends. */
#ifndef DLOCK_REDIS_WIRE_H
#define DLOCK_REDIS_WIRE_H

enum wire {
	WIRE_OK,
	WIRE_TIMEOUT,   /* patience ran out */
	WIRE_CANCELLED, /* cancel_fd became readable */
	WIRE_CLOSED,    /* the connection broke: see failure; another may do */
	WIRE_AGAIN,     /* the server cannot just now: see failure; asked again, it may */
	WIRE_FAILED,    /* see failure */
};

#endif
