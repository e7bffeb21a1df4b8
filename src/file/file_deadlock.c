/*
 * Waiters that hold other locks of the folder say so in their slots (request.held). A waiter that
 * has waited for a while looks at all of them. There is a circle if the holder of what it waits for
 * waits in turn, and so on, for what the first waiter holds. The last waiter of a circle gives up.
 * Each waiter looks after it has put itself on record, so the one that completes a circle sees it.
 */
#include <bsd/string.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/file_lock.h"

#define FIRST   NANOS_PER_SEC        /* most waits are over by then */
#define CONFIRM (300 * NANOS_PER_MS) /* the records are not read at one moment */
#define AGAIN   (20 * NANOS_PER_SEC)
#define TOKENS  (8 * LOCK_TOKEN_SIZE) /* of holders that count */
#define MOST    256                   /* waits that are looked at */
#define REST    104                   /* of the message, beside the circle */

/* One waiter: the lock and the holders that it waits for, and what it holds itself. */
struct wait_for {
	char key[KEY_SIZE];
	char holders[TOKENS]; /* lines; of permits none, as any may come free */
	char held[RECORD_HELD];
	int64_t ticket;
	bool seen;
};

struct circle {
	const struct file_lock *f;
	struct wait_for *waits; /* owned */
	int count;
	const struct wait_for *path[MOST];
	const char *through[MOST]; /* by which token each is reached */
	int length;
};

static void list_holders(const struct record *record, char lines[static TOKENS])
{
	struct slot_text text;

	lines[0] = '\0';
	for (size_t i = 0; i < record->head.count; i++) {
		const struct slot *slot = &record->slots[i];

		if (slot->mode == LOCK_PERMITS || slot->detached || slot->around != 0 ||
			record_holds_until(record, (int)i) != NANOS_NEVER)
			continue;
		record_read_text(record, (int)i, &text);
		strlcat(lines, text.token, TOKENS);
		strlcat(lines, "\n", TOKENS);
	}
}

static void add_waits(struct circle *circle, const struct record *record)
{
	char holders[TOKENS];
	struct slot_text text;

	list_holders(record, holders);
	for (size_t i = 0; i < record->head.count && circle->count < MOST; i++) {
		struct wait_for *wait = &circle->waits[circle->count];

		if (!record_waits(record, (int)i) || !record_lives(record, (int)i, BYTE_QUEUE))
			continue;
		record_read_text(record, (int)i, &text);
		if (text.held[0] == '\0')
			continue;
		strlcpy(wait->key, record->head.key, sizeof(wait->key));
		strcpy(wait->holders, holders);
		strcpy(wait->held, text.held);
		wait->ticket = record->slots[i].ticket;
		wait->seen = false;
		circle->count++;
	}
}

/* own: where our lock's holders are written. */
static void read_folder(struct circle *circle, char own[static TOKENS])
{
	const struct file_lock *f = circle->f;
	struct deadline now = {.until = 0, .cancel_fd = -1};
	const struct dirent *entry;
	struct failure unheard;
	DIR *folder = fdopendir(openat(f->folder.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));

	while (folder && (entry = readdir(folder)) != NULL) {
		struct record record;

		if (entry->d_name[0] != '.' || strchr(entry->d_name, '+') ||
			strlen(entry->d_name) > FILE_NAME_SIZE || strcmp(entry->d_name, ".") == 0 ||
			strcmp(entry->d_name, "..") == 0)
			continue;
		record_begin(&record, f->record.boot);
		record.reading = true;
		if (record_open(&record, &f->folder, entry->d_name + 1, "", false, &unheard) &&
			record_enter(&record, now, &unheard) == LOCK_GRANTED) {
			add_waits(circle, &record);
			if (strcmp(entry->d_name + 1, f->file) == 0)
				list_holders(&record, own);
			record_leave(&record);
		}
		record_close(&record);
	}
	if (folder)
		closedir(folder);
}

/* Whether the first token of the lines stands first in a line of held. */
static bool holds(const char *held, const char *token)
{
	size_t length = strcspn(token, "\n");

	for (const char *line = held; *line != '\0';
		line += strcspn(line, "\n"), line += *line == '\n')
		if (strncmp(line, token, length) == 0 && line[length] == ' ')
			return true;
	return false;
}

/* Whether those holders lead back to us: circle->path is the way then. */
static bool leads_back(struct circle *circle, const char *holders)
{
	const char *token = holders;

	for (; *token != '\0'; token += strcspn(token, "\n") + 1) {
		circle->through[circle->length] = token;
		if (holds(circle->f->request.held, token))
			return true;
		for (int i = 0; i < circle->count; i++) {
			struct wait_for *wait = &circle->waits[i];

			if (wait->seen || !holds(wait->held, token))
				continue;
			wait->seen = true;
			circle->path[circle->length++] = wait;
			if (circle->length < MOST && leads_back(circle, wait->holders))
				return true;
			circle->through[--circle->length] = token;
		}
	}
	return false;
}

/* "a is held by web3:77, which waits for b, which is held by ..."; too long, it is cut. */
static bool describe(const struct circle *circle, struct failure *failure)
{
	char text[sizeof(failure->text) - REST];
	size_t used = (size_t)snprintf(text, sizeof(text), "%.60s", circle->f->request.name);

	for (int i = 0; i < circle->length && used < sizeof(text); i++) {
		const char *token = circle->through[i];
		size_t length = strcspn(token, "\n");

		while (length > 0 && token[length - 1] != ':')
			length--;
		used += (size_t)snprintf(text + used, sizeof(text) - used,
			" is held by %.*s, which waits for %.60s, which", (int)length - 1, token,
			circle->path[i]->key);
	}
	return failure_set(failure, EXIT_DEADLOCK,
		"waiting would deadlock: %s is held by a dlock around this one; take these locks "
		"in one order everywhere",
		text);
}

/* The circle that we are in and came last of, as a number that only this one has; 0: there is none.
 */
static int64_t find_circle(struct circle *circle, int64_t ticket)
{
	char own[TOKENS] = "";
	int64_t sum = ticket;

	read_folder(circle, own);
	if (!leads_back(circle, own))
		return 0;
	for (int i = 0; i < circle->length; i++) {
		if (circle->path[i]->ticket > ticket)
			return 0;
		sum += (i + 2) * circle->path[i]->ticket;
	}
	return sum;
}

bool file_deadlock_look(struct file_lock *f, struct failure *failure)
{
	struct file_wait *wait = &f->wait;
	struct circle *circle = calloc(1, sizeof(*circle));
	int64_t found = 0;
	bool good = true;

	if (circle && (circle->waits = calloc(MOST, sizeof(*circle->waits)))) {
		circle->f = f;
		found = find_circle(circle, f->ticket);
		if (found != 0 && found == wait->circle)
			good = describe(circle, failure);
		free(circle->waits);
	}
	free(circle);
	wait->circle = found;
	wait->circle_at = clock_now() + (found != 0 ? CONFIRM : AGAIN);
	return good;
}

void file_deadlock_begin(struct file_lock *f)
{
	if (!f->request.held || f->request.held[0] == '\0')
		f->wait.circle_at = NANOS_NEVER;
	else if (f->wait.circle_at == 0 || f->wait.circle_at == NANOS_NEVER)
		f->wait.circle_at = clock_now() + FIRST;
}
