#include "cli/tls_program.h"

#include <bsd/string.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "cli/options.h"
#include "net/server.h"
#include "net/tls.h"

#ifndef PKGLIBEXECDIR
#define PKGLIBEXECDIR "/usr/libexec/dlock"
#endif

#define NAME "dlock-tls"

/* Beside this program, where it was built; else where it is installed. False: there is none. */
static bool find(char path[static PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	path[length < 0 ? 0 : length] = '\0';
	slash = strrchr(path, '/');
	if (slash) {
		slash[1] = '\0';
		if (strlcat(path, NAME, PATH_MAX) < PATH_MAX && access(path, X_OK) == 0)
			return true;
	}
	strlcpy(path, PKGLIBEXECDIR "/" NAME, PATH_MAX);
	return access(path, X_OK) == 0;
}

bool tls_program_is_needed(const struct options *options)
{
	return !tls_layer && options->server && options->server->tls;
}

bool tls_program_become(char **argv, const struct options *options, struct failure *failure)
{
	char path[PATH_MAX];
	struct stat status;

	if (!find(path))
		return failure_set(failure, EXIT_USAGE,
			"cannot use %s: this dlock was built without TLS", options->server->text);
	if (options->config && (stat(options->config, &status) != 0 || !S_ISREG(status.st_mode)))
		return failure_set(failure, EXIT_USAGE,
			"--config: '%.100s' is no regular file: for a server with TLS it has to be "
			"read twice",
			options->config);
	execv(path, argv);
	return failure_set(failure, EXIT_SYSTEM, "cannot execute %s: %s", path, strerror(errno));
}

bool tls_program_is_there(void)
{
	char path[PATH_MAX];

	return tls_layer || find(path);
}
