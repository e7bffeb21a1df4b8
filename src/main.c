#include <stdbool.h>

#include "commands.h"
#include "failure.h"
#include "message.h"
#include "options.h"

int main(int argc, char **argv)
{
	struct options options;
	struct failure failure;
	bool done;
	int code = EXIT_DONE;

	if (!options_read(&options, argc, argv, &done, &failure)) {
		message_open(options.verbosity, options.syslog);
		message_say(MESSAGE_ERROR, "%s", failure.text);
		code = (int)failure.code;
	} else if (!done) {
		message_open(options.verbosity, options.syslog);
		message_name(options.name);
		code = options.command->run(&options);
	}
	options_close(&options);
	return code;
}
