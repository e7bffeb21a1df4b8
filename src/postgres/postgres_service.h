/* Locks in a PostgreSQL database: rows with an expiry, by functions of the schema dlock. */
#pragma once

#include "lock/service.h"

extern const struct lock_service postgres_service;
