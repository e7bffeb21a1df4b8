/* How a step of talking to a server ends. */
#pragma once

enum io_result {
	IO_OK,
	IO_TIMEOUT,   /* patience ran out */
	IO_CANCELLED, /* cancel_fd became readable */
	IO_CLOSED,    /* the connection broke: see failure; another may do */
	IO_AGAIN,     /* the server cannot just now: see failure; asked again, it may */
	IO_FAILED,    /* see failure */
};
