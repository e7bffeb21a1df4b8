/* The last run under a lock, in words. */
#pragma once

struct lock_view;

#define RUNS_TEXT 400 /* enough for runs_describe */

/* "last success 7m ago on web3, took 2m; last run failed (7) 1m ago on web4, took 3s"; "" if none
 * is on record. Without a character that a terminal must not get. Pure. Returns text. */
const char *runs_describe(const struct lock_view *view, char text[static RUNS_TEXT]);
