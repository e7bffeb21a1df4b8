#include "redis/link/error_reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "lock/service.h"

#define NONSENSE "gave an answer that makes no sense here"

/* A kind and the exit code that goes with it. */
#define REFUSED    ERROR_REPLY_FINAL, EXIT_REFUSED
#define UNUSABLE   ERROR_REPLY_FINAL, EXIT_UNREACHABLE
#define MISTAKEN   ERROR_REPLY_FINAL, EXIT_USAGE
#define LATER      ERROR_REPLY_AGAIN, EXIT_UNREACHABLE
#define MOVED_AWAY ERROR_REPLY_MOVED_AWAY, EXIT_UNREACHABLE
#define REDIRECT   ERROR_REPLY_REDIRECT, EXIT_UNREACHABLE
#define MOVING     ERROR_REPLY_MOVING, EXIT_UNREACHABLE
#define NO_RIGHT   ERROR_REPLY_NO_RIGHT, EXIT_REFUSED
#define NO_KEYS    "does not give this user all keys under the prefix (~PREFIX*)"
#define NO_COMMAND "does not let this user run a command that the lock's scripts call"

/* The first that fits counts. */
static const struct form {
	const char *begins; /* "": anything */
	const char *holds;  /* NULL: anything */
	enum error_reply_kind kind;
	enum exit_code code;
	const char *says;
} forms[] = {
	{"", "dlock format ", ERROR_REPLY_FINAL, EXIT_CONFIG, LOCK_NEWER},
	{"NOSCRIPT", NULL, ERROR_REPLY_NO_SCRIPT, EXIT_PROTOCOL, "does not keep scripts"},
	{"WRONGTYPE", NULL, ERROR_REPLY_WRONG_TYPE, EXIT_PROTOCOL,
		"has a key of another type there"},

	{"NOAUTH", NULL, REFUSED, "asks for a password"},
	/* More than ten arguments before AUTH are not even read: Redis 6.2.7. */
	{"ERR", "unauthenticated", REFUSED, "asks for a password"},
	{"WRONGPASS", NULL, REFUSED, "does not accept this user name and password"},
	{"ERR", "arguments for 'auth'", REFUSED,
		"knows no user names, being older than Redis 6: give the password alone"},
	{"ERR", "invalid password", REFUSED, "does not accept this password"},
	{"ERR", "without any password", REFUSED, "has no password set, but one was given"},
	{"ERR", "no password is set", REFUSED, "has no password set, but one was given"},
	{"NOPERM", "to access", REFUSED, NO_KEYS},
	{"NOPERM", NULL, REFUSED, "does not give this user the rights that a lock takes"},
	{"", "can't run this command", NO_RIGHT, NO_COMMAND},
	{"", "no permissions to run", NO_RIGHT, NO_COMMAND},
	{"", "can't access at least one of the keys", REFUSED, NO_KEYS},
	{"", "o permissions to access", REFUSED, NO_KEYS},
	{"DENIED", NULL, REFUSED, "takes no connections from other hosts"},

	{"LOADING", NULL, LATER, "is still loading its data"},
	{"BUSY", NULL, LATER, "is busy with a script that does not end"},
	{"MOVED", NULL, REDIRECT, "is not the node that has this lock"},
	{"ASK", NULL, REDIRECT, "is not the node that has this lock"},
	{"TRYAGAIN", NULL, MOVING, "is moving the lock's keys"},
	{"", "access a non local key", MOVING, "is moving the lock's keys"},
	{"CLUSTERDOWN", NULL, LATER, "belongs to a cluster that is down"},
	{"MASTERDOWN", NULL, MOVED_AWAY, "is a replica without its master"},
	{"ERR", "WAIT cannot be used", MOVED_AWAY, "is a replica that can be written to"},
	{"READONLY", NULL, MOVED_AWAY, "is a read-only replica"},
	{"UNBLOCKED", NULL, MOVED_AWAY, "has changed its role"},

	{"OOM", NULL, UNUSABLE, "is out of memory and takes no writes"},
	{"MISCONF", NULL, UNUSABLE, "cannot save its data and takes no writes"},
	{"NOREPLICAS", NULL, UNUSABLE, "has too few replicas and takes no writes"},
	{"ERR", "max number of clients", UNUSABLE, "takes no more connections"},

	{"ERR", "DB index", MISTAKEN, "has no such database"},
	{"ERR", "SELECT is not allowed", MISTAKEN, "is a cluster, which has one database"},
	{"CROSSSLOT", NULL, MISTAKEN,
		"is a cluster, and would keep this lock's keys on several nodes"},
	{"", NULL, ERROR_REPLY_FINAL, EXIT_PROTOCOL, NONSENSE},
};

/* Behind the last place in a script that an error names; NULL: it names none. */
static const char *behind_place(const char *text)
{
	static const char mark[] = "@user_script:";
	const char *behind = NULL;

	for (const char *next = text; (next = strstr(next, mark)) != NULL;)
		behind = next += sizeof(mark) - 1;
	return behind;
}

/* An error inside a script, without what Redis puts in front of it. Before 7: "ERR Error running
 * script (call to f_SHA): @user_script:12: WRONGTYPE Operation ...", or "...: @user_script:12:
 * @user_script: 12: -OOM command ..."; from 7.2 on, for missing rights: "ERR ACL failure in script:
 * User ...". */
static const char *skip_wrapping(const char *text)
{
	static const char rights[] = "ERR ACL failure in script: ";
	const char *place = behind_place(text);

	if (strncmp(text, rights, sizeof(rights) - 1) == 0)
		return text + sizeof(rights) - 1;
	if (strncmp(text, "ERR Error running script", 24) != 0 || !place)
		return text;
	place += strspn(place, "0123456789: ");
	return place + (*place == '-');
}

/* The words that Redis 7 appends, " script: SHA, on @user_script:12.", tell a user nothing; nor do
 * the blanks of those before.
 */
static int length_of_message(const char *text)
{
	const char *script = strstr(text, " script: ");
	size_t length = script ? (size_t)(script - text) : strcspn(text, "\r\n");

	while (length > 0 && text[length - 1] == ' ')
		length--;
	return (int)length;
}

int error_reply_line(const char *text)
{
	const char *line = behind_place(text);

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
