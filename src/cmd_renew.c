/* dlock renew NAME TOKEN: more time for a detached lock. */
#include "commands.h"

#include "by_token.h"
#include "duration.h"
#include "lock.h"
#include "message.h"
#include "options.h"

static void renew(struct lock *lock, const struct options *options, struct patience patience,
	struct lock_answer *answer)
{
	char span[DURATION_TEXT];

	lock_renew(lock, patience, answer);
	if (answer->result == LOCK_GRANTED)
		message_say(MESSAGE_INFO, "renewed, for %s",
			options->ttl_given ? duration_format(options->ttl, span)
					   : "as long as it was acquired for");
}

int cmd_renew(const struct options *options)
{
	return by_token(options, renew);
}
