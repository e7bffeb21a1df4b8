/* For a line that dlock cannot do: a guess at its meaning, put behind the reason as a question. */
#pragma once

#include <stdbool.h>

struct command;
struct failure;
struct options;

/* The command of the table (command.h) that the word is near to; NULL: none. */
const char *hint_command(const struct command *commands, const char *word);

/* Adds it to the failure of a COMMAND that was not found, if there is something to add: that
 * options stand before NAME, that a string of the shell goes with -c, or a command of dlock's. */
void hint_not_found(const struct options *options, struct failure *failure);

/* The same to that of a server's URL, which it does not quote if it may hold a password. */
void hint_url(const char *text, struct failure *failure);

/* Whether the line may be -c NAME 'STRING', with the two the other way round: the NAME has a blank,
 * and the STRING is a word. It is meant as it stands if that word is a program. */
bool hint_swapped(const struct options *options);
