#include "holder.h"

#include <stdio.h>

#include "duration.h"
#include "lock.h"

#define NAME_SHOWN 256

const char *holder_describe(
	const struct lock_answer *answer, nanos since, char text[static HOLDER_TEXT])
{
	const struct party *holder = &answer->holder;
	nanos left = answer->free_in_ms * NANOS_PER_MS - since;
	char span[DURATION_TEXT];
	int used = 0;

	if (answer->name)
		used = snprintf(text, HOLDER_TEXT, "%.*s is ", NAME_SHOWN, answer->name);
	if (answer->foreign && answer->free_in_ms >= 0)
		snprintf(text + used, (size_t)(HOLDER_TEXT - used),
			"held by another Redis client, for %s more at most",
			duration_format(left > 0 ? left : 0, span));
	else if (answer->foreign)
		snprintf(text + used, (size_t)(HOLDER_TEXT - used),
			"held by another Redis client, without an expiry");
	else if (answer->known)
		snprintf(text + used, (size_t)(HOLDER_TEXT - used), "held by %s:%d (%s, %s) for %s",
			holder->host, (int)holder->pid, holder->user, holder->label,
			duration_format(answer->held_ms * NANOS_PER_MS + since, span));
	else if (answer->holder_token[0] == '\0' && left > 0)
		snprintf(text + used, (size_t)(HOLDER_TEXT - used),
			"the server came up lately, and gives no lock for %s more",
			duration_format(left, span));
	else
		snprintf(text + used, (size_t)(HOLDER_TEXT - used), "others are ahead");
	return text;
}
