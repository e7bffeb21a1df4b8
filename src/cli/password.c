#include "cli/password.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/failure.h"
#include "lock/service.h"
#include "net/password.h"
#include "net/server.h"

char *password_find(struct server *server, const char *file, struct failure *failure)
{
	const char *variables[] = {"DLOCK_PASSWORD", server->service->password_variable};

	failure->code = EXIT_DONE;
	if (!variables[1])
		return NULL;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = getenv(variables[i]);
		char *password;

		if (value == NULL || *value == '\0')
			continue;
		password = strdup(value);
		if (password == NULL)
			failure_set(failure, EXIT_SYSTEM, "out of memory");
		return password;
	}
	if (file == NULL)
		return NULL;
	server->password_file = strdup(file); /* without it the password stays as it is now */
	return password_read(file, failure);
}

void password_guard(const struct server *server)
{
	struct rlimit none = {0, 0};

	if (server->password != NULL)
		setrlimit(RLIMIT_CORE, &none);
}
