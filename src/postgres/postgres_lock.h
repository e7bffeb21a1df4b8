/* One lock in a PostgreSQL database, as one holder or waiter sees it. One thread at a time. */
#pragma once

#include "lock/service.h"
#include "postgres/postgres_session.h"

#define POSTGRES_OWNER (OWNER_TEXT + 64)

struct postgres_lock {
	struct lock lock; /* first: struct lock_service's functions get this */
	struct lock_request request;
	struct postgres_session session;
	char key[641];              /* a prefix, and a name */
	char owner[POSTGRES_OWNER]; /* as it is on record */
	int64_t ticket;             /* 0: not asked yet */
	int64_t number;             /* of the session, as the server counts them; 0: none */
	bool is_plain;              /* granted by sql_take: sql_release may do */
	nanos look_at;              /* when asking again makes sense, by itself */
};

/* struct lock_service's. */
lock_check_function postgres_check;
lock_list_function postgres_list;

/* Rows with an expiry, by functions of the schema dlock. */
extern const struct lock_service postgres_service;

/* Writes which library speaks to the service, and its version. */
void postgres_library(char *text, size_t size);
