/* The commands: one table (main.c) that is dispatch, help and map in one; one command, one file. */
#ifndef DLOCK_COMMANDS_H
#define DLOCK_COMMANDS_H

struct options;

struct command {
	const char *word;    /* as on the command line; "run" is also what no word means */
	unsigned bit;	     /* in the option table: which options it takes */
	const char *usage;   /* what follows "dlock [word] [OPTION]..." */
	const char *summary; /* one line for --help */
	int (*run)(const struct options *options); /* returns the exit code */
};

/* Ends with a NULL word. */
extern const struct command commands[];

int cmd_run(const struct options *options);
int cmd_status(const struct options *options);

#endif
