#include "cli/other_program.h"

#include <bsd/string.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/failure.h"
#include "cli/options.h"
#include "lock/services.h"
#include "net/server.h"

#ifndef PKGLIBEXECDIR
#define PKGLIBEXECDIR "/usr/libexec/dlock"
#endif

/* Beside this program, where it was built; else where it is installed. False: there is none. A
 * program that was put in this one's place does not count: it would execute itself for ever. */
static bool find(const char *name, char path[static PATH_MAX])
{
	char own[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", own, PATH_MAX - 1);
	char *slash;

	own[length < 0 ? 0 : length] = '\0';
	strlcpy(path, own, PATH_MAX);
	slash = strrchr(path, '/');
	if (slash) {
		slash[1] = '\0';
		if (strlcat(path, name, PATH_MAX) < PATH_MAX && access(path, X_OK) == 0)
			return strcmp(path, own) != 0;
	}
	strlcpy(path, PKGLIBEXECDIR "/", PATH_MAX);
	strlcat(path, name, PATH_MAX);
	return access(path, X_OK) == 0 && strcmp(path, own) != 0;
}

bool other_program_is_needed(const struct options *options)
{
	return options->server && options->server->program;
}

/* Starts it, with its standard output in fd, and `as`; 0: it did not start. */
static pid_t start(const char *path, int fd, int as)
{
	char *argv[] = {(char *)path, (char *)"--version", NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid = 0;

	if (posix_spawn_file_actions_init(&actions) != 0)
		return 0;
	if (posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO) != 0 ||
		posix_spawn_file_actions_adddup2(&actions, fd, as) != 0 ||
		posix_spawn(&pid, path, &actions, NULL, argv, environ) != 0)
		pid = 0;
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

/* Asks it for its version. Whether it ends as it should; words: the first line that it writes
 * there, or its loader. */
static bool ask(const char *path, int as, char *words, size_t size)
{
	ssize_t length = 0;
	int ends[2], status = -1;
	pid_t pid;

	words[0] = '\0';
	if (pipe2(ends, O_CLOEXEC) != 0)
		return true; /* no time to be strict */
	pid = start(path, ends[1], as);
	close(ends[1]);
	length = pid > 0 ? read(ends[0], words, size - 1) : 0;
	close(ends[0]);
	words[length > 0 ? length : 0] = '\0';
	words[strcspn(words, "\n")] = '\0';
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* ---- whether its loader can start it ---- */

struct image {
	const char *at; /* NULL: none */
	size_t size, mapped;
};

static struct image image_open(const char *path)
{
	struct image image = {0};
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *at;

	if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size > 0) {
		at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (at != MAP_FAILED)
			image = (struct image){at, (size_t)status.st_size, (size_t)status.st_size};
	}
	if (fd >= 0)
		close(fd);
	return image;
}

static void image_close(const struct image *image)
{
	if (image->at)
		munmap((void *)image->at, image->mapped);
}

/* The path of its loader; NULL: it has none, or is no program of this host's kind: execve(2) has
 * more to say. The image ends with its first segment then, which has the names of libraries and
 * versions. */
static const char *find_loader(struct image *image)
{
	const ElfW(Ehdr) *head = (const void *)image->at;
	unsigned char own = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
	const char *loader = NULL;
	const ElfW(Phdr) * part;
	size_t end = image->size;

	if (image->size < sizeof(*head) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
		head->e_ident[EI_CLASS] != own || head->e_phoff > image->size ||
		head->e_phnum > (image->size - head->e_phoff) / sizeof(*part))
		return NULL;
	part = (const void *)(image->at + head->e_phoff);
	for (size_t i = head->e_phnum; i-- > 0;) {
		if (part[i].p_offset > image->size ||
			part[i].p_filesz > image->size - part[i].p_offset)
			return NULL;
		if (part[i].p_type == PT_LOAD)
			end = part[i].p_offset + part[i].p_filesz;
		if (part[i].p_type == PT_INTERP &&
			memchr(image->at + part[i].p_offset, '\0', part[i].p_filesz))
			loader = image->at + part[i].p_offset;
	}
	image->size = end;
	return loader;
}

/* Whether the loader's list has each library that is named. */
static bool are_listed(const struct image *names, const struct image *list)
{
	const char *at = names->at, *end = at + names->size;

	for (; (at = memmem(at, (size_t)(end - at), "\0lib", 4)); at++) {
		const char *name = at + 1;
		size_t length = strnlen(name, (size_t)(end - name));

		if (name + length < end && memmem(name, length, ".so", 3) &&
			!(list->at && memmem(list->at, list->size, name, length + 1)))
			return false;
	}
	return true;
}

/* The greatest number that follows such a word; -1: it is nowhere. */
static long find_number(const struct image *image, const char *word)
{
	const char *at = image->at, *end = at ? at + image->size : NULL;
	size_t length = strlen(word);
	long most = -1;

	while (at && (at = memmem(at, (size_t)(end - at), word, length))) {
		long number = 0;

		for (at += length; at < end && *at >= '0' && *at <= '9' && number < 10000; at++)
			number = number * 10 + (*at - '0');
		most = number > most ? number : most;
	}
	return most;
}

/* A cheap look: whether its loader, and each library that it names, are where such things mostly
 * are. A loader says of which glibc it is; an older one than the program was built with refuses it.
 */
static bool is_loadable(const char *path)
{
	struct image image = image_open(path), loader, list;
	const char *loader_path = find_loader(&image);
	bool good = true;

	if (loader_path) {
		loader = image_open(loader_path);
		list = image_open("/etc/ld.so.cache");
		good = loader.at && are_listed(&image, &list) &&
		       find_number(&image, "GLIBC_2.") <=
			       find_number(&loader, "release version 2.");
		image_close(&loader);
		image_close(&list);
	}
	image_close(&image);
	return good;
}

/* A loader that cannot start it ends with 127, as if COMMAND were not found, or with 1, as if the
 * lock were busy. */
static bool check_start(const char *path, const struct options *options, struct failure *failure)
{
	char words[256];

	if (is_loadable(path) || ask(path, STDERR_FILENO, words, sizeof(words)))
		return true;
	return failure_set(failure, EXIT_CONFIG, "cannot use %s: %s does not start: %s",
		options->server->text, path, words[0] ? words : "its loader is missing");
}

bool other_program_become(char **argv, const struct options *options, struct failure *failure)
{
	char path[PATH_MAX];
	struct stat status;

	if (!find(options->server->program, path))
		return services_miss(options->server, failure);
	if (options->config && (stat(options->config, &status) != 0 || !S_ISREG(status.st_mode)))
		return failure_set(failure, EXIT_USAGE,
			"--config: '%.100s' is no regular file: for this server it has to be read "
			"twice",
			options->config);
	if (!check_start(path, options, failure))
		return false;
	execv(path, argv);
	return failure_set(failure, EXIT_SYSTEM, "cannot execute %s: %s", path, strerror(errno));
}

bool other_program_library(const char *program, char *text, size_t size)
{
	char path[PATH_MAX];

	*text = '\0';
	if (find(program, path))
		(void)ask(path, STDOUT_FILENO, text, size);
	return *text != '\0';
}
