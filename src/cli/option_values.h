/* The kinds of arguments that options have: one setter for each, called through its row's set
 * (option_table.h says what all of them promise). */
#pragma once

#include <stdbool.h>

struct failure;
struct option_row;
struct options;

#define OPTION_SETTER(name)                                                                        \
	bool name(const struct option_row *row, const char *text, struct options *options,         \
		struct failure *failure)

OPTION_SETTER(option_set_flag);     /* bool: true */
OPTION_SETTER(option_set_zero);     /* nanos: 0 */
OPTION_SETTER(option_set_step);     /* int: adds row->least */
OPTION_SETTER(option_set_constant); /* int: row->least */
OPTION_SETTER(option_set_duration); /* nanos from row->least to row->most */
OPTION_SETTER(option_set_number);   /* int from row->least to row->most */
OPTION_SETTER(option_set_token);    /* int64_t from row->least to row->most */
OPTION_SETTER(option_set_text);     /* const char * that row->fault passes */
OPTION_SETTER(option_set_label);    /* the same; an empty one is none */
OPTION_SETTER(option_set_also);     /* one more NAME of options->also */
OPTION_SETTER(option_set_replicas); /* options->replicas, replicas_in: NUMBER[:DURATION] */
OPTION_SETTER(option_set_choice);   /* unsigned: the index in row->choices */
OPTION_SETTER(option_set_signal);   /* int: TERM, SIGTERM, 15, RTMIN+1 */
OPTION_SETTER(option_set_server);   /* struct server *; frees the one before */
