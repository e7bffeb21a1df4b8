#include "cli/hint.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/failure.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/options.h"
#include "lock/services.h"
#include "net/server.h"

static void add(struct failure *failure, const char *format, const char *meant)
	__attribute__((format(printf, 2, 0)));

/* Behind what the failure says. */
static void add(struct failure *failure, const char *format, const char *meant)
{
	char hint[sizeof(failure->text)];

	snprintf(hint, sizeof(hint), format, meant);
	failure_set(failure, failure->code, "%s; %s", failure->text, hint);
}

const char *hint_command(const struct command *commands, const char *word)
{
	struct nearest nearest;

	nearest_begin(&nearest, word, strlen(word));
	for (const struct command *command = commands; command->word != NULL; command++)
		nearest_try(&nearest, command->word);
	return nearest.word;
}

void hint_not_found(const struct options *options, struct failure *failure)
{
	const char *near;

	if (failure->code != EXIT_NOT_FOUND || options->shell_string != NULL)
		return;
	near = hint_command(options->command, options->name);
	if (options->argv[0][0] == '-')
		add(failure, "%s", "options stand before NAME");
	else if (options->argv[1] == NULL && strpbrk(options->argv[0], " \t\n&|;<>") != NULL)
		add(failure, "%s", "a string of the shell goes with -c");
	else if (near != NULL)
		add(failure, "did you mean dlock %s?", near);
}

/* A word without a meaning for the shell. */
static bool is_plain_word(const char *text)
{
	return *text != '\0' && text[strcspn(text, " \t\n'\"`$&|;<>()*?[]{}~=\\")] == '\0';
}

bool hint_swapped(const struct options *options)
{
	return options->shell_string != NULL && is_plain_word(options->shell_string) &&
	       strpbrk(options->name, " \t") != NULL;
}

/* --- The URL ---------------------------------------------------------------------------------- */

struct scheme {
	const char *text; /* the URL */
	const char *own;  /* the scheme that it begins with, in front of a ':'; NULL: none */
	struct nearest nearest;
};

static void try_scheme(const char *name, void *context)
{
	struct scheme *scheme = context;
	size_t length = strlen(name);

	nearest_try(&scheme->nearest, name);
	if (strncmp(scheme->text, name, length) == 0 && scheme->text[length] == ':')
		scheme->own = name;
}

/* The scheme of a server that is known by its port; else Redis. */
static const char *find_scheme_of_port(const char *text)
{
	static const struct {
		const char *port, *scheme;
	} ports[] = {{":5432", "postgres"}, {":2379", "etcd"}, {":2181", "zookeeper"}};
	const char *port = strrchr(text, ':');

	for (size_t i = 0; port != NULL && i < sizeof(ports) / sizeof(ports[0]); i++)
		if (strcmp(port, ports[i].port) == 0)
			return ports[i].scheme;
	return "redis";
}

static bool is_host(const char *text)
{
	if (!isalnum((unsigned char)*text) && *text != '[')
		return false;
	return text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 ".-_:[]")] == '\0';
}

/* The text has a scheme's name, but not the slashes that follow it. */
static const char *complete(const struct scheme *scheme, char *meant, size_t size)
{
	const char *rest = scheme->text + strlen(scheme->own) + 1;
	bool is_path = strcmp(scheme->own, "unix") == 0;

	rest += strspn(rest, "/");
	snprintf(meant, size, "%s://%s%s", scheme->own, is_path ? "/" : "", rest);
	return meant;
}

void hint_url(const char *text, struct failure *failure)
{
	struct scheme scheme = {.text = text};
	const char *end = strstr(text, "://");
	size_t from, length;
	char meant[300];
	char lower[32] = "";

	for (size_t i = 0; i < sizeof(lower) - 1 && text[i] != '\0' && text[i] != ':'; i++)
		lower[i] = (char)tolower((unsigned char)text[i]);
	nearest_begin(&scheme.nearest, lower, strlen(lower));
	services_each_scheme(try_scheme, &scheme);
	if (end != NULL) {
		if (scheme.own == NULL && scheme.nearest.word != NULL)
			add(failure, "did you mean %s://?", scheme.nearest.word);
		return;
	}
	if (url_find_password(text, &from, &length) || strlen(text) > sizeof(meant) / 3)
		return;
	if (*text == '/') {
		snprintf(meant, sizeof(meant), "file://%s, or unix://%s for a socket", text, text);
		add(failure, "did you mean %s?", meant);
	} else if (scheme.own != NULL && strcmp(scheme.own, "file") != 0) {
		add(failure, "did you mean %s?", complete(&scheme, meant, sizeof(meant)));
	} else if (scheme.own == NULL && is_host(text)) {
		snprintf(meant, sizeof(meant), "%s://%s", find_scheme_of_port(text), text);
		add(failure, "did you mean %s?", meant);
	}
}
