#include "redis/link/command.h"

#include "base/failure.h"
#include "redis/link/connection.h"

enum io_result command_call(struct connection *connection, struct reply **reply, size_t count,
	const char *const *words, struct deadline deadline, struct failure *failure)
{
	enum io_result io;

	if (!connection_append_words(connection, count, words)) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return IO_FAILED;
	}
	io = connection_flush(connection, deadline, failure);
	return io == IO_OK ? connection_read(connection, reply, deadline, failure) : io;
}
