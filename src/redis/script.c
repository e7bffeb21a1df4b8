#include "redis/script.h"

#include <bsd/string.h>
#include <string.h>

#include "decimal.h"
#include "redis/connection.h"
#include "redis/keys.h"

bool script_command_at(const struct script *script, int line, char command[static 24])
{
	static const char calls[] = "call('";
	const char *text = script->text;
	const char *name;

	for (; line > 1 && text; line--) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	name = text && line == 1 ? strstr(text, calls) : NULL;
	if (!name || name > strchrnul(text, '\n'))
		return false;
	name += sizeof(calls) - 1;
	strlcpy(command, name, 24);
	command[strcspn(command, "'")] = '\0';
	return true;
}

void call_add(struct call *call, const char *text)
{
	call->words[call->count] = text;
	call->lengths[call->count++] = strlen(text);
}

void call_add_number(struct call *call, int64_t number)
{
	char *text = call->numbers[call->number_count++];

	decimal_write(text, number);
	call_add(call, text);
}

void call_begin(
	struct call *call, const struct script *script, const struct keys *keys, const char *token)
{
	call->script = script;
	call->count = 0;
	call->number_count = 0;
	call_add(call, "EVALSHA");
	call_add(call, script->sha);
	call_add(call, "6");
	call_add(call, keys->lock);
	call_add(call, keys->meta);
	call_add(call, keys->holders);
	call_add(call, keys->queue);
	call_add(call, keys->who);
	call_add(call, keys->wake);
	call_add(call, keys->head);
	call_add(call, keys->tail);
	call_add(call, token);
}

bool call_append(struct call *call, struct connection *connection, bool in_full)
{
	const struct script *script = call->script;

	call->words[0] = in_full ? "EVAL" : "EVALSHA";
	call->lengths[0] = strlen(call->words[0]);
	call->words[1] = in_full ? script->text : script->sha;
	call->lengths[1] = in_full ? script->length : strlen(script->sha);
	return connection_append(connection, call->count, call->words, call->lengths);
}
