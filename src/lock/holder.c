#include "lock/holder.h"

#include <stdio.h>

#include "base/duration.h"
#include "base/message.h"

#define NAME_SHOWN 256

const char *holder_describe(
	const struct lock_answer *answer, nanos since, char text[static HOLDER_TEXT])
{
	const struct owner *holder = &answer->holder;
	nanos left = answer->free_in_ms * NANOS_PER_MS - since;
	nanos settling = answer->settling_ms * NANOS_PER_MS - since;
	char span[DURATION_TEXT], up[DURATION_TEXT];
	size_t used = 0;

	if (answer->name && (answer->foreign || answer->known))
		used = (size_t)snprintf(text, HOLDER_TEXT, "%.*s is ", NAME_SHOWN, answer->name);
	if (answer->foreign && answer->free_in_ms >= 0)
		snprintf(text + used, HOLDER_TEXT - used, "held by %s, for %s more at most",
			answer->foreign, duration_format(left > 0 ? left : 0, span));
	else if (answer->foreign)
		snprintf(text + used, HOLDER_TEXT - used, "held by %s, %s", answer->foreign,
			answer->ttl_ms == LOCK_NO_TTL ? "for as long as that runs"
						      : "without an expiry");
	else if (answer->known)
		snprintf(text + used, HOLDER_TEXT - used, "held by %s:%d (%s, %s) for %s",
			holder->host, (int)holder->pid, holder->user, holder->label,
			duration_format(answer->held_ms * NANOS_PER_MS + since, span));
	else if (answer->settling_ms > 0)
		snprintf(text + used, HOLDER_TEXT - used,
			"the server started %s ago; waiting %s for holders to return",
			duration_format(answer->up_ms * NANOS_PER_MS + since, up),
			duration_format(settling > 0 ? settling : 0, span));
	else if (answer->holder_token[0] == '\0' && left > 0)
		snprintf(text + used, HOLDER_TEXT - used,
			"the server was restarted; holders may return for %s more",
			duration_format(left, span));
	else
		snprintf(text + used, HOLDER_TEXT - used, "others are ahead");
	return text;
}

void holder_say_grant(const struct lock_answer *answer)
{
	char span[DURATION_TEXT];

	if (answer->server[0] != '\0')
		message_say(MESSAGE_INFO, "granted by %s", answer->server);
	if (answer->ttl_ms > 0 && answer->ttl_ms != LOCK_NO_TTL)
		message_say(MESSAGE_INFO, "granted with a TTL of %s",
			duration_format(answer->ttl_ms * NANOS_PER_MS, span));
	if (answer->unsettled)
		message_say(MESSAGE_INFO,
			"the server does not say for how long it has been up (INFO), so nothing "
			"was waited for (--settle)");
}
