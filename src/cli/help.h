/* --help and --version, made from the tables of commands and options. */
#pragma once

#include <stdbool.h>

struct command;
struct failure;

/* Prints the help of one of the commands; NULL: of dlock as a whole. False with failure EXIT_SYSTEM
 * when stdout does not take it. */
bool help_show(
	const struct command *commands, const struct command *command, struct failure *failure);

/* Prints how the URL of a server is written; else as help_show(). */
bool help_show_server(struct failure *failure);

/* Says in two lines, on stderr, how dlock is called. */
void help_say_usage(void);

/* Prints "dlock VERSION", and the services with their libraries; else as help_show(). A program
 * beside dlock prints its library alone. */
bool help_show_version(struct failure *failure);
