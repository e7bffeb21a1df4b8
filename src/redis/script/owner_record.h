/* The record who:TOKEN of a holder or a waiter: "MODE|NUMBER|TEXT". MODE is x, s or pK while it
 * waits, and NUMBER then the ticket. Once claimed, MODE is X, S or PK, and NUMBER the moment of the
 * grant. Both are by the server's clock in us. TEXT is what owner_write wrote, and more of its
 * kind. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lock/lock.h"

#define OWNER_RECORD_MODE 16
#define OWNER_RECORD_TEXT (OWNER_TEXT + 96)
#define OWNER_RECORD_SIZE (OWNER_RECORD_MODE + 24 + OWNER_RECORD_TEXT)

/* Lua's numbers are exact up to there; in us, it is the year 2255. */
#define OWNER_RECORD_US_MOST (INT64_C(1) << 53)

struct owner_record {
	enum lock_mode mode;
	bool claimed;
	int64_t moment; /* us */
	struct owner owner;
	int priority;
	bool detached;
	const char *held; /* lines "TOKEN NAME" of a waiter; in the text that was read; NULL */
};

/* "x", "s" or "pK". */
void owner_record_mode(const struct lock_request *request, char mode[static OWNER_RECORD_MODE]);

/* TEXT for a request: the owner that asks. For a detached lock it also has what is needed to extend
 * and release it by its token alone (see detached.lua). */
void owner_record_text(const struct lock_request *request, char text[static OWNER_RECORD_TEXT]);

/* The whole record of a holder. */
void owner_record_write(
	char who[static OWNER_RECORD_SIZE], const char *mode, int64_t since_us, const char *text);

/* False: it is no such record (NULL is none). It may come from any client that may write to the
 * server. */
bool owner_record_read(struct owner_record *record, const char *who);
