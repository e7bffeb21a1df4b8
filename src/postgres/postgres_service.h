/* Locks in a PostgreSQL database: rows with an expiry, by functions of the schema dlock. */
#pragma once

#include "lock/service.h"

/* Writes which library speaks to the service, and its version. */
void postgres_library(char *text, size_t size);

extern const struct lock_service postgres_service;
