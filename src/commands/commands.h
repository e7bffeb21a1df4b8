/* The commands: one table (commands.c) that is dispatch, help and map in one. */
#pragma once

#include "cli/command.h"

/* Ends with a NULL word; the first is what no word means. */
extern const struct command commands[];

int cmd_run(const struct options *options);
int cmd_status(const struct options *options);
int cmd_guard(const struct options *options);
int cmd_acquire(const struct options *options);
int cmd_renew(const struct options *options);
int cmd_hold(const struct options *options);
int cmd_release(const struct options *options);
int cmd_check(const struct options *options);
