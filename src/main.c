#include <unistd.h>

#include "base/failure.h"
#include "base/message.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/options_read.h"
#include "cli/other_program.h"
#include "commands/commands.h"
#include "commands/report.h"
#include "supervise/outcome.h"

/* Nothing could be tried. Where even the report cannot be written, the first failure is the one to
 * hear of. */
static int fail(const struct options *options, const struct failure *failure)
{
	static struct outcome outcome;
	struct failure unheard;
	struct report report;

	message_say(MESSAGE_ERROR, "%s", failure->text);
	outcome_fail(&outcome, failure);
	if (report_open(&report, options, &unheard))
		report_write(&report, &outcome);
	return (int)failure->code;
}

/* Standard output is written out by now (base/output.h). The destructors of the libraries that
 * other services bring have nothing to do for us, and after a fork they copy page after page: a
 * hundredth of a run. The sanitizers report at exit. */
static int end(int code)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	_exit(code);
#endif
	return code;
}

int main(int argc, char **argv)
{
	struct options options;
	struct failure failure;
	bool done;
	int code = EXIT_DONE;
	bool read;

	if (argc <= 1) {
		help_say_usage();
		return end(EXIT_USAGE);
	}
	read = options_read(&options, commands, argc, argv, &done, &failure);
	message_open(options.verbosity, options.syslog);
	if (read && !done && other_program_is_needed(&options))
		read = other_program_become(argv, &options, &failure);
	if (!read) {
		code = fail(&options, &failure);
	} else if (!done) {
		for (size_t i = 0; i < options.warning_count; i++)
			message_say(MESSAGE_WARNING, "%s", options.warnings[i]);
		message_name(options.name);
		code = options.command->run(&options);
	}
	options_close(&options);
	return end(code);
}
