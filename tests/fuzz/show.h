/* What people and scripts get to see of what a server says, for fuzzers: it is printed in every
 * form, and each is checked. Nothing reaches stdout. */
#ifndef SHOW_H
#define SHOW_H

struct check_report;
struct lock_answer;
struct server;
struct lock_list;

/* Fit for a terminal: UTF-8 without what it must not get. */
void show_text(const char *text);

/* The holder in an answer of LOCK_BUSY. */
void show_holder(const struct lock_answer *answer);

/* `dlock status`: tables, JSON, OpenMetrics. Sorts them. */
void show_views(struct lock_list *views);

/* `dlock check`: table, JSON. */
void show_findings(const struct check_report *findings, const struct server *server);

#endif
