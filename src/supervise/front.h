/*
 * The front: the process that the caller started; its exit code is dlock's. It talks to the caller:
 * it passes signals on, shows the wait, stops and continues as any job does. It asks the service
 * nothing; its keeper does. It takes over when the keeper dies or stands still: then it stops what
 * the keeper left, and releases by the owner token, over a connection of its own.
 */
#pragma once

#include "lock/lock.h"

struct task;
struct outcome;

/* Has a keeper take the lock for its ward, to the end of COMMAND (or until the caller has it), and
 * says how it went. If one is held around us task->lock is another afterwards, or NULL. */
void front_run(struct task *run, struct outcome *outcome);
