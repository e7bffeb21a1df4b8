#include "supervise/notify.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/number.h"
#include "base/utf8.h"
#include "base/wakeup.h"
#include "lock/holder.h"
#include "supervise/outcome.h"

#define EVERY        (10 * NANOS_PER_SEC)
#define EXTENSION    (60 * NANOS_PER_SEC) /* from each message on: several may be lost */
#define STATUS_SIZE  1400 /* a NAME of 512 bytes, a holder, and what stands between */
#define MESSAGE_SIZE (STATUS_SIZE + 128)
#define AWAIT_MOST   100 /* ms */

bool notify_is_wanted(bool ready)
{
	const char *path = getenv("NOTIFY_SOCKET");

	return path && (*path == '/' || *path == '@') && (ready || !getenv("DLOCK_TOKEN"));
}

/* Half the time after which the manager takes the service for hung; COMMAND's to see to once it
 * runs. */
static nanos find_every(void)
{
	const char *text = getenv("WATCHDOG_USEC");
	nanos watchdog = text ? strtoll(text, NULL, 10) * (NANOS_PER_MS / 1000) : 0;

	return watchdog > 0 ? number_least(EVERY, watchdog / 2) : EVERY;
}

void notify_open(struct notify *notify, const char *name, bool ready)
{
	*notify = (struct notify){
		.wanted = notify_is_wanted(ready), .ready = ready, .name = name, .rank = -1};
	if (notify->wanted)
		notify->every = find_every();
}

static void send_out(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = path ? strlen(path) : 0;
	int fd;

	if (length == 0 || length >= sizeof(address.sun_path))
		return;
	memcpy(address.sun_path, path, length);
	if (*path == '@')
		address.sun_path[0] = '\0'; /* an abstract one: no byte may follow its name */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)sendto(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL,
		(const struct sockaddr *)&address,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
	close(fd);
}

static void send_status(const char *more, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* `more` is lines besides, each with its newline. */
static void send_status(const char *more, const char *format, ...)
{
	char status[STATUS_SIZE], message[MESSAGE_SIZE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(status, sizeof(status), format, arguments);
	va_end(arguments);
	snprintf(message, sizeof(message), "%sSTATUS=%s", more, utf8_clean(status));
	send_out(message);
}

/* --- Waiting ---------------------------------------------------------------------------------- */

/* The lines that keep the manager from losing patience; false: it has enough of it still. */
static bool ask_for_time(struct notify *notify, int rank, char lines[static 64])
{
	nanos now = clock_now();

	if (now < notify->due && rank == notify->rank)
		return false;
	notify->rank = rank;
	notify->due = now + notify->every;
	snprintf(lines, 64, "%sEXTEND_TIMEOUT_USEC=%" PRId64 "\n",
		getenv("WATCHDOG_USEC") ? "WATCHDOG=1\n" : "", EXTENSION / (NANOS_PER_MS / 1000));
	return true;
}

nanos notify_due(const struct notify *notify, const struct wait_page *page)
{
	return notify && notify->wanted && atomic_load(&page->told) > 0 ? notify->due : NANOS_NEVER;
}

void notify_wait(struct notify *notify, struct wait_page *page)
{
	static struct lock_answer answer; /* large */
	char lines[64], holder[HOLDER_TEXT], ahead[32] = "";
	bool busy;
	nanos at;

	if (!notify || !notify->wanted || !wait_page_read(page, &answer, &at))
		return;
	busy = answer.result == LOCK_BUSY;
	if (!ask_for_time(notify, busy ? answer.rank : -1, lines))
		return;
	if (busy && answer.rank > 0)
		snprintf(ahead, sizeof(ahead), ", %d ahead", answer.rank);
	send_status(lines, "waiting for %s%s; %s", notify->name, ahead,
		busy ? holder_describe(&answer, clock_now() - at, holder) : answer.failure.text);
}

/* --- Holding ---------------------------------------------------------------------------------- */

static void say_held(const struct notify *notify)
{
	time_t now = time(NULL);
	char when[64] = "";
	struct tm local;

	if (localtime_r(&now, &local))
		strftime(when, sizeof(when), "%F %T %Z", &local);
	send_status(notify->ready ? "READY=1\n" : "", "holds %s since %s", notify->name, when);
}

void notify_look(struct notify *notify, struct lease *lease)
{
	enum lease_phase phase = atomic_load(&lease->phase);
	bool stops = phase == LEASE_STOPPING || phase == LEASE_KILLING;

	if (!notify || !notify->wanted || phase < LEASE_HELD)
		return;
	if (notify->told < NOTIFY_HELD) {
		say_held(notify);
		notify->told = NOTIFY_HELD;
		atomic_store(&lease->notified, true);
	}
	if (notify->told < NOTIFY_LOST && atomic_load(&lease->doubted)) {
		send_status("", "lost %s; COMMAND goes on", notify->name);
		notify->told = NOTIFY_LOST;
	}
	if (notify->told < NOTIFY_STOPPING && stops) {
		send_status("", "%s %s; stopping COMMAND",
			lease->stop == STOP_MAX_RUN ? "holds" : "lost", notify->name);
		notify->told = NOTIFY_STOPPING;
	}
}

void notify_await(const struct lease *lease, int wakeup_fd)
{
	wakeup_send(wakeup_fd);
	for (int ms = 0; ms < AWAIT_MOST && !atomic_load(&lease->notified); ms++)
		poll(NULL, 0, 1);
}

void notify_end(struct notify *notify, const struct outcome *outcome)
{
	char holder[HOLDER_TEXT];

	if (!notify->wanted)
		return;
	switch (outcome->kind) {
	case OUTCOME_ACQUIRED:
	case OUTCOME_HELD:
		if (notify->told < NOTIFY_HELD)
			say_held(notify);
		break;
	case OUTCOME_BUSY:
	case OUTCOME_TIMEOUT:
		send_status("", "%s is busy; %s", notify->name,
			holder_describe(&outcome->answer, 0, holder));
		break;
	case OUTCOME_LOST:
		send_status("", "lost %s", notify->name);
		break;
	case OUTCOME_CANCELLED:
		send_status("", "no longer waits for %s", notify->name);
		break;
	case OUTCOME_ALREADY:
		send_status("", "not run: %s has succeeded already", notify->name);
		break;
	case OUTCOME_RAN:
	case OUTCOME_MAX_RUN:
		send_status("", "%s %s; COMMAND ended with %d",
			outcome->survivors[0] != 0 ? "what COMMAND left running holds" : "released",
			notify->name, outcome_command_exit(outcome));
		break;
	default:
		send_status("", "%s: %s", notify->name, outcome->failure.text);
		break;
	}
}
