#include "party.h"

#include <bsd/string.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decimal.h"
#include "text.h"

#define START_FIELD 22 /* of /proc/PID/stat, from 1: in clock ticks after boot */

/* Copies as much as fits in whole characters, made printable. */
static void set(char *to, size_t size, const char *from, size_t length)
{
	char text[PARTY_TEXT];
	size_t end = 0;

	if (length >= sizeof(text))
		length = sizeof(text) - 1;
	memcpy(text, from, length);
	text[length] = '\0';
	text_clean(text);
	while (text[end] != '\0' && end + text_character(text + end) < size)
		end += text_character(text + end);
	memcpy(to, text, end);
	to[end] = '\0';
}

/* What a small file holds, up to the first newline; "" when it cannot be read. */
static void read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[length < 0 ? 0 : length] = '\0';
	text[strcspn(text, "\n")] = '\0';
}

/* 0 when it cannot be read. The second field, the program's name, may hold blanks and brackets. */
static uint64_t read_start(void)
{
	char text[1024];
	const char *at;

	read_file("/proc/self/stat", text, sizeof(text));
	at = strrchr(text, ')');
	for (int field = 2; at && field < START_FIELD; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* The name that /etc/passwd has for a user, else the number: getpwuid(3) would load the modules of
 * nsswitch.conf, which takes a millisecond, and may ask a directory server. */
static void read_user(uid_t uid, char *text, size_t size)
{
	FILE *file = fopen("/etc/passwd", "re");
	const struct passwd *entry = NULL;

	while (file && (entry = fgetpwent(file)) != NULL && entry->pw_uid != uid)
		continue;
	if (entry)
		strlcpy(text, entry->pw_name, size);
	else
		snprintf(text, size, "%u", (unsigned)uid);
	if (file)
		fclose(file);
}

static void find_user(char *text, size_t size)
{
	const char *user = getenv("LOGNAME");

	if (!user || !*user)
		user = getenv("USER");
	if (user && *user)
		strlcpy(text, user, size);
	else if (geteuid() == 0)
		strlcpy(text, "root", size); /* in a container, say, where neither is set */
	else
		read_user(geteuid(), text, size);
}

void party_self(struct party *party, const char *label)
{
	char text[256];

	*party = (struct party){.pid = getpid(), .start = read_start()};
	if (gethostname(text, sizeof(text)) != 0)
		text[0] = '\0';
	text[sizeof(text) - 1] = '\0';
	set(party->host, sizeof(party->host), text, strlen(text));
	read_file("/proc/sys/kernel/random/boot_id", text, sizeof(text));
	set(party->boot, sizeof(party->boot), text, strlen(text));
	find_user(text, sizeof(text));
	set(party->user, sizeof(party->user), text, strlen(text));
	set(party->label, sizeof(party->label), label, strlen(label));
}

const char *party_write(const struct party *party, char text[static PARTY_TEXT])
{
	char *at = text;

	at = stpcpy(stpcpy(at, "host="), party->host);
	at = stpcpy(stpcpy(at, "\tboot="), party->boot);
	at = decimal_write(stpcpy(at, "\tpid="), party->pid);
	at = decimal_write_unsigned(stpcpy(at, "\tstart="), party->start);
	at = stpcpy(stpcpy(at, "\tuser="), party->user);
	stpcpy(stpcpy(at, "\tlabel="), party->label);
	return text;
}

static void take(
	struct party *party, const char *key, size_t key_length, const char *value, size_t length)
{
	const struct {
		const char *key;
		char *to;
		size_t size;
	} texts[] = {
		{"host", party->host, sizeof(party->host)},
		{"boot", party->boot, sizeof(party->boot)},
		{"user", party->user, sizeof(party->user)},
		{"label", party->label, sizeof(party->label)},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strlen(texts[i].key) == key_length &&
			memcmp(texts[i].key, key, key_length) == 0)
			set(texts[i].to, texts[i].size, value, length);
	}
	if (key_length == 3 && memcmp(key, "pid", 3) == 0)
		party->pid = (pid_t)strtol(value, NULL, 10);
	if (key_length == 5 && memcmp(key, "start", 5) == 0)
		party->start = strtoull(value, NULL, 10);
}

void party_read(struct party *party, const char *text)
{
	*party = (struct party){0};
	while (*text) {
		size_t length = strcspn(text, "\t");
		const char *equals = memchr(text, '=', length);

		if (equals)
			take(party, text, (size_t)(equals - text), equals + 1,
				length - (size_t)(equals + 1 - text));
		text += length + (text[length] == '\t');
	}
}
