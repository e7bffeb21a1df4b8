/*
 * Writing without waiting for the reader: a message may be said by the process that must stop
 * COMMAND in time. poll(2) alone does not do: another writer may fill the pipe between poll and
 * write, and O_NONBLOCK belongs to the open file, which the caller's programs share.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Writes the text as a whole to a descriptor that others may have too, waiting 50 ms at most for
 * room. path: a name of the same file, by which a pipe or a terminal can be opened anew
 * (/proc/.../fd/N). False: not written. A file on a disk is written to as ever: it does not wait
 * for a reader. Any thread; allocates nothing; leaves SIGPIPE to the caller, but for sockets. */
bool unstuck_write(int fd, const char *path, const char *text, size_t length);

/* The same for a socket. */
bool unstuck_send(int fd, const char *text, size_t length);
