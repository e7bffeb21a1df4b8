#include "redis/script/owner_record.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

/* In the order of enum lock_mode. */
static const char letters[] = "xsp";

void owner_record_mode(const struct lock_request *request, char mode[static OWNER_RECORD_MODE])
{
	mode[0] = letters[request->mode];
	mode[1] = '\0';
	if (request->mode == LOCK_PERMITS)
		number_write(mode + 1, request->permits);
}

void owner_record_text(const struct lock_request *request, char text[static OWNER_RECORD_TEXT])
{
	size_t length;

	owner_write(request->self, text);
	length = strlen(text);
	if (request->priority != 0)
		length += (size_t)snprintf(
			text + length, OWNER_RECORD_TEXT - length, "\tprio=%d", request->priority);
	if (request->cooldown_ms > 0 || request->once)
		length += (size_t)snprintf(text + length, OWNER_RECORD_TEXT - length, "\tasks=1");
	if (request->detached)
		snprintf(text + length, OWNER_RECORD_TEXT - length,
			"\tdetached=1\tttl=%" PRId64 "\tleast=%" PRId64, request->ttl_ms,
			request->at_least_ms);
}

void owner_record_write(
	char who[static OWNER_RECORD_SIZE], const char *mode, int64_t since_us, const char *text)
{
	snprintf(who, OWNER_RECORD_SIZE, "%c%s|%" PRId64 "|%s", toupper((unsigned char)mode[0]),
		mode + 1, since_us, text);
}

static const char *find(const char *text, const char *key)
{
	const char *found = strstr(text, key);

	return found ? found + strlen(key) : NULL;
}

static int64_t find_number(const char *text, const char *key)
{
	const char *found = find(text, key);

	return found ? strtoll(found, NULL, 10) : 0;
}

bool owner_record_read(struct owner_record *record, const char *who)
{
	const char *letter = who && *who ? strchr(letters, tolower((unsigned char)*who)) : NULL;
	const char *bar = letter ? strchr(who, '|') : NULL;
	const char *text = bar ? strchr(bar + 1, '|') : NULL;

	if (!text)
		return false;
	text++;
	*record = (struct owner_record){
		.mode = (enum lock_mode)(letter - letters),
		.claimed = isupper((unsigned char)*who),
		.moment = number_within(strtoll(bar + 1, NULL, 10), 0, OWNER_RECORD_US_MOST),
		.priority = (int)number_within(find_number(text, "\tprio="), INT_MIN, INT_MAX),
		.detached = find_number(text, "\tdetached=") != 0,
		.held = find(text, "\theld="),
	};
	owner_read(&record->owner, text);
	return true;
}
