#include "redis/script/script.h"

#include <bsd/string.h>
#include <string.h>

#include "base/number.h"
#include "redis/keys.h"
#include "redis/link/connection.h"

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
	call->words[call->count++] = text;
}

void call_add_number(struct call *call, int64_t number)
{
	char *text = call->numbers[call->number_count++];

	number_write(text, number);
	call_add(call, text);
}

void call_begin(
	struct call *call, const struct script *script, const struct keys *keys, const char *token)
{
	const char *const touched[] = {
		keys->lock, keys->meta, keys->holders, keys->queue, keys->who, keys->wake};
	bool alone = script == &script_extend;

	call->script = script;
	call->count = call->number_count = 0;
	call->replicas = 0;
	call_add(call, "EVALSHA");
	call_add(call, script->sha);
	call_add(call, alone ? "1" : "6");
	for (size_t i = 0; i < (alone ? 1 : 6); i++)
		call_add(call, touched[i]);
	call_add(call, keys->head);
	call_add(call, keys->tail);
	call_add(call, token);
}

void call_append(struct call *call, struct connection *connection, bool in_full)
{
	const struct script *script = call->script;
	char replicas[NUMBER_SIZE], ms[NUMBER_SIZE];

	call->words[0] = in_full ? "EVAL" : "EVALSHA";
	call->words[1] = in_full ? script->text : script->sha;
	call->words[call->count] = NULL;
	connection_append(connection, call->words);
	if (call->replicas > 0)
		connection_append(connection, WORDS("WAIT", number_text(replicas, call->replicas),
						      number_text(ms, call->replicas_ms)));
}
