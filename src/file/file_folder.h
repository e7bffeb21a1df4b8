/* The folder of a `file:` service, and the plain files in it. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

struct failure;
struct server;
struct server_reading;

#define KEY_SIZE       641 /* a prefix, a name, and the NUL */
#define FILE_NAME_SIZE 201 /* of a lock's file, and the NUL */

struct folder {
	int fd;                  /* owned; O_PATH */
	bool missing;            /* the folder could not be opened, as there is none */
	mode_t files;            /* of the files that are made in it */
	char path[PATH_MAX / 2]; /* for messages */
};

/* file: , file:/DIR , file:///DIR. struct lock_service's. */
bool folder_read_url(struct server_reading *reading);

/* Opens it, and makes it if it is missing and `make`. False with failure: EXIT_CONFIG if it is no
 * folder, cannot be made, or is one that other hosts may see. */
bool folder_open(
	struct folder *folder, const struct server *server, bool make, struct failure *failure);

/* A lock's name in its folder: the prefix, unless it is the usual one, and the name. Pure. */
void folder_key(const char *prefix, const char *name, char key[static KEY_SIZE]);

/* The file that stands for a lock, by its whole key: what `flock` is given. A name that is too long
 * for a file is cut, and ends with its digest. Pure. */
void folder_name(const char *key, char file[static FILE_NAME_SIZE]);

/* The key that a file is for; false: it was cut, and only the record knows. Pure. */
bool folder_read_name(const char *file, char key[static KEY_SIZE]);

/* The files of a lock: its own and the companions. Access to the pipe that tells the
 * holders is O_RDWR: it is readable for all until one reads. To that of the waiters it is O_RDONLY:
 * it has POLLHUP from then on, for each that had opened it (a writer came and went). */
enum folder_part {
	FOLDER_LOCK,
	FOLDER_RECORD,
	FOLDER_ONCE,  /* successes under an ID */
	FOLDER_BELL,  /* a pipe: for waiters */
	FOLDER_ENDED, /* a pipe: the lock was broken */
};

/* Opens it, if it has one name and is what it should be; with `make` a missing one is made, with
 * the rights that the folder gives. -1 with errno and failure: EXIT_PROTOCOL if something else is
 * in its place, EXIT_REFUSED, EXIT_SYSTEM. */
int folder_open_part(const struct folder *folder, const char *file, enum folder_part part,
	int flags, bool make, struct failure *failure);

/* Whether there is one, and what it is. */
bool folder_has_part(
	const struct folder *folder, const char *file, enum folder_part part, struct stat *status);

/* Removes all parts of a lock that nobody else uses. */
void folder_remove(const struct folder *folder, const char *file);

/* Whether an open file was removed from its folder. */
bool folder_has_lost(int fd);

/* Tells all that listen to a pipe. */
enum folder_ring {
	RING_HEARD,
	RING_UNHEARD, /* nobody listens */
	RING_FAILED,  /* with failure */
} folder_ring(const struct folder *folder, const char *file, enum folder_part pipe,
	struct failure *failure);
