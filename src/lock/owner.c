#include "lock/owner.h"

#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/account.h"
#include "base/number.h"
#include "base/utf8.h"
#include "process/process.h"

/* Copies as much as fits in whole characters, made printable. */
static void set(char *to, size_t size, const char *from, size_t length)
{
	char text[OWNER_TEXT];
	size_t end = 0;

	if (length >= sizeof(text))
		length = sizeof(text) - 1;
	memcpy(text, from, length);
	text[length] = '\0';
	utf8_clean(text);
	while (text[end] != '\0' && end + utf8_character(text + end) < size)
		end += utf8_character(text + end);
	memcpy(to, text, end);
	to[end] = '\0';
}

/* The name that /etc/passwd has for a user, else the number. */
static void read_user(uid_t uid, char *text, size_t size)
{
	const struct passwd *account = account_find(uid);

	if (account)
		strlcpy(text, account->pw_name, size);
	else
		snprintf(text, size, "%u", (unsigned)uid);
}

static void find_user(char *text, size_t size)
{
	const char *user = getenv("LOGNAME");

	if (!user || !*user)
		user = getenv("USER");
	if (user && *user)
		strlcpy(text, user, size);
	else if (geteuid() == 0)
		strlcpy(text, "root", size); /* in a container, say, if neither is set */
	else
		read_user(geteuid(), text, size);
}

void owner_self(struct owner *owner, const char *label)
{
	struct process process = {0};
	char text[256];

	process_read(0, &process); /* the start is 0 if it cannot be read */
	*owner = (struct owner){
		.pid = getpid(), .start = process.start, .space = process_namespace()};
	if (gethostname(text, sizeof(text)) != 0)
		text[0] = '\0';
	text[sizeof(text) - 1] = '\0';
	set(owner->host, sizeof(owner->host), text, strlen(text));
	process_read_file("/proc/sys/kernel/random/boot_id", text, sizeof(text));
	set(owner->boot, sizeof(owner->boot), text, strcspn(text, "\n"));
	find_user(text, sizeof(text));
	set(owner->user, sizeof(owner->user), text, strlen(text));
	set(owner->label, sizeof(owner->label), label, strlen(label));
}

void owner_pass_on(struct owner *owner)
{
	struct process process = {0};

	process_read(0, &process);
	owner->pid = getpid();
	owner->start = process.start;
}

bool owner_is_near(const struct owner *one, const struct owner *other)
{
	return one->space != 0 && one->space == other->space &&
	       strcmp(one->host, other->host) == 0 && strcmp(one->boot, other->boot) == 0;
}

bool owner_is_same(const struct owner *one, const struct owner *other)
{
	return owner_is_near(one, other) && one->pid == other->pid && one->start == other->start;
}

const char *owner_write(const struct owner *owner, char text[static OWNER_TEXT])
{
	char *at = text;

	at = stpcpy(stpcpy(at, "host="), owner->host);
	at = stpcpy(stpcpy(at, "\tboot="), owner->boot);
	at = number_write(stpcpy(at, "\tpid="), owner->pid);
	at = number_write_unsigned(stpcpy(at, "\tstart="), owner->start);
	at = number_write_unsigned(stpcpy(at, "\tpidns="), owner->space);
	at = stpcpy(stpcpy(at, "\tuser="), owner->user);
	stpcpy(stpcpy(at, "\tlabel="), owner->label);
	return text;
}

static void take(
	struct owner *owner, const char *key, size_t key_length, const char *value, size_t length)
{
	const struct {
		const char *key;
		char *to;
		size_t size;
	} texts[] = {
		{"host", owner->host, sizeof(owner->host)},
		{"boot", owner->boot, sizeof(owner->boot)},
		{"user", owner->user, sizeof(owner->user)},
		{"label", owner->label, sizeof(owner->label)},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strlen(texts[i].key) == key_length &&
			memcmp(texts[i].key, key, key_length) == 0)
			set(texts[i].to, texts[i].size, value, length);
	if (key_length == 3 && memcmp(key, "pid", 3) == 0)
		owner->pid = (pid_t)strtol(value, NULL, 10);
	if (key_length == 5 && memcmp(key, "start", 5) == 0)
		owner->start = strtoull(value, NULL, 10);
	if (key_length == 5 && memcmp(key, "pidns", 5) == 0)
		owner->space = strtoull(value, NULL, 10);
}

void owner_read(struct owner *owner, const char *text)
{
	*owner = (struct owner){0};
	while (*text) {
		size_t length = strcspn(text, "\t");
		const char *equals = memchr(text, '=', length);

		if (equals)
			take(owner, text, (size_t)(equals - text), equals + 1,
				length - (size_t)(equals + 1 - text));
		text += length + (text[length] == '\t');
	}
}
