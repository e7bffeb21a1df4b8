/*
 * The STATEFILE of `dlock guard`: what a resource remembers of fencing tokens, the greatest it has
 * let in. Under an flock from open to close, so that of all guards one at a time looks and acts.
 *
 * One record of a fixed width, the token twice: "%19d %19d\n". It is written in place by one
 * pwrite, at offset 0 and so within one sector: the old record or the new one survives a power cut.
 * Should a device tear it all the same, the two halves differ, wherever the cut is. A record with
 * two tokens is garbage, never a smaller token. Other programs read the first word.
 *
 * The file is never replaced. So all guards wait for the flock on the same inode, and its owner,
 * mode and labels are the operator's. An empty file has no token yet, so one can be made
 * beforehand, with another mode.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct failure;

struct fence_file {
	const char *path; /* borrowed */
	int fd;           /* close-on-exec, and above those that shell scripts use by number */
	int64_t token;    /* on record; 0: none yet */
};

/*
 * Opens it, or creates it empty as the umask has it, waits for the flock, and reads the record.
 * Blocks for as long as another holds the flock; a signal with a handler does not end that. False,
 * with nothing left open: EXIT_USAGE when it is no regular file (a symbolic link is none and not
 * followed: in a folder that others write to, it would lead where they like) or holds something
 * else; EXIT_SYSTEM when the system refuses.
 */
bool fence_file_open(struct fence_file *file, const char *path, struct failure *failure);

/*
 * Puts `token`, from 1 on, on record and returns when it will survive a power cut. It syncs a token
 * that was there before as well: the guard that wrote it may have died before its sync. False:
 * EXIT_STALE if a greater one is on record. EXIT_SYSTEM if it could not be written: the old one is
 * then still there. EXIT_SYSTEM as well if it could not be synced: either may be there then.
 */
bool fence_file_record(struct fence_file *file, int64_t token, struct failure *failure);

/* Gives the flock back, though processes that inherited the descriptor live on. */
void fence_file_close(struct fence_file *file);
