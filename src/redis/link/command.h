/* One plain command over a connection on which nothing is under way, and its reply. */
#pragma once

#include <stddef.h>

#include "base/deadline.h"
#include "net/io_result.h"

struct connection;
struct failure;
struct reply;

/* At most WORDS_MOST of them. After IO_OK, reply_free() with the reply, which may be an error.
 */
enum io_result command_call(struct connection *connection, struct reply **reply, size_t count,
	const char *const *words, struct deadline deadline, struct failure *failure);
