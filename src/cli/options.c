#include "cli/options.h"

#include <bsd/stdlib.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "net/server.h"

void options_close(struct options *options)
{
	server_free(options->server);
	for (size_t i = 0; i < options->kept_count; i++)
		free(options->kept[i]);
	free(options->kept);
	free(options->also);
	*options = (struct options){0};
}

void *options_keep(struct options *options, void *memory)
{
	void **kept = memory == NULL
			      ? NULL
			      : reallocarray(options->kept, options->kept_count + 1, sizeof(*kept));

	if (kept == NULL) {
		free(memory);
		return NULL;
	}
	options->kept = kept;
	kept[options->kept_count++] = memory;
	return memory;
}

void options_guard_password(const struct options *options)
{
	struct rlimit none = {0, 0};

	if (options->server->password != NULL)
		setrlimit(RLIMIT_CORE, &none);
}
