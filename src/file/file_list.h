/* What there is to see in the folder: for `dlock status` and `dlock check`. */
#ifndef DLOCK_FILE_FILE_LIST_H
#define DLOCK_FILE_FILE_LIST_H

#include "lock/service.h"

extern const struct lock_list_ops file_list_ops;

/* struct lock_service's. */
bool file_check(const struct server *server, const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure);

#endif
