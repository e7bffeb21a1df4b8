/*
 * One connection to one Redis server: commands out, replies in, in order. Nothing blocks beyond the
 * patience given. The only part that includes hiredis, of which it uses the text of commands and
 * the parser of replies. A connection belongs to one thread at a time; after fork() to one process.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/deadline.h"
#include "net/io_result.h"

struct connection;
struct endpoint;
struct failure;
struct lookup;
struct reply;
struct server;

/* Writes which library reads the replies, and its version. */
void connection_library(char *text, size_t size);

/* Connects to an endpoint of a server, by TLS if that says so. `peer` is its name in messages; it
 * and the server are borrowed for the connection's life; *lookup as in resolve_host().
 * connection_close() with *connection after IO_OK. */
enum io_result connection_open(struct connection **connection, const struct server *server,
	const struct endpoint *endpoint, const char *peer, struct lookup **lookup,
	struct deadline deadline, struct failure *failure);

void connection_close(struct connection *connection);

/* Puts a command into the buffer, of words that end with a NULL: WORDS("GET", key). If memory runs
 * out, connection_flush fails. */
void connection_append(struct connection *connection, const char *const *words);
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Sends what is in the buffer. A server that closed before it read all may have said why: so that
 * is left to connection_read, and IO_OK here. */
enum io_result connection_flush(
	struct connection *connection, struct deadline deadline, struct failure *failure);

/* The next reply; reply_free() with it. IO_CLOSED: the connection broke; IO_FAILED: what came
 * is not of Redis. Either way it is of no further use. */
enum io_result connection_read(struct connection *connection, struct reply **reply,
	struct deadline deadline, struct failure *failure);

/* One plain command while nothing is under way, and its reply, which may be an error. reply_free()
 * with it after IO_OK. */
enum io_result connection_call(struct connection *connection, struct reply **reply,
	const char *const *words, struct deadline deadline, struct failure *failure);

/* Reads and forgets what has come: what is closed with something unread is reset, and then a
 * request on its way there may be lost. */
void connection_drain(struct connection *connection);

/* For poll(2). */
int connection_fd(const struct connection *connection);

/* Replies. All but reply_free may be asked of NULL and of a reply of another kind, and then say
 * what an absent value is: NULL, 0, false. Text is borrowed from the reply and ends with a NUL. */
const char *reply_text(const struct reply *reply);
const char *reply_error(const struct reply *reply);
int64_t reply_integer(const struct reply *reply);
int64_t reply_within(const struct reply *reply, int64_t least, int64_t most); /* clamped */
bool reply_is_integer(const struct reply *reply);
bool reply_is_nil(const struct reply *reply);
size_t reply_count(const struct reply *reply);
const struct reply *reply_at(const struct reply *reply, size_t index);
bool reply_says(const struct reply *reply, const char *word); /* a list that begins with it */
void reply_free(struct reply *reply);
