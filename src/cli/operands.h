/* The words after the options: each command's own way to read them (struct command's take). */
#pragma once

#include <stdbool.h>

struct failure;
struct options;

/* NAME, then COMMAND [ARG]... or -c STRING, which may also have stood before. Sets name, argv and,
 * if no other was given, the label. False with failure EXIT_USAGE, or EXIT_SYSTEM. */
bool operands_take_run(struct options *options, struct failure *failure);

/* NAME, and nothing else. Sets name. False as above. */
bool operands_take_name(struct options *options, struct failure *failure);

/* NAME TOKEN, with the fencing token behind it or in the same word, as acquire prints both; `-` is
 * a TOKEN on standard input, which is read. Sets name and token. False as above. */
bool operands_take_renew(struct options *options, struct failure *failure);

/* As of renew; or NAME alone, without a token. */
bool operands_take_release(struct options *options, struct failure *failure);

/* STATEFILE, then COMMAND [ARG]...; the fencing token too, from DLOCK_FENCE if --fence was not
 * given. Sets state_file, argv and fence. False with failure EXIT_USAGE. */
bool operands_take_guard(struct options *options, struct failure *failure);

/* Nothing. False with failure EXIT_USAGE. */
bool operands_take_none(struct options *options, struct failure *failure);

/* Any number of NAME or GLOB. False with failure EXIT_USAGE. */
bool operands_take_status(struct options *options, struct failure *failure);
