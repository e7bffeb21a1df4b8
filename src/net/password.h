/*
 * A server's password, for each new connection. If it stands in a file, that is read again each
 * time: a job that runs while the password is changed goes on with the new one.
 */
#pragma once

struct failure;
struct server;

/* The first line of a file, to be given to password_forget; NULL with EXIT_CONFIG if the file
 * cannot be read, or others may read it, or EXIT_SYSTEM. */
char *password_read(const char *file, struct failure *failure);

/* The password to log in with now, to be given to password_forget: what server->password_file says;
 * else, or if that cannot be read just now, server->password. NULL: there is none, or no memory.
 * Any thread. */
char *password_of(const struct server *server);

/* Wipes and frees it (explicit_bzero). NULL: nothing. */
void password_forget(char *password);
