#include "redis/facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/connection.h"
#include "text.h"

/* Without memory for it, it stays unknown. */
static void add(struct facts *facts, const char *start, const char *key, const char *between,
	const char *value)
{
	char *text;

	if (!key || !value ||
		asprintf(&text, "%s%s%s%s%s\r\n", facts->text ? facts->text : "", start, key,
			between, value) < 0)
		return;
	free(facts->text);
	facts->text = text;
}

void facts_add_info(struct facts *facts, const struct reply *reply)
{
	add(facts, "", "", "", reply_text(reply));
}

void facts_add_setting(struct facts *facts, const struct reply *reply)
{
	add(facts, "config.", reply_text(reply_at(reply, 0)), ":", reply_text(reply_at(reply, 1)));
}

void facts_free(struct facts *facts)
{
	free(facts->text);
	facts->text = NULL;
}

const char *facts_find(const struct facts *facts, const char *key, char value[static FACT_SIZE])
{
	size_t length = strlen(key);
	const char *line = facts->text;

	for (; line && *line; line += strcspn(line, "\r\n"), line += strspn(line, "\r\n")) {
		if (strncmp(line, key, length) != 0 || line[length] != ':')
			continue;
		line += length + 1;
		snprintf(value, FACT_SIZE, "%.*s", (int)strcspn(line, "\r\n"), line);
		return text_clean(value);
	}
	return NULL;
}

int64_t facts_number(const struct facts *facts, const char *key)
{
	char value[FACT_SIZE];
	char *end;
	int64_t number;

	if (!facts_find(facts, key, value))
		return -1;
	number = strtoll(value, &end, 10);
	return end == value || *end != '\0' || number < 0 || number > FACT_MOST ? -1 : number;
}
