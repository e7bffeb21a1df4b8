/* Reading a reply. A reply that is not of the kind that is asked for is nothing: a server may
 * answer anything. */
#include "redis/link/connection.h"

#include <hiredis/hiredis.h>
#include <string.h>

#include "base/number.h"

static const redisReply *as(const struct reply *reply, int type)
{
	const redisReply *own = (const void *)reply;

	return own && own->type == type ? own : NULL;
}

const char *reply_text(const struct reply *reply)
{
	const redisReply *own = as(reply, REDIS_REPLY_STRING);

	if (!own)
		own = as(reply, REDIS_REPLY_STATUS);
	return own ? own->str : NULL;
}

const char *reply_error(const struct reply *reply)
{
	const redisReply *own = as(reply, REDIS_REPLY_ERROR);

	return own ? own->str : NULL;
}

int64_t reply_integer(const struct reply *reply)
{
	const redisReply *own = as(reply, REDIS_REPLY_INTEGER);

	return own ? own->integer : 0;
}

int64_t reply_within(const struct reply *reply, int64_t least, int64_t most)
{
	return number_within(reply_integer(reply), least, most);
}

bool reply_is_integer(const struct reply *reply)
{
	return as(reply, REDIS_REPLY_INTEGER) != NULL;
}

bool reply_is_nil(const struct reply *reply)
{
	return as(reply, REDIS_REPLY_NIL) != NULL;
}

size_t reply_count(const struct reply *reply)
{
	const redisReply *own = as(reply, REDIS_REPLY_ARRAY);

	return own ? own->elements : 0;
}

const struct reply *reply_at(const struct reply *reply, size_t index)
{
	const redisReply *own = as(reply, REDIS_REPLY_ARRAY);

	return own && index < own->elements ? (const void *)own->element[index] : NULL;
}

bool reply_says(const struct reply *reply, const char *word)
{
	const char *first = reply_text(reply_at(reply, 0));

	return first && strcmp(first, word) == 0;
}

void reply_free(struct reply *reply)
{
	freeReplyObject(reply);
}
