/* The folder of a `file:` service, and the plain files in it. */
#ifndef DLOCK_FILE_FILE_FOLDER_H
#define DLOCK_FILE_FILE_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct failure;
struct server;
struct server_reading;

#define KEY_SIZE       641 /* a prefix, a name, and the NUL */
#define FILE_NAME_SIZE 201 /* of a lock's file, and the NUL */

struct folder {
	int fd;                  /* owned; O_PATH */
	bool missing;            /* it could not be opened, as there is none */
	mode_t files;            /* of the files that are made in it */
	char path[PATH_MAX / 2]; /* for messages */
};

/* file: , file:/DIR , file:///DIR. struct lock_service's. */
bool folder_read_url(struct server_reading *reading);

/* Opens it, and makes it if it is missing and `make`. False with failure: EXIT_CONFIG if it is no
 * folder, cannot be made, or is one that other hosts may see. */
bool folder_open(
	struct folder *folder, const struct server *server, bool make, struct failure *failure);

/* What names a lock in its folder: the prefix, unless it is the usual one, and the name. Pure. */
void folder_key(const char *prefix, const char *name, char key[static KEY_SIZE]);

/* The file that stands for a lock, by its whole key: what `flock` is given. One that is too long
 * for a file is cut, and ends with its digest. Pure. */
void folder_name(const char *key, char file[static FILE_NAME_SIZE]);

/* The key that a file is for; false: it was cut, and only the record knows. Pure. */
bool folder_read_name(const char *file, char key[static KEY_SIZE]);

/* Opens a plain file with one name; with `make` a missing file is made, with the rights that the
 * folder gives. -1 with errno and failure: EXIT_PROTOCOL if something else is in its place,
 * EXIT_REFUSED, EXIT_SYSTEM. */
int folder_open_file(const struct folder *folder, const char *file, int flags, bool make,
	struct failure *failure);

/* Whether an open file was removed from its folder. */
bool folder_has_lost(int fd);

/* A pipe beside a lock's file, by which others are told something. listen: opens it, makes it if
 * need be; -1 with failure, as above. ring: tells all that listen. Access is O_RDWR: it is readable
 * for all until one reads. O_RDONLY: it has POLLHUP from then on, for each that had opened it,
 * whatever the others do (a writer came and went). The two do not mix. */
enum folder_ring {
	RING_HEARD,
	RING_UNHEARD, /* nobody listens */
	RING_FAILED,  /* with failure */
};
int folder_listen(const struct folder *folder, const char *file, const char *purpose, int access,
	struct failure *failure);
enum folder_ring folder_ring(const struct folder *folder, const char *file, const char *purpose,
	struct failure *failure);

#endif
