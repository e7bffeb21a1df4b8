/* Where a server's password comes from when its URL names none. */
#pragma once

struct failure;
struct server;

/* Returns the server's password from DLOCK_PASSWORD, its service's own variable, or the first line
 * of the file (NULL: no file), in that order, to be wiped and freed by the caller. If it is in the
 * file, server->password_file is set, for each later connection (net/password.h). NULL with
 * failure->code EXIT_DONE when there is none, or the service has no passwords; EXIT_CONFIG when the
 * file cannot be read or others may; EXIT_SYSTEM. */
char *password_find(struct server *server, const char *file, struct failure *failure);

/* If the server has one, this process leaves no core file from now on, however it dies. For
 * commands that start no other; those that do give the limit back (caller_state_keep_secret). */
void password_guard(const struct server *server);
