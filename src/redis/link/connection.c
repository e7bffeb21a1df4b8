#include "redis/link/connection.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/failure.h"
#include "net/server.h"
#include "net/socket.h"
#include "net/tls.h"

#define REPLY_MOST (64 << 20) /* bytes of one reply: beyond that a server sends nonsense */
#define LIST_MOST  (1 << 20)  /* elements of all its lists: memory is taken before they come */
#define DEPTH_MOST 8          /* lists in lists: hiredis 1 frees them by recursion, however deep */
#define TLS_ALERT  0x15       /* how a TLS server answers what is no TLS (RFC 8446, 5.1) */

#if HIREDIS_MAJOR >= 1
typedef size_t list_length;
#else
typedef int list_length;
#endif

struct connection {
	int fd;          /* owned */
	struct tls *tls; /* owned; NULL: without */
	const char *peer;
	redisReader *reader; /* owned */
	redisReplyObjectFunctions functions;
	void *(*create_list)(const redisReadTask *task, list_length length);
	char *out; /* owned */
	size_t out_length, out_sent;
	bool full;       /* a command found no memory */
	size_t unparsed; /* bytes since the last whole reply */
	size_t listed;   /* elements since then */
	bool heard;      /* something came from there */
	bool secure_port;
	bool is_local; /* a unix socket */
};

/* A list of replies as hiredis makes it, unless a hostile server asks for too much. */
static void *create_list(const redisReadTask *task, list_length length)
{
	struct connection *connection = task->privdata;

	if (length > LIST_MOST || connection->reader->ridx >= DEPTH_MOST)
		return NULL;
	connection->listed += (size_t)length;
	return connection->listed > LIST_MOST ? NULL : connection->create_list(task, length);
}

static bool create_reader(struct connection *connection)
{
	redisReader *reader = redisReaderCreate();

	if (!reader)
		return false;
	connection->functions = *reader->fn;
	connection->create_list = reader->fn->createArray;
	connection->functions.createArray = create_list;
	reader->fn = &connection->functions;
	reader->privdata = connection;
	connection->reader = reader;
	return true;
}

static enum io_result fail_memory(struct failure *failure)
{
	failure_set(failure, EXIT_SYSTEM, "out of memory");
	return IO_FAILED;
}

/* The socket is closed if it fails. */
static enum io_result create(struct connection **out, int fd, const struct endpoint *endpoint,
	const char *peer, struct failure *failure)
{
	struct connection *connection = *out = calloc(1, sizeof(*connection));

	if (connection)
		*connection = (struct connection){
			.fd = fd, .peer = peer, .is_local = endpoint->port == 0};
	if (connection && create_reader(connection))
		return IO_OK;
	free(connection);
	close(fd);
	return fail_memory(failure);
}

enum io_result connection_open(struct connection **out, const struct server *server,
	const struct endpoint *endpoint, const char *peer, struct lookup **lookup,
	struct deadline deadline, struct failure *failure)
{
	int fd;
	enum io_result result = socket_open(&fd, endpoint, peer, lookup, deadline, failure);

	if (result == IO_OK)
		result = create(out, fd, endpoint, peer, failure);
	if (result != IO_OK || !server->tls)
		return result;
	result = tls_open(&(*out)->tls, fd, server, endpoint->host, peer, deadline, failure);
	if (result != IO_OK)
		connection_close(*out);
	return result;
}

void connection_close(struct connection *connection)
{
	if (connection->tls)
		tls_close(connection->tls);
	close(connection->fd);
	redisReaderFree(connection->reader);
	free(connection->out);
	free(connection);
}

int connection_fd(const struct connection *connection)
{
	return connection->fd;
}

void connection_append(struct connection *connection, const char *const *words)
{
	char *command = NULL, *out = NULL;
	int64_t length;
	int count = 0;

	while (words[count])
		count++;
	length = redisFormatCommandArgv(&command, count, (const char **)words, NULL);
	if (length >= 0)
		out = realloc(connection->out, connection->out_length + (size_t)length);
	if (out) {
		memcpy(out + connection->out_length, command, (size_t)length);
		connection->out = out;
		connection->out_length += (size_t)length;
	}
	connection->full |= !out;
	redisFreeCommand(command);
}

static ssize_t send_bytes(struct connection *connection, const char *data, size_t size)
{
	if (connection->tls)
		return tls_send(connection->tls, data, size);
	return send(connection->fd, data, size, MSG_NOSIGNAL);
}

/* Until the socket is ready for what the last try could not do. */
static enum deadline_end await(
	const struct connection *connection, struct deadline *deadline, short events)
{
	/* poll(2) does not know of the bytes that TLS has taken from the socket already. */
	if (connection->tls && events == POLLIN && tls_is_ready(connection->tls))
		return DEADLINE_READY;
	if (connection->tls)
		events = tls_events(connection->tls);
	return deadline_wait(deadline, connection->fd, events);
}

enum io_result connection_flush(
	struct connection *connection, struct deadline deadline, struct failure *failure)
{
	bool late = false; /* time was up before the last try: ready or not, there is no other */

	if (connection->full) {
		connection->full = false;
		connection->out_length = 0;
		return fail_memory(failure);
	}
	while (connection->out_sent < connection->out_length) {
		ssize_t sent = send_bytes(connection, connection->out + connection->out_sent,
			connection->out_length - connection->out_sent);
		enum deadline_end end;

		if (sent >= 0) {
			connection->out_sent += (size_t)sent;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			break;
		end = late ? DEADLINE_OVER : await(connection, &deadline, POLLOUT);
		late = deadline_is_over(&deadline);
		if (end == DEADLINE_OVER)
			failure_set(failure, EXIT_UNREACHABLE, "%s takes no more bytes",
				connection->peer);
		if (end != DEADLINE_READY)
			return end == DEADLINE_OVER ? IO_TIMEOUT : IO_CANCELLED;
	}
	connection->out_length = connection->out_sent = 0;
	return IO_OK;
}

static enum io_result fail_nonsense(const struct connection *connection, struct failure *failure)
{
	failure_set(failure, EXIT_PROTOCOL, "%s does not speak the Redis protocol%s",
		connection->peer, connection->secure_port ? " but TLS (rediss://)" : "");
	return IO_FAILED;
}

static enum io_result fail_closed(
	const struct connection *connection, int error, struct failure *failure)
{
	if (connection->tls)
		return tls_explain(connection->tls, failure);
	failure_set(failure, EXIT_UNREACHABLE, "%s closed the connection%s%s%s", connection->peer,
		error ? ": " : "", error ? strerror(error) : "",
		connection->heard || connection->is_local ? ""
							  : " (where it wants TLS: rediss://)");
	return IO_CLOSED;
}

static ssize_t receive_bytes(struct connection *connection, char *data, size_t size)
{
	if (connection->tls)
		return tls_receive(connection->tls, data, size);
	return recv(connection->fd, data, size, 0);
}

static enum io_result read_bytes(struct connection *connection, struct failure *failure)
{
	char bytes[1024]; /* most answers are shorter, and a page of the stack costs a fault */
	ssize_t count = receive_bytes(connection, bytes, sizeof(bytes));

	if (count < 0 && (errno == EAGAIN || errno == EINTR))
		return IO_OK;
	if (count <= 0)
		return fail_closed(connection, count < 0 ? errno : 0, failure);
	if (!connection->heard)
		connection->secure_port = bytes[0] == TLS_ALERT;
	connection->heard = true;
	connection->unparsed += (size_t)count;
	if (connection->unparsed > REPLY_MOST)
		return fail_nonsense(connection, failure);
	return redisReaderFeed(connection->reader, bytes, (size_t)count) == REDIS_OK
		       ? IO_OK
		       : fail_memory(failure);
}

/* IO_AGAIN: it is not complete. */
static enum io_result parse(
	struct connection *connection, struct reply **reply, struct failure *failure)
{
	void *found = NULL;

	if (redisReaderGetReply(connection->reader, &found) != REDIS_OK)
		return fail_nonsense(connection, failure);
	if (!found)
		return IO_AGAIN;
	connection->unparsed = connection->listed = 0;
	*reply = found;
	return IO_OK;
}

void connection_drain(struct connection *connection)
{
	char bytes[4096];

	while (recv(connection->fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) /* TLS or not */
		continue;
}

enum io_result connection_read(struct connection *connection, struct reply **reply,
	struct deadline deadline, struct failure *failure)
{
	enum io_result result = IO_OK;
	enum deadline_end end;

	while (result == IO_OK) {
		result = parse(connection, reply, failure);
		if (result != IO_AGAIN)
			return result;
		end = await(connection, &deadline, POLLIN);
		if (end == DEADLINE_OVER)
			failure_set(
				failure, EXIT_UNREACHABLE, "%s does not answer", connection->peer);
		if (end != DEADLINE_READY)
			return end == DEADLINE_OVER ? IO_TIMEOUT : IO_CANCELLED;
		result = read_bytes(connection, failure);
	}
	return result;
}

enum io_result connection_call(struct connection *connection, struct reply **reply,
	const char *const *words, struct deadline deadline, struct failure *failure)
{
	enum io_result io;

	connection_append(connection, words);
	io = connection_flush(connection, deadline, failure);
	return io == IO_OK ? connection_read(connection, reply, deadline, failure) : io;
}

void connection_library(char *text, size_t size)
{
	snprintf(text, size, "hiredis %d.%d.%d", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
}
