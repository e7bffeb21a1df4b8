#include "redis/command.h"

#include <string.h>

#include "failure.h"
#include "redis/connection.h"

enum wire command_call(struct connection *connection, struct reply **reply, size_t count,
	const char *const *words, struct patience patience, struct failure *failure)
{
	size_t lengths[COMMAND_WORDS];
	enum wire wire;

	for (size_t i = 0; i < count; i++)
		lengths[i] = strlen(words[i]);
	if (!connection_append(connection, count, words, lengths)) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return WIRE_FAILED;
	}
	wire = connection_flush(connection, patience, failure);
	return wire == WIRE_OK ? connection_read(connection, reply, patience, failure) : wire;
}
