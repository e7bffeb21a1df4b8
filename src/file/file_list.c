/* A look at the folder: for `dlock status` and `dlock check`. */
#include <bsd/string.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "file/file_lock.h"
#include "net/server.h"

struct listing {
	const struct lock_lister *lister; /* borrowed */
	struct folder folder;
	struct deadline deadline;
	uint64_t boot;
};

/* --- One lock --------------------------------------------------------------------------------- */

/* Whether any process has an flock on the file, dlock or not, without asking for it: that would be
 * in the way of others. */
static bool is_flocked(const struct folder *folder, const char *file)
{
	FILE *locks = fopen("/proc/locks", "re");
	char line[160], wanted[64];
	struct stat status;
	bool found = false, there = locks && folder_has_part(folder, file, FOLDER_LOCK, &status);

	if (there)
		snprintf(wanted, sizeof(wanted), " %02x:%02x:%" PRIuMAX " ", major(status.st_dev),
			minor(status.st_dev), (uintmax_t)status.st_ino);
	while (there && !found && fgets(line, sizeof(line), locks))
		found = strstr(line, ": FLOCK ") && strstr(line, wanted);
	if (locks)
		fclose(locks);
	return found;
}

static struct lock_view_owner view_owner(
	const struct record *record, int i, nanos until, struct slot_text *text)
{
	const struct slot *slot = &record->slots[i];
	int64_t since = slot->state == SLOT_WAITING ? slot->ticket : slot->since;
	int64_t now = clock_wall_us();
	struct lock_view_owner view = {.token = until == NANOS_NEVER ? text->token : NULL,
		.held = text->held,
		.mode = (enum lock_mode)slot->mode,
		.priority = slot->priority,
		.ms = now > since ? (now - since) / 1000 : 0,
		.ttl_ms = until == NANOS_NEVER ? -1 : (until - clock_now()) / NANOS_PER_MS,
		.since_us = since,
		.detached = slot->detached};

	record_read_text(record, i, text, &view.owner);
	return view;
}

static int compare_waiters(const void *a, const void *b)
{
	const struct lock_view_owner *one = a, *other = b;
	int64_t order = record_order(one->since_us, one->priority) -
			record_order(other->since_us, other->priority);

	return order < 0 ? -1 : order > 0;
}

/* Fills in holders and waiters; each list has room for all slots. */
static void view_slots(const struct record *record, struct lock_view_owner *holders,
	struct lock_view_owner *waiters, struct slot_text *texts, struct lock_view *view)
{
	for (int i = 0; i < record->head.count; i++) {
		nanos until = record_holds_until(record, i);

		if (record->slots[i].state == SLOT_WAITING && record_lives(record, i, BYTE_QUEUE))
			waiters[view->waiter_count++] =
				view_owner(record, i, NANOS_NEVER, &texts[i]);
		if (until == 0)
			continue;
		holders[view->holder_count] = view_owner(record, i, until, &texts[i]);
		view->mode = holders[view->holder_count].mode;
		if (view->holder_count == 0 || holders[view->holder_count].ttl_ms < 0)
			view->ttl_ms = holders[view->holder_count].ttl_ms;
		view->holder_count++;
	}
	qsort(waiters, view->waiter_count, sizeof(*waiters), compare_waiters);
}

static bool show_record(struct listing *l, const struct record *record, const char *file,
	struct lock_view *view, struct failure *failure)
{
	const struct record_head *head = &record->head;
	size_t count = (size_t)head->count;
	struct lock_view_owner *owners = calloc(2 * count + 1, sizeof(*owners));
	struct slot_text *texts = calloc(count + 1, sizeof(*texts));

	if (!owners || !texts) {
		free(owners);
		free(texts);
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	}
	view->fence = head->fence;
	view->counters = (struct lock_counters){head->granted, head->contended, head->timeouts,
		head->lost, head->waited_us, head->held_us};
	if (record->fd >= 0) {
		record_read_run(record, false, &view->last_run);
		record_read_run(record, true, &view->last_success);
	}
	view->holders = owners;
	view->waiters = owners + count;
	view_slots(record, owners, owners + count, texts, view);
	view->foreign = view->holder_count == 0 && is_flocked(&l->folder, file);
	lock_lister_show(l->lister, view, head->magic != 0);
	free(owners);
	free(texts);
	return true;
}

/* The NAME that a key has under the prefix asked for; NULL: it is under another one. */
static const char *name_of(const struct lock_query *query, const char *key)
{
	char prefix[KEY_SIZE];

	folder_key(query->prefix, "", prefix);
	return strncmp(key, prefix, strlen(prefix)) == 0 ? key + strlen(prefix) : NULL;
}

/* A file that may not be read, or is no lock, is passed over, unless it was asked for by its name.
 */
static bool show_file(struct listing *l, const char *file, bool recorded, struct failure *failure)
{
	char key[KEY_SIZE], path[PATH_MAX];
	struct lock_view view = {.key = path, .ttl_ms = -1};
	struct record record;
	bool known = folder_read_name(file, key), good = true;

	record_begin(&record, l->boot);
	record.reading = true;
	if (recorded && record_open(&record, &l->folder, file, file, false, failure)) {
		good = record_enter(&record, l->deadline, failure) == LOCK_GRANTED;
		if (good)
			record_leave(&record);
		if (good && record.head.magic != 0)
			known = strlcpy(key, record.head.key, sizeof(key)) > 0;
	}
	view.name = known ? name_of(&l->lister->query, key) : NULL;
	snprintf(path, sizeof(path), "%s/%s", l->folder.path, file);
	if (!view.name || !lock_query_wants(&l->lister->query, view.name))
		good = true;
	else if (good)
		good = show_record(l, &record, file, &view, failure);
	else
		good = l->lister->query.pattern_count == 0;
	record_close(&record);
	return good;
}

/* --- All of them ------------------------------------------------------------------------------ */

/* A record stands for its lock; a lock's file without one was made by others. */
static bool show_entry(struct listing *l, const char *entry, struct failure *failure)
{
	struct stat status;

	if (entry[0] == '.')
		return strcmp(entry, ".") == 0 || strcmp(entry, "..") == 0 || strchr(entry, '+') ||
		       strlen(entry) > FILE_NAME_SIZE || show_file(l, entry + 1, true, failure);
	return strlen(entry) >= FILE_NAME_SIZE ||
	       folder_has_part(&l->folder, entry, FOLDER_RECORD, &status) ||
	       show_file(l, entry, false, failure);
}

bool file_list(struct lock_lister *lister, struct failure *failure)
{
	struct listing l = {.lister = lister, .deadline = lock_lister_limit(lister)};
	const struct dirent *entry;
	bool good = true;
	DIR *folder;

	l.boot = record_boot(&(struct owner){0});
	if (!folder_open(&l.folder, lister->server, false, failure))
		return l.folder.missing;
	folder = fdopendir(openat(l.folder.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (!folder)
		good = failure_set(failure, EXIT_REFUSED, "cannot read %s: %m", l.folder.path);
	while (folder && good && (entry = readdir(folder)) != NULL)
		good = show_entry(&l, entry->d_name, failure);
	if (folder)
		closedir(folder);
	close(l.folder.fd);
	return good;
}

/* --- dlock check ------------------------------------------------------------------------------ */

static struct lock_finding look_at_folder(
	const struct server *server, struct folder *folder, struct failure *failure)
{
	struct lock_finding finding = {.server = server->text, .subject = "folder"};
	struct stat status;

	if (!folder_open(folder, server, true, failure)) {
		finding.verdict = LOCK_UNFIT;
		finding.code = failure->code;
		finding.found = failure->text;
		return finding;
	}
	finding.found = folder->path;
	if (fstat(folder->fd, &status) == 0 && (status.st_mode & S_IWOTH) &&
		!(status.st_mode & S_ISVTX)) {
		finding.verdict = LOCK_DOUBTFUL;
		finding.code = EXIT_BUSY;
		finding.found = "everybody may remove locks from it";
		finding.advice = "chmod +t";
	}
	return finding;
}

bool file_check(const struct server *server, const struct lock_request *request,
	lock_finding_taker *take, void *context, struct failure *failure)
{
	struct folder folder;
	struct lock_finding finding = look_at_folder(server, &folder, failure);
	char name[TRIAL_NAME], key[KEY_SIZE], file[FILE_NAME_SIZE];

	take(&finding, context);
	if (finding.verdict == LOCK_UNFIT)
		return true;
	trial_report(server, request, trial_name(name), take, context);
	folder_key(request->prefix, name, key);
	folder_name(key, file);
	folder_remove(&folder, file);
	close(folder.fd);
	return true;
}
