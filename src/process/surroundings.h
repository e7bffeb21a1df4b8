/*
 * The surroundings that dlock needs to stop a tree of processes in time. They are looked at
 * before the lock is asked for: if one were found missing later, COMMAND would run already.
 * README.md of this folder has the whole list.
 */
#pragma once

#include <stdbool.h>

struct failure;
struct caller_state;

/* Whether /proc shows the processes of our PID namespace, and enough descriptors are free. If they
 * are not, our soft limit is raised as far as the hard one lets it; COMMAND gets the old one. False
 * with EXIT_SYSTEM. */
bool surroundings_suffice(struct caller_state *caller_state, struct failure *failure);
