#include "cli/config_warning.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/config_file.h"
#include "cli/options.h"
#include "net/server.h"
#include "net/url.h"

static void warn(struct options *options, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Memory that is short is said elsewhere. */
static void warn(struct options *options, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) == -1)
		text = NULL;
	va_end(arguments);
	text = options_keep(options, text);
	if (text != NULL && options->warning_count < OPTIONS_WARNINGS)
		options->warnings[options->warning_count++] = text;
}

static void check_secrecy(
	struct config_warning *notice, struct options *options, const struct config_entry *entry)
{
	struct stat status;
	size_t from, length;

	if (!url_find_password(entry->value, &from, &length) || length == 0 ||
		stat(entry->path, &status) != 0 || (status.st_mode & S_IROTH) == 0 ||
		(notice->open_file != NULL && strcmp(notice->open_file, entry->path) == 0))
		return;
	notice->open_file = options_keep(options, strdup(entry->path));
	warn(options,
		"%s:%d: any user may read this password (mode %04o): chmod o-r, or a "
		"password-file",
		entry->path, entry->line, (unsigned)status.st_mode & 07777);
}

void config_warning_server(struct config_warning *notice, struct options *options,
	const struct config_entry *entry, const char *value, bool chosen)
{
	check_secrecy(notice, options, entry);
	if (!chosen)
		return;
	if (notice->user_file != NULL)
		notice->user_server = value;
	else
		notice->system_server = value;
}

void config_warning_choice(
	const struct config_warning *notice, struct options *options, const char *system_file)
{
	if (notice->system_server != NULL && notice->user_server != NULL &&
		strcmp(notice->system_server, notice->user_server) != 0)
		warn(options, "%s: its server is used, %s, not that of %s", notice->user_file,
			options->server->text, system_file);
}
