#include "base/account.h"

#include <bsd/string.h>
#include <pwd.h>
#include <stdio.h>

bool account_find(uid_t uid, struct account *account)
{
	FILE *file = fopen("/etc/passwd", "re");
	const struct passwd *entry = NULL;

	while (file && (entry = fgetpwent(file)) != NULL && entry->pw_uid != uid)
		continue;
	if (entry) {
		strlcpy(account->name, entry->pw_name, sizeof(account->name));
		strlcpy(account->home, entry->pw_dir, sizeof(account->home));
	}
	if (file)
		fclose(file);
	return entry != NULL;
}
