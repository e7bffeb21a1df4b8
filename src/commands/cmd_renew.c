/* dlock renew NAME TOKEN: more time for a detached lock. */
#include "commands/commands.h"

#include "base/duration.h"
#include "base/message.h"
#include "cli/options.h"
#include "commands/detached.h"
#include "lock/lock.h"

static void renew(struct lock *lock, const struct options *options, struct deadline deadline,
	struct lock_answer *answer)
{
	char span[DURATION_TEXT];

	lock_renew(lock, deadline, answer);
	if (answer->result == LOCK_GRANTED)
		message_say(MESSAGE_INFO, "renewed, for %s",
			options->ttl_given ? duration_format(options->ttl, span)
					   : "as long as it was acquired for");
}

int cmd_renew(const struct options *options)
{
	return detached_step(options, renew);
}
