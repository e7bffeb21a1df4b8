#include "redis/check/server_info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "redis/link/connection.h"

/* Without memory for it, it stays unknown. */
static void add(struct server_info *info, const char *start, const char *key, const char *between,
	const char *value)
{
	char *text;

	if (!key || !value ||
		asprintf(&text, "%s%s%s%s%s\r\n", info->text ? info->text : "", start, key, between,
			value) < 0)
		return;
	free(info->text);
	info->text = text;
}

void server_info_add_info(struct server_info *info, const struct reply *reply)
{
	add(info, "", "", "", reply_text(reply));
}

void server_info_add_setting(struct server_info *info, const struct reply *reply)
{
	add(info, "config.", reply_text(reply_at(reply, 0)), ":", reply_text(reply_at(reply, 1)));
}

void server_info_free(struct server_info *info)
{
	free(info->text);
	info->text = NULL;
}

const char *server_info_find(
	const struct server_info *info, const char *key, char value[static SERVER_INFO_SIZE])
{
	size_t length = strlen(key);
	const char *line = info->text;

	for (; line && *line; line += strcspn(line, "\r\n"), line += strspn(line, "\r\n")) {
		if (strncmp(line, key, length) != 0 || line[length] != ':')
			continue;
		line += length + 1;
		snprintf(value, SERVER_INFO_SIZE, "%.*s", (int)strcspn(line, "\r\n"), line);
		return utf8_clean(value);
	}
	return NULL;
}

int64_t server_info_number(const struct server_info *info, const char *key)
{
	char value[SERVER_INFO_SIZE];
	char *end;
	int64_t number;

	if (!server_info_find(info, key, value))
		return -1;
	number = strtoll(value, &end, 10);
	return end == value || *end != '\0' || number < 0 || number > SERVER_INFO_MOST ? -1
										       : number;
}
