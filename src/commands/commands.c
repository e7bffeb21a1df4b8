#include "commands/commands.h"

#include <stddef.h>

#include "cli/operands.h"

const struct command commands[] = {
	{
		.word = "run",
		.bit = COMMAND_RUN,
		.usage = "NAME [--] COMMAND [ARG]...",
		.summary = "run COMMAND under the lock NAME",
		.stops = true,
		.take = operands_take_run,
		.run = cmd_run,
	},
	{
		.word = "status",
		.bit = COMMAND_STATUS,
		.usage = "[NAME|GLOB]...",
		.summary = "show holders and waiters, and for how long",
		.take = operands_take_status,
		.run = cmd_status,
	},
	{
		.word = "hold",
		.bit = COMMAND_HOLD,
		.usage = "NAME",
		.summary = "hold the lock NAME for the rest of a shell script",
		.take = operands_take_name,
		.run = cmd_hold,
	},
	{
		.word = "acquire",
		.bit = COMMAND_ACQUIRE,
		.usage = "NAME",
		.summary = "take the lock NAME, detached, and print its token",
		.take = operands_take_name,
		.run = cmd_acquire,
	},
	{
		.word = "renew",
		.bit = COMMAND_RENEW,
		.usage = "NAME TOKEN [FENCE]",
		.summary = "give a detached lock more time",
		.take = operands_take_renew,
		.run = cmd_renew,
	},
	{
		.word = "release",
		.bit = COMMAND_RELEASE,
		.usage = "NAME [TOKEN [FENCE]|--force [--fence N]]",
		.summary = "release a detached lock, or the script's own, or any by force",
		.take = operands_take_release,
		.run = cmd_release,
	},
	{
		.word = "guard",
		.bit = COMMAND_GUARD,
		.usage = "STATEFILE [--] COMMAND [ARG]...",
		.summary = "run COMMAND unless STATEFILE has seen a newer fencing token",
		.stops = true,
		.take = operands_take_guard,
		.run = cmd_guard,
	},
	{
		.word = "check",
		.bit = COMMAND_CHECK,
		.usage = "",
		.summary = "say whether the server is fit to hold locks",
		.take = operands_take_none,
		.run = cmd_check,
	},
	{
		.word = "help",
		.usage = "[COMMAND|server]",
		.summary = "show this, a command's options, or how a server's URL is written",
		.show = SHOW_HELP,
	},
	{
		.word = "version",
		.usage = "",
		.summary = "show the version, and the lock services that are there",
		.show = SHOW_VERSION,
	},
	{.word = NULL},
};
