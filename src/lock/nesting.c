#include "lock/nesting.h"

#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/token.h"
#include "process/process.h"

#define DEPTH_MOST 4096 /* ancestors; a process tree that is deeper has gone wild */

static bool add(struct nesting *nesting, const char *token)
{
	size_t length = strlen(token);
	size_t used = strlen(nesting->tokens);

	if (length == 0 || length >= LOCK_TOKEN_SIZE || strpbrk(token, " \t\n") ||
		strstr(nesting->tokens, token) || used + length + 2 > NESTING_TEXT)
		return false;
	if (used > 0)
		strlcat(nesting->tokens, " ", NESTING_TEXT);
	strlcat(nesting->tokens, token, NESTING_TEXT);
	return true;
}

static void add_held(struct nesting *nesting, const char *token, const char *name, size_t length)
{
	size_t used = strlen(nesting->held);

	if (used + strlen(token) + length + 3 <= NESTING_HELD)
		snprintf(nesting->held + used, NESTING_HELD - used, "%s %.*s\n", token, (int)length,
			name);
}

/* NAME=FENCE ... of several locks. A NAME may hold blanks; "=DIGITS " ends it. */
static void add_fences(struct nesting *nesting, const char *token, const char *fences)
{
	const char *name = fences;

	for (const char *at = strchr(fences, '='); at; at = strchr(at + 1, '=')) {
		size_t digits = strspn(at + 1, "0123456789");
		char end = at[1 + digits];

		if (digits == 0 || (end != ' ' && end != '\0'))
			continue;
		add_held(nesting, token, name, (size_t)(at - name));
		name = at + 1 + digits + (end == ' ');
	}
}

/* The words of a dlock to its COMMAND. */
struct told {
	char *token, *name, *fences;
};

static bool add_told(struct nesting *nesting, const struct told *told)
{
	if (!told->token || !add(nesting, told->token))
		return false;
	if (told->fences)
		add_fences(nesting, told->token, told->fences);
	else if (told->name)
		add_held(nesting, told->token, told->name, strlen(told->name));
	return true;
}

/* The environment that the process was started with; nothing if we may not read it. */
static bool add_environment(struct nesting *nesting, pid_t pid)
{
	struct told told = {.token = process_variable(pid, "DLOCK_TOKEN")};
	bool added;

	if (!told.token)
		return false;
	told.name = process_variable(pid, "DLOCK_NAME");
	told.fences = process_variable(pid, "DLOCK_FENCES");
	added = add_told(nesting, &told);
	free(told.token);
	free(told.name);
	free(told.fences);
	return added;
}

/* holder: NULL, or a process that *is_ancestor is to tell of. */
static void look(struct nesting *nesting, const struct owner *holder, bool *is_ancestor)
{
	struct process process;
	pid_t pid = getppid();

	nesting->looked = true;
	for (int depth = 0; pid > 0 && depth < DEPTH_MOST; depth++) {
		if (!process_read(pid, &process))
			break;
		add_environment(nesting, pid);
		if (holder && pid == holder->pid && process.start == holder->start)
			*is_ancestor = true;
		pid = process.parent;
	}
}

void nesting_open(struct nesting *nesting)
{
	struct told told = {getenv("DLOCK_TOKEN"), getenv("DLOCK_NAME"), getenv("DLOCK_FENCES")};

	nesting->looked = false;
	nesting->tokens[0] = nesting->held[0] = nesting->over[0] = '\0';
	if (add_told(nesting, &told))
		look(nesting, NULL, NULL);
}

bool nesting_has(struct nesting *nesting, const struct owner *self,
	const struct lock_answer *answer, bool may_look)
{
	bool near = answer->known && owner_is_near(&answer->holder, self), is_ancestor = false;
	const char *token = answer->holder_token;

	if (token_fault(token) || strcmp(token, nesting->over) == 0)
		return false;
	if (!token_is_among(nesting->tokens, token) && may_look && (near || !nesting->looked))
		look(nesting, near ? &answer->holder : NULL, &is_ancestor);
	return is_ancestor || token_is_among(nesting->tokens, token);
}

const char *nesting_next(
	const struct nesting *nesting, const char *name, const char *line, char token[])
{
	line = line ? strchr(line, '\n') + 1 : nesting->held;
	for (; *line != '\0'; line = strchr(line, '\n') + 1) {
		size_t length = strcspn(line, " "), rest = strcspn(line, "\n") - length - 1;

		if (rest == strlen(name) && strncmp(line + length + 1, name, rest) == 0) {
			snprintf(token, LOCK_TOKEN_SIZE, "%.*s", (int)length, line);
			return line;
		}
	}
	return NULL;
}
