#include "file/file_folder.h"

#include <bsd/string.h>
#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/account.h"
#include "base/failure.h"
#include "net/server.h"

#define OF_A_USER  ".local/state/dlock"
#define PREFIX     "lock:" /* the option's preset: `flock DIR/NAME` is to be all that is needed */
#define NAME_WHOLE 200     /* bytes of a file's name that is not cut */
#define NAME_KEPT  160     /* of one that is; then '~' and the digest */
#define DIGEST     32      /* digits of it */
#define PLAIN      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

/* --- The folder ------------------------------------------------------------------------------ */

bool folder_read_url(struct server_reading *reading)
{
	const char *rest = strchr(reading->text, ':') + 1;
	char *path;
	bool done;

	if (strncmp(rest, "//", 2) == 0)
		rest += 2;
	if (strchr(rest, '?'))
		return server_fault(reading, "a parameter");
	/* A job's own folder is not that of the shell in which it was tried. */
	if (*rest != '/' && (*rest != '\0' || rest[-1] == '/'))
		return server_fault(reading, "no absolute path (file:///DIR, or file: alone)");
	reading->server->text = strdup(reading->text);
	path = strdup(rest);
	if (reading->server->text && path)
		done = server_keep(reading, path, &reading->server->path);
	else
		done = failure_set(reading->failure, EXIT_SYSTEM, "out of memory");
	free(path);
	return done;
}

/* The user's home. The environment may have another one (sudo, a job of CI), or none. */
static const char *find_home(void)
{
	const struct passwd *account = account_find(geteuid());
	const char *home = account ? account->pw_dir : getenv("HOME");

	return home && *home == '/' ? home : NULL;
}

static bool find_path(struct folder *folder, const struct server *server, struct failure *failure)
{
	const char *home;
	int length;

	if (server->path) {
		length = snprintf(folder->path, sizeof(folder->path), "%s", server->path);
	} else if (geteuid() == 0) {
		length = snprintf(folder->path, sizeof(folder->path), "/run/dlock");
	} else {
		home = find_home();
		if (!home)
			return failure_set(failure, EXIT_CONFIG,
				"file: is " OF_A_USER " in the user's home, and user %u has none "
				"(/etc/passwd, HOME): name a folder (file:///DIR)",
				(unsigned)geteuid());
		length = snprintf(folder->path, sizeof(folder->path), "%s/" OF_A_USER, home);
	}
	if ((size_t)length < sizeof(folder->path))
		return true;
	return failure_set(failure, EXIT_CONFIG, "the path of the lock folder is too long");
}

/* For its user alone; if it is the user's own, those around it in the home as well. False with
 * errno.
 */
static bool make_folder(char *path, bool own)
{
	char *around = own ? path + strlen(path) - strlen(OF_A_USER) : NULL;

	while (around && (around = strchr(around, '/')) != NULL) {
		*around = '\0';
		mkdir(path, S_IRWXU);
		*around++ = '/';
	}
	return mkdir(path, S_IRWXU) == 0 || errno == EEXIST;
}

/* Two hosts would not see each other's locks, or see them late. */
static bool is_local(int fd)
{
	static const unsigned long shared[] = {
		0x6969,     /* NFS */
		0x517b,     /* SMB */
		0xfe534d42, /* SMB 2 */
		0xff534d42, /* CIFS */
		0x01021997, /* 9p */
		0x65735546, /* FUSE */
		0x5346414f, /* AFS */
		0x00c36400, /* Ceph */
		0x0bd00bd0, /* Lustre */
		0x01161970, /* GFS2 */
		0x7461636f, /* OCFS2 */
	};
	struct statfs system;

	if (fstatfs(fd, &system) != 0)
		return true;
	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		if ((unsigned long)system.f_type == shared[i])
			return false;
	return true;
}

bool folder_open(
	struct folder *folder, const struct server *server, bool make, struct failure *failure)
{
	const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	struct stat status;

	folder->fd = -1;
	folder->missing = false;
	if (!find_path(folder, server, failure))
		return false;
	folder->fd = open(folder->path, flags);
	if (folder->fd < 0 && errno == ENOENT && make &&
		make_folder(folder->path, !server->path && geteuid() != 0))
		folder->fd = open(folder->path, flags);
	folder->missing = folder->fd < 0 && errno == ENOENT;
	if (folder->fd < 0)
		return failure_set(failure, EXIT_CONFIG, "no lock folder %s: %m", folder->path);
	if (fstat(folder->fd, &status) == 0 && is_local(folder->fd)) {
		folder->files = status.st_mode &
				(S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH);
		return true;
	}
	close(folder->fd);
	folder->fd = -1;
	return failure_set(failure, EXIT_CONFIG,
		"the lock folder %s is on a file system that other hosts may share: two hosts "
		"would not see each other's locks; name another (file:///DIR)",
		folder->path);
}

/* --- Names ------------------------------------------------------------------------------------ */

static const char digits[] = "0123456789ABCDEF";

static char *encode(char *at, const char *text, bool first)
{
	for (; *text != '\0'; text++, first = false) {
		if (strchr(PLAIN, *text) && !(first && *text == '.')) {
			*at++ = *text;
			continue;
		}
		*at++ = '%';
		*at++ = digits[(unsigned char)*text >> 4];
		*at++ = digits[*text & 15];
	}
	*at = '\0';
	return at;
}

void folder_key(const char *prefix, const char *name, char key[static KEY_SIZE])
{
	bool usual = !prefix || strcmp(prefix, PREFIX) == 0;

	snprintf(key, KEY_SIZE, "%s%s", usual ? "" : prefix, name);
}

void folder_name(const char *key, char file[static FILE_NAME_SIZE])
{
	char whole[3 * KEY_SIZE], digest[SHA256_DIGEST_STRING_LENGTH];
	size_t length = (size_t)(encode(whole, key, true) - whole);

	if (length <= NAME_WHOLE) {
		strcpy(file, whole);
		return;
	}
	SHA256Data((const uint8_t *)whole, length, digest);
	sprintf(file, "%.*s~%.*s", NAME_KEPT, whole, DIGEST, digest);
}

bool folder_read_name(const char *file, char key[static KEY_SIZE])
{
	strlcpy(key, file, KEY_SIZE);
	return !strchr(file, '~') && url_decode(key);
}

/* --- Files ------------------------------------------------------------------------------------ */

static const struct {
	const char *before, *after; /* of the name of the lock's file */
	mode_t kind;
} parts[] = {
	[FOLDER_LOCK] = {"", "", S_IFREG},
	[FOLDER_RECORD] = {".", "", S_IFREG},
	[FOLDER_ONCE] = {".", "+once", S_IFREG},
	[FOLDER_BELL] = {".", "+bell", S_IFIFO},
	[FOLDER_ENDED] = {".", "+ended", S_IFIFO},
};

static const char *name_part(
	const char *file, enum folder_part part, char name[static NAME_MAX + 1])
{
	snprintf(name, NAME_MAX + 1, "%s%s%s", parts[part].before, file, parts[part].after);
	return name;
}

/* Each user that may use the folder may use the files in it. A pipe is to be opened after it. */
static int make_file(const struct folder *folder, const char *file, int flags, mode_t kind)
{
	mode_t mask = umask(0);
	int fd = -1;

	if (kind == S_IFREG)
		fd = openat(folder->fd, file, flags | O_CREAT | O_EXCL, folder->files);
	else if (mkfifoat(folder->fd, file, folder->files) == 0)
		errno = EEXIST;
	umask(mask);
	return fd;
}

/* -1 with errno; odd: something else is in the place. */
static int open_file(
	const struct folder *folder, const char *file, int flags, mode_t kind, bool make, bool *odd)
{
	struct stat status;
	int fd;

	flags |= O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	do {
		/* First without O_CREAT: that is refused for the file of another user in a sticky
		 * folder, to root as well (fs.protected_regular, Linux 4.19). */
		fd = openat(folder->fd, file, flags);
		if (fd < 0 && errno == ENOENT && make)
			fd = make_file(folder, file, flags, kind);
	} while (fd < 0 && errno == EEXIST);
	*odd = fd < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO || errno == ENODEV);
	if (fd < 0)
		return -1;
	if (fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) == kind && status.st_nlink <= 1)
		return fd;
	close(fd);
	errno = EEXIST;
	*odd = true;
	return -1;
}

int folder_open_part(const struct folder *folder, const char *file, enum folder_part part,
	int flags, bool make, struct failure *failure)
{
	char name[NAME_MAX + 1];
	bool odd;
	int fd = open_file(
		    folder, name_part(file, part, name), flags, parts[part].kind, make, &odd),
	    why = errno;

	if (odd)
		failure_set(failure, EXIT_PROTOCOL, "%s/%s is no %s with one name: not touched",
			folder->path, name, parts[part].kind == S_IFREG ? "plain file" : "pipe");
	else if (fd < 0)
		failure_set(failure, why == EACCES || why == EPERM ? EXIT_REFUSED : EXIT_SYSTEM,
			"cannot open %s/%s: %m", folder->path, name);
	errno = why;
	return fd;
}

bool folder_has_part(
	const struct folder *folder, const char *file, enum folder_part part, struct stat *status)
{
	char name[NAME_MAX + 1];

	return fstatat(folder->fd, name_part(file, part, name), status, AT_SYMLINK_NOFOLLOW) == 0;
}

void folder_remove(const struct folder *folder, const char *file)
{
	char name[NAME_MAX + 1];

	for (enum folder_part part = FOLDER_LOCK; part <= FOLDER_ENDED; part++)
		unlinkat(folder->fd, name_part(file, part, name), 0);
}

bool folder_has_lost(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 && status.st_nlink == 0;
}

enum folder_ring folder_ring(const struct folder *folder, const char *file, enum folder_part pipe,
	struct failure *failure)
{
	struct stat status;
	int fd = folder_open_part(folder, file, pipe, O_WRONLY, false, failure);

	if (fd < 0 && errno == ENOENT)
		return RING_UNHEARD;
	if (fd < 0) /* a pipe that none listens to, or a socket */
		return errno == ENXIO && folder_has_part(folder, file, pipe, &status) &&
				       S_ISFIFO(status.st_mode)
			       ? RING_UNHEARD
			       : RING_FAILED;
	(void)!write(fd, "", 1);
	close(fd);
	return RING_HEARD;
}
