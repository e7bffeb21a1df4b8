/* The lock service `file:`: the locks of one host, in a folder, without a server. */
#ifndef DLOCK_FILE_FILE_SERVICE_H
#define DLOCK_FILE_FILE_SERVICE_H

#include "lock/service.h"

extern const struct lock_service file_service;

#endif
