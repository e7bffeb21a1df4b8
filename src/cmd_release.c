/* dlock release NAME TOKEN: gives a detached lock back; with --force breaks any; with neither ends
 * the dlock hold around it. */
#include "commands.h"

#include "by_token.h"
#include "handover.h"
#include "hold_release.h"
#include "holder.h"
#include "lock.h"
#include "message.h"
#include "options.h"

static void release(struct lock *lock, const struct options *options, struct patience patience,
	struct lock_answer *answer)
{
	(void)options;
	lock_release(lock, NULL, patience, answer);
	handover_see_to(lock, answer);
}

static void say_broken(const struct lock_answer *held, void *context)
{
	char text[HOLDER_TEXT];

	(void)context;
	message_say(MESSAGE_WARNING, "broken: %s", holder_describe(held, 0, text));
}

static void force(struct lock *lock, const struct options *options, struct patience patience,
	struct lock_answer *answer)
{
	(void)options;
	lock_force(lock, say_broken, NULL, patience, answer);
	handover_see_to(lock, answer);
}

int cmd_release(const struct options *options)
{
	if (!options->token && !options->force)
		return hold_release(options);
	return by_token(options, options->force ? force : release);
}
