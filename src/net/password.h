/* Passwords: a file that has one, and forgetting it. */
#pragma once

struct failure;

/* The first line of a file, to be given to password_forget; NULL with EXIT_CONFIG if the file
 * cannot be read, or others may read it, or EXIT_SYSTEM. */
char *password_read(const char *file, struct failure *failure);

/* Wipes and frees it (explicit_bzero). NULL: nothing. */
void password_forget(char *password);
