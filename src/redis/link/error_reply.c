#include "redis/link/error_reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/failure.h"

#define NONSENSE "gave an answer that makes no sense here"

/* The first that fits counts. */
static const struct form {
	const char *begins; /* "": anything */
	const char *holds;  /* NULL: anything */
	enum error_reply_kind kind;
	enum exit_code code;
	const char *says;
} forms[] = {
	{"NOSCRIPT", NULL, ERROR_REPLY_NO_SCRIPT, EXIT_PROTOCOL, "does not keep scripts"},
	{"WRONGTYPE", NULL, ERROR_REPLY_WRONG_TYPE, EXIT_PROTOCOL,
		"has a key of another type there"},

	{"NOAUTH", NULL, ERROR_REPLY_FINAL, EXIT_REFUSED, "asks for a password"},
	/* More than ten arguments before AUTH are not even read: Redis 6.2.7. */
	{"ERR", "unauthenticated", ERROR_REPLY_FINAL, EXIT_REFUSED, "asks for a password"},
	{"WRONGPASS", NULL, ERROR_REPLY_FINAL, EXIT_REFUSED,
		"does not accept this user name and password"},
	{"ERR", "invalid password", ERROR_REPLY_FINAL, EXIT_REFUSED,
		"does not accept this password"},
	{"ERR", "without any password", ERROR_REPLY_FINAL, EXIT_REFUSED,
		"has no password set, but one was given"},
	{"ERR", "no password is set", ERROR_REPLY_FINAL, EXIT_REFUSED,
		"has no password set, but one was given"},
	{"NOPERM", "to access", ERROR_REPLY_FINAL, EXIT_REFUSED,
		"does not give this user all keys under the prefix (~PREFIX*)"},
	{"NOPERM", NULL, ERROR_REPLY_FINAL, EXIT_REFUSED,
		"does not give this user the rights that a lock takes"},
	{"", "can't run this command", ERROR_REPLY_NO_RIGHT, EXIT_REFUSED,
		"does not let this user run a command that the lock's scripts call"},
	{"", "no permissions to run", ERROR_REPLY_NO_RIGHT, EXIT_REFUSED,
		"does not let this user run a command that the lock's scripts call"},
	{"", "can't access at least one of the keys", ERROR_REPLY_FINAL, EXIT_REFUSED,
		"does not give this user all keys under the prefix (~PREFIX*)"},
	{"", "o permissions to access", ERROR_REPLY_FINAL, EXIT_REFUSED,
		"does not give this user all keys under the prefix (~PREFIX*)"},
	{"DENIED", NULL, ERROR_REPLY_FINAL, EXIT_REFUSED, "takes no connections from other hosts"},

	{"LOADING", NULL, ERROR_REPLY_AGAIN, EXIT_UNREACHABLE, "is still loading its data"},
	{"BUSY", NULL, ERROR_REPLY_AGAIN, EXIT_UNREACHABLE,
		"is busy with a script that does not end"},
	{"MOVED", NULL, ERROR_REPLY_REDIRECT, EXIT_UNREACHABLE,
		"is not the node that has this lock"},
	{"ASK", NULL, ERROR_REPLY_REDIRECT, EXIT_UNREACHABLE, "is not the node that has this lock"},
	{"TRYAGAIN", NULL, ERROR_REPLY_MOVING, EXIT_UNREACHABLE, "is moving the lock's keys"},
	{"", "access a non local key", ERROR_REPLY_MOVING, EXIT_UNREACHABLE,
		"is moving the lock's keys"},
	{"CLUSTERDOWN", NULL, ERROR_REPLY_AGAIN, EXIT_UNREACHABLE,
		"belongs to a cluster that is down"},
	{"MASTERDOWN", NULL, ERROR_REPLY_MOVED_AWAY, EXIT_UNREACHABLE,
		"is a replica without its master"},
	{"ERR", "WAIT cannot be used", ERROR_REPLY_MOVED_AWAY, EXIT_UNREACHABLE,
		"is a replica that can be written to"},
	{"READONLY", NULL, ERROR_REPLY_MOVED_AWAY, EXIT_UNREACHABLE, "is a read-only replica"},
	{"UNBLOCKED", NULL, ERROR_REPLY_MOVED_AWAY, EXIT_UNREACHABLE, "has changed its role"},

	{"OOM", NULL, ERROR_REPLY_FINAL, EXIT_UNREACHABLE, "is out of memory and takes no writes"},
	{"MISCONF", NULL, ERROR_REPLY_FINAL, EXIT_UNREACHABLE,
		"cannot save its data and takes no writes"},
	{"NOREPLICAS", NULL, ERROR_REPLY_FINAL, EXIT_UNREACHABLE,
		"has too few replicas and takes no writes"},
	{"ERR", "max number of clients", ERROR_REPLY_FINAL, EXIT_UNREACHABLE,
		"takes no more connections"},

	{"ERR", "DB index", ERROR_REPLY_FINAL, EXIT_USAGE, "has no such database"},
	{"ERR", "SELECT is not allowed", ERROR_REPLY_FINAL, EXIT_USAGE,
		"is a cluster, which has one database"},
	{"CROSSSLOT", NULL, ERROR_REPLY_FINAL, EXIT_USAGE,
		"is a cluster, and would keep this lock's keys on several nodes"},
	{"", NULL, ERROR_REPLY_FINAL, EXIT_PROTOCOL, NONSENSE},
};

/* An error inside a script, without what Redis puts in front of it. Before 7: "ERR Error running
 * script (call to f_SHA): @user_script:12: WRONGTYPE Operation ..."; from 7.2 on, for missing
 * rights: "ERR ACL failure in script: User ...". */
static const char *skip_wrapping(const char *text)
{
	static const char rights[] = "ERR ACL failure in script: ";
	const char *place = strstr(text, "@user_script:");

	if (strncmp(text, rights, sizeof(rights) - 1) == 0)
		return text + sizeof(rights) - 1;
	if (strncmp(text, "ERR Error running script", 24) != 0 || !place)
		return text;
	place += strlen("@user_script:");
	return place + strspn(place, "0123456789: ");
}

/* What Redis 7 appends, " script: SHA, on @user_script:12.", tells nobody anything. */
static int length_of_message(const char *text)
{
	const char *script = strstr(text, " script: ");

	return (int)(script ? script - text : (long)strcspn(text, "\r\n"));
}

int error_reply_line(const char *text)
{
	const char *line = NULL;

	for (const char *next = text; (next = strstr(next, "@user_script:")) != NULL;)
		line = next += strlen("@user_script:");
	return line ? atoi(line) : 0;
}

static bool fits(const struct form *form, const char *text)
{
	size_t length = strlen(form->begins);

	if (length > 0 && (strncmp(text, form->begins, length) != 0 ||
				  (text[length] != ' ' && text[length] != '\0')))
		return false;
	return !form->holds || strstr(text, form->holds) != NULL;
}

enum error_reply_kind error_reply_read(const char *text, const char *peer, struct failure *failure)
{
	const struct form *form = forms;

	text = skip_wrapping(text);
	while (!fits(form, text))
		form++;
	failure_set(failure, form->code, "%s %s (%.*s)", peer, form->says, length_of_message(text),
		text);
	return form->kind;
}

bool error_reply_nonsense(struct failure *failure, const char *peer)
{
	return failure_set(failure, EXIT_PROTOCOL, "%s " NONSENSE, peer);
}
