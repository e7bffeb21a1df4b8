#include "base/account.h"

#include <stdio.h>

const struct passwd *account_find(uid_t uid)
{
	FILE *file = fopen("/etc/passwd", "re");
	const struct passwd *entry = NULL;

	while (file && (entry = fgetpwent(file)) != NULL && entry->pw_uid != uid)
		continue;
	if (file)
		fclose(file);
	return entry;
}
