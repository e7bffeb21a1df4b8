/* The Lua scripts that do all of a lock's work in the server, and how they are called. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct connection;
struct keys;

struct script {
	const char *sha;  /* SHA-1 in hex, for EVALSHA */
	const char *text; /* for EVAL */
};

/* The first command of Redis that a line of a script calls, cut to fit; lines count from 1. False:
 * none. */
bool script_command_at(const struct script *script, int line, char command[static 24]);

/* Made from src/redis/script/lua at build time by embed.sh; each says there what it takes and
 * answers. */
extern const struct script script_acquire, script_release, script_renew, script_verify,
	script_inspect, script_confirm, script_force, script_detached_renew,
	script_detached_release, script_extend;

#define CALL_WORDS   80 /* verify.lua takes the most: HANDED_MOST tokens behind 12 words */
#define CALL_NUMBERS 12

/* One call of a script: borrowed strings, which must live until it is sent (and sent again). */
struct call {
	const struct script *script;
	size_t count;
	const char *words[CALL_WORDS + 1];
	size_t number_count;
	int replicas;        /* behind it the server is to WAIT until so many have what it wrote, */
	int64_t replicas_ms; /* or for so long; 0: it is not */
	char numbers[CALL_NUMBERS][24];
};

/* A call with what every script takes: the keys (extend.lua: only the lock), how companions are
 * named, a token. */
void call_begin(
	struct call *call, const struct script *script, const struct keys *keys, const char *token);
void call_add(struct call *call, const char *text);
void call_add_number(struct call *call, int64_t number);

/* Puts it into the connection's buffer: by its hash, or in full. */
void call_append(struct call *call, struct connection *connection, bool in_full);
