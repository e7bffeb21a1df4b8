/*
 * ask SOCKET [-n DATABASE] COMMAND...: one question to a Redis server, answered as redis-cli does
 * for a pipe: an array's elements a line each, nothing for nil, an error as it is. Loads a tenth of
 * what redis-cli loads: the tests ask some 25,000 times. REDISCLI_AUTH is the password.
 *
 * Exits with 0, also after an error reply; 1: the server did not answer within 60 s, or is not
 * there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <hiredis/hiredis.h>

static void print(const redisReply *reply)
{
	if (reply->type == REDIS_REPLY_INTEGER)
		printf("%lld", reply->integer);
	else if (reply->type == REDIS_REPLY_ARRAY)
		for (size_t i = 0; i < reply->elements; i++) {
			if (i > 0)
				putchar('\n');
			print(reply->element[i]);
		}
	else if (reply->type != REDIS_REPLY_NIL)
		fwrite(reply->str, 1, (size_t)reply->len, stdout);
}

/* What the answer to the question depends on; whether it was refused shows then. */
static void prepare(redisContext *server, const char *format, const char *word)
{
	redisReply *reply = redisCommand(server, format, word);

	if (reply)
		freeReplyObject(reply);
}

int main(int argc, char **argv)
{
	const struct timeval limit = {60, 0};
	redisContext *server = argc > 2 ? redisConnectUnixWithTimeout(argv[1], limit) : NULL;
	redisReply *reply = NULL;

	if (server && !server->err) {
		const char *password = getenv("REDISCLI_AUTH");
		int first = 2;

		redisSetTimeout(server, limit);
		if (password)
			prepare(server, "AUTH %s", password);
		if (argc > 4 && strcmp(argv[2], "-n") == 0) {
			prepare(server, "SELECT %s", argv[3]);
			first = 4;
		}
		reply = redisCommandArgv(server, argc - first, (const char **)argv + first, NULL);
	}
	if (reply) {
		print(reply);
		putchar('\n');
		freeReplyObject(reply);
	} else {
		fprintf(stderr, "ask: %s\n",
			server ? server->errstr : "usage: ask SOCKET [-n DATABASE] COMMAND...");
	}
	if (server)
		redisFree(server);
	return !reply || fflush(stdout) != 0;
}
