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
	call->words[call->count] = text;
	call->lengths[call->count++] = strlen(text);
}

void call_add_number(struct call *call, int64_t number)
{
	char *text = call->numbers[call->number_count++];

	number_write(text, number);
	call_add(call, text);
}

static void begin(struct call *call, const struct script *script)
{
	call->script = script;
	call->count = 0;
	call->number_count = 0;
	call->replicas = 0;
	call_add(call, "EVALSHA");
	call_add(call, script->sha);
}

static void add_companions(struct call *call, const struct keys *keys, const char *token)
{
	call_add(call, keys->head);
	call_add(call, keys->tail);
	call_add(call, token);
}

void call_begin(
	struct call *call, const struct script *script, const struct keys *keys, const char *token)
{
	begin(call, script);
	call_add(call, "6");
	call_add(call, keys->lock);
	call_add(call, keys->meta);
	call_add(call, keys->holders);
	call_add(call, keys->queue);
	call_add(call, keys->who);
	call_add(call, keys->wake);
	add_companions(call, keys, token);
}

void call_begin_alone(
	struct call *call, const struct script *script, const struct keys *keys, const char *token)
{
	begin(call, script);
	call_add(call, "1");
	call_add(call, keys->lock);
	add_companions(call, keys, token);
}

void call_add_run(struct call *call, int exit, int64_t began_us, nanos granted_at, const char *text)
{
	call_add_number(call, exit);
	call_add_number(call, began_us > 0 ? began_us : (granted_at - clock_now()) / NANOS_PER_US);
	call_add(call, text);
}

void call_wait(struct call *call, int replicas, int64_t ms)
{
	call->replicas = replicas;
	call->replicas_ms = ms;
}

static bool append_wait(const struct call *call, struct connection *connection)
{
	char replicas[24], ms[24];

	if (call->replicas == 0)
		return true;
	number_write(replicas, call->replicas);
	number_write(ms, call->replicas_ms);
	return connection_append_words(connection, WORDS("WAIT", replicas, ms));
}

bool call_append(struct call *call, struct connection *connection, bool in_full)
{
	const struct script *script = call->script;

	call->words[0] = in_full ? "EVAL" : "EVALSHA";
	call->lengths[0] = strlen(call->words[0]);
	call->words[1] = in_full ? script->text : script->sha;
	call->lengths[1] = in_full ? script->length : strlen(script->sha);
	return connection_append(connection, call->count, call->words, call->lengths) &&
	       append_wait(call, connection);
}
