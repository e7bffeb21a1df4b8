/* The record who:TOKEN that says who holds or waits: "MODE|NUMBER|TEXT". MODE is x, s or pK while
 * waiting and NUMBER then the ticket; X, S, PK once claimed and NUMBER the moment of the grant;
 * both by the server's clock in us. TEXT is what party_write wrote, and more of its kind. Pure. */
#ifndef DLOCK_REDIS_RECORD_H
#define DLOCK_REDIS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock.h"

#define RECORD_MODE 16
#define RECORD_TEXT (PARTY_TEXT + 96)
#define RECORD_SIZE (RECORD_MODE + 24 + RECORD_TEXT)

/* Lua's numbers are exact up to there; in us, it is the year 2255. */
#define RECORD_US_MOST (INT64_C(1) << 53)

struct record {
	enum lock_mode mode;
	bool claimed;
	int64_t moment; /* us */
	struct party party;
	int priority;
	bool detached;
};

/* "x", "s" or "pK". */
void record_mode(const struct lock_request *request, char mode[static RECORD_MODE]);

/* TEXT for a request: who asks; of a detached lock also what is needed to extend it and to give it
 * back by its token alone (see detached.lua). */
void record_text(const struct lock_request *request, char text[static RECORD_TEXT]);

/* The whole record of a holder. */
void record_write(
	char who[static RECORD_SIZE], const char *mode, int64_t since_us, const char *text);

/* False: it is no such record (NULL is none). It may come from anybody who may write to the server.
 */
bool record_read(struct record *record, const char *who);

#endif
