/* Whether the loader can start a program. If it cannot, it ends with codes of its own, 127 and 1,
 * which a user would take for dlock's. */
#pragma once

#include <stdbool.h>

/* A cheap look at the program and at the loader's list of libraries (/etc/ld.so.cache). False: the
 * program's loader, or a library that it names, is not where such things mostly are. True of what
 * is no program of this host's kind: execve(2) has more to say. */
bool loadable_at_sight(const char *path);
