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
	size_t length;
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
	const char *words[CALL_WORDS];
	size_t lengths[CALL_WORDS];
	size_t number_count;
	int replicas; /* WAIT for so many behind it; 0: do not */
	int64_t replicas_ms;
	char numbers[CALL_NUMBERS][24];
};

/* A call with what every script takes: the keys, how companions are named, a token. */
void call_begin(
	struct call *call, const struct script *script, const struct keys *keys, const char *token);
/* A call that touches no other key than the lock. */
void call_begin_alone(
	struct call *call, const struct script *script, const struct keys *keys, const char *token);
void call_add(struct call *call, const char *text);
void call_add_number(struct call *call, int64_t number);

/* The last arguments of release.lua, about a run: when it began by the server's clock, or, if that
 * is 0, by ours; the owner's TEXT. */
void call_add_run(
	struct call *call, int exit, int64_t began_us, nanos granted_at, const char *text);

/* Behind it the server is to wait until so many replicas have what it wrote, or so long: WAIT. */
void call_wait(struct call *call, int replicas, int64_t ms);

/* Puts it into the connection's buffer: by its hash, or in full. False: out of memory. */
bool call_append(struct call *call, struct connection *connection, bool in_full);
