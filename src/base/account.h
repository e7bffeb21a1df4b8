/* A user, as /etc/passwd has it. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct account {
	char name[256], home[PATH_MAX]; /* cut, if they are longer */
};

/* False: it is not listed there. getpwuid(3) would load the modules of nsswitch.conf, which takes a
 * millisecond, and may ask a directory server. */
bool account_find(uid_t uid, struct account *account);
