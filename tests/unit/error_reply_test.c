/* error_reply.c: the texts are those of Redis 5, 6.2, 7.0 and 8. */
#include "redis/link/error_reply.h"

#include <stdio.h>
#include <string.h>

#include "base/failure.h"

static const struct {
	const char *text;
	enum error_reply_kind kind;
	enum exit_code code;
	const char *says;
} cases[] = {
	{"NOSCRIPT No matching script. Please use EVAL.", ERROR_REPLY_NO_SCRIPT, EXIT_PROTOCOL,
		"scripts"},
	{"WRONGTYPE Operation against a key holding the wrong kind of value",
		ERROR_REPLY_WRONG_TYPE, EXIT_PROTOCOL, "another type"},
	{"WRONGTYPE Operation against a key holding the wrong kind of value script: "
	 "f1c2d3, on @user_script:1.",
		ERROR_REPLY_WRONG_TYPE, EXIT_PROTOCOL, "wrong kind of value)"},
	{"ERR Error running script (call to f_f1c2d3): @user_script:12: WRONGTYPE Operation "
	 "against a key "
	 "holding the wrong kind of value",
		ERROR_REPLY_WRONG_TYPE, EXIT_PROTOCOL, "(WRONGTYPE Operation"},
	{"ERR Error running script (call to f_f1): @user_script: 3: @user_script: 3: Write "
	 "commands are not "
	 "allowed",
		ERROR_REPLY_FINAL, EXIT_PROTOCOL, "no sense"},
	{"ERR Error running script (call to f_f1): @user_script:178: @user_script: 178: -OOM "
	 "command not allowed when used memory > 'maxmemory'.   ",
		ERROR_REPLY_FINAL, EXIT_UNREACHABLE,
		"takes no writes (OOM command not allowed when used memory > 'maxmemory'.)"},
	{"ERR Error running script (call to f_f1): @user_script:9: @user_script: 9: -READONLY You "
	 "can't write against a read only replica.",
		ERROR_REPLY_MOVED_AWAY, EXIT_UNREACHABLE, "is a read-only replica (READONLY"},
	{"ERR Error running script (call to f_f1): @user_script:9: @user_script: 9: -NOREPLICAS "
	 "Not enough good replicas to write.",
		ERROR_REPLY_FINAL, EXIT_UNREACHABLE, "too few replicas"},
	{"NOAUTH Authentication required.", ERROR_REPLY_FINAL, EXIT_REFUSED, "asks for a password"},
	{"ERR Protocol error: unauthenticated multibulk length", ERROR_REPLY_FINAL, EXIT_REFUSED,
		"asks for a password"},
	{"WRONGPASS invalid username-password pair or user is disabled.", ERROR_REPLY_FINAL,
		EXIT_REFUSED, "does not accept"},
	{"ERR wrong number of arguments for 'auth' command", ERROR_REPLY_FINAL, EXIT_REFUSED,
		"no user names"},
	{"ERR invalid password", ERROR_REPLY_FINAL, EXIT_REFUSED, "does not accept"},
	{"ERR Client sent AUTH, but no password is set", ERROR_REPLY_FINAL, EXIT_REFUSED,
		"one was given"},
	{"ERR AUTH <password> called without any password configured for the default user. Are you "
	 "sure your "
	 "configuration is correct?",
		ERROR_REPLY_FINAL, EXIT_REFUSED, "one was given"},
	{"NOPERM User x has no permissions to run the 'evalsha' command", ERROR_REPLY_FINAL,
		EXIT_REFUSED, "'evalsha'"},
	{"NOPERM this user has no permissions to access one of the keys used as arguments",
		ERROR_REPLY_FINAL, EXIT_REFUSED, "~PREFIX*"},
	{"NOPERM No permissions to access a key", ERROR_REPLY_FINAL, EXIT_REFUSED, "~PREFIX*"},
	{"ERR The user executing the script can't run this command or subcommand script: f1, on "
	 "@user_script:30.",
		ERROR_REPLY_NO_RIGHT, EXIT_REFUSED, "scripts call"},
	{"ERR Error running script (call to f_f1): @user_script:30: @user_script: 30: The user "
	 "executing the script can't run this command or subcommand",
		ERROR_REPLY_NO_RIGHT, EXIT_REFUSED, "scripts call"},
	{"ERR ACL failure in script: User half has no permissions to run the 'set' command script: "
	 "f1, on @user_script:30.",
		ERROR_REPLY_NO_RIGHT, EXIT_REFUSED,
		"(User half has no permissions to run the 'set' command)"},
	{"ERR ACL failure in script: No permissions to access a key script: f1, on "
	 "@user_script:30.",
		ERROR_REPLY_FINAL, EXIT_REFUSED, "~PREFIX*"},
	{"ERR The user executing the script can't access at least one of the keys mentioned in the "
	 "command "
	 "arguments script: f1, on @user_script:30.",
		ERROR_REPLY_FINAL, EXIT_REFUSED, "all keys"},
	{"DENIED Redis is running in protected mode", ERROR_REPLY_FINAL, EXIT_REFUSED,
		"other hosts"},
	{"LOADING Redis is loading the dataset in memory", ERROR_REPLY_AGAIN, EXIT_UNREACHABLE,
		"loading"},
	{"BUSY Redis is busy running a script.", ERROR_REPLY_AGAIN, EXIT_UNREACHABLE, "busy"},
	{"BUSYKEY Target key name already exists.", ERROR_REPLY_FINAL, EXIT_PROTOCOL, "no sense"},
	{"CLUSTERDOWN The cluster is down", ERROR_REPLY_AGAIN, EXIT_UNREACHABLE, "down"},
	{"TRYAGAIN Multiple keys request during rehashing of slot", ERROR_REPLY_MOVING,
		EXIT_UNREACHABLE, "moving"},
	{"ERR Script attempted to access a non local key in a cluster node script: f1, on "
	 "@user_script:3.",
		ERROR_REPLY_MOVING, EXIT_UNREACHABLE, "moving"},
	{"MOVED 3999 127.0.0.1:6381", ERROR_REPLY_REDIRECT, EXIT_UNREACHABLE, "not the node"},
	{"ASK 3999 127.0.0.1:6381", ERROR_REPLY_REDIRECT, EXIT_UNREACHABLE, "not the node"},
	{"CROSSSLOT Keys in request don't hash to the same slot", ERROR_REPLY_FINAL, EXIT_USAGE,
		"several nodes"},
	{"MASTERDOWN Link with MASTER is down", ERROR_REPLY_MOVED_AWAY, EXIT_UNREACHABLE,
		"replica"},
	{"READONLY You can't write against a read only replica.", ERROR_REPLY_MOVED_AWAY,
		EXIT_UNREACHABLE, "replica"},
	{"READONLY You can't write against a read only replica. script: f1, on @user_script:50.",
		ERROR_REPLY_MOVED_AWAY, EXIT_UNREACHABLE, "replica.)"},
	{"OOM command not allowed when used memory > 'maxmemory'.", ERROR_REPLY_FINAL,
		EXIT_UNREACHABLE, "memory"},
	{"MISCONF Redis is configured to save RDB snapshots", ERROR_REPLY_FINAL, EXIT_UNREACHABLE,
		"cannot save"},
	{"NOREPLICAS Not enough good replicas to write.", ERROR_REPLY_FINAL, EXIT_UNREACHABLE,
		"replicas"},
	{"ERR max number of clients reached", ERROR_REPLY_FINAL, EXIT_UNREACHABLE, "connections"},
	{"ERR DB index is out of range", ERROR_REPLY_FINAL, EXIT_USAGE, "database"},
	{"ERR \033[2J what\r\nnow", ERROR_REPLY_FINAL, EXIT_PROTOCOL, "(ERR ?[2J what)"},
	{"", ERROR_REPLY_FINAL, EXIT_PROTOCOL, "no sense"},
};

int main(void)
{
	size_t count = sizeof(cases) / sizeof(cases[0]);
	int failures = 0;

	for (size_t i = 0; i < count; i++) {
		struct failure failure = {0};
		enum error_reply_kind kind = error_reply_read(cases[i].text, "redis://h", &failure);
		bool good = kind == cases[i].kind && failure.code == cases[i].code &&
			    strncmp(failure.text, "redis://h ", 10) == 0 &&
			    strstr(failure.text, cases[i].says);

		failures += !good;
		printf("%sok %zu - %.*s\n", good ? "" : "not ", i + 1,
			(int)strcspn(cases[i].text, "\033\r\n"), cases[i].text);
		if (!good)
			printf("# kind %d, code %d: %s\n", (int)kind, (int)failure.code,
				failure.text);
	}
	printf("1..%zu\n", count);
	return failures > 0;
}
