#include "commands/status_live.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/message.h"
#include "base/utf8.h"
#include "cli/options.h"
#include "lock/lock_list.h"
#include "net/server.h"
#include "process/exit_status.h"
#include "show/color.h"
#include "show/screen.h"
#include "show/table.h"

#define INTERVAL   NANOS_PER_SEC
#define PATIENCE   (5 * NANOS_PER_SEC)
#define LINE_SIZE  600
#define FRAME_SIZE 65536

struct status_live {
	const struct options *options;
	struct screen screen;
	struct lock_query query;
	struct lock_lister *lister; /* owned */
	struct lock_list views;     /* owned; what was seen last */
	struct failure trouble;     /* of the last look; EXIT_DONE: none */
	int signals;                /* owned signalfd */
	int wakes;                  /* owned: epoll of signals and keys */
	int left;                   /* lines that the frame has room for */
	int end;                    /* the signal that has come; 0: none */
	bool quit, gone;            /* wanted; the terminal is */
};

/* All that would end us, but crashes: those are screen.c's; and what has us draw anew. SIGPIPE is
 * of no use: a terminal is no pipe, and a message without a reader is lost, no more. A signal that
 * is ignored (nohup) stays so: a signalfd would get it. */
static int open_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2,
		SIGALRM, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT, SIGWINCH,
		SIGCONT};
	struct sigaction action;
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&set, signals[i]);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return fd;
}

static bool listen_to_all(struct status_live *watch, struct failure *failure)
{
	struct epoll_event readable = {.events = EPOLLIN};

	watch->signals = open_signals();
	watch->wakes = epoll_create1(EPOLL_CLOEXEC);
	if (watch->signals < 0 || watch->wakes < 0 ||
		epoll_ctl(watch->wakes, EPOLL_CTL_ADD, watch->signals, &readable) != 0)
		return failure_set(failure, EXIT_SYSTEM, "cannot listen to signals: %m");
	if (watch->screen.has_keys)
		epoll_ctl(watch->wakes, EPOLL_CTL_ADD, STDIN_FILENO, &readable);
	return true;
}

static bool is_readable(int fd)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};

	return poll(&readable, 1, 0) > 0;
}

static void handle_keys(struct status_live *watch)
{
	char keys[64];
	ssize_t count;

	if (!watch->screen.has_keys || !is_readable(STDIN_FILENO))
		return;
	count = read(STDIN_FILENO, keys, sizeof(keys));
	/* The terminal is gone. */
	if (count <= 0)
		watch->quit = true;
	for (ssize_t i = 0; i < count; i++)
		watch->quit |= keys[i] == 'q' || keys[i] == 'Q';
}

/* Ctrl-Z: the shell's prompt gets a terminal as it was. */
static void stop(struct status_live *watch)
{
	sigset_t set;

	screen_leave(&watch->screen);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
	screen_enter(&watch->screen);
}

/* True: the frame is to be drawn anew. */
static bool heed(struct status_live *watch)
{
	struct signalfd_siginfo info;
	bool redraws = false;

	while (watch->end == 0 && read(watch->signals, &info, sizeof(info)) == sizeof(info)) {
		redraws = true;
		switch (info.ssi_signo) {
		case SIGTSTP:
			stop(watch);
			break;
		case SIGCONT: /* stopped by SIGSTOP, the shell has changed what we set */
			screen_enter(&watch->screen);
			break;
		case SIGWINCH:
			break;
		default:
			watch->end = (int)info.ssi_signo;
			break;
		}
	}
	handle_keys(watch);
	return redraws;
}

static bool goes_on(const struct status_live *watch)
{
	return watch->end == 0 && !watch->quit && !watch->gone;
}

/* Cut to the width. */
static void print_line(struct status_live *watch, enum color color, char text[static LINE_SIZE])
{
	if (watch->left-- <= 0)
		return;
	fputs(SCREEN_LINE_START, stdout);
	color_print(
		color, utf8_width_cut(utf8_clean(text), LINE_SIZE, (size_t)watch->screen.columns));
	putchar('\n');
}

static void draw(struct status_live *watch)
{
	struct table_form form = {watch->screen.columns, 0, SCREEN_LINE_START};
	time_t now = time(NULL);
	char text[LINE_SIZE], clock[16] = "";
	struct tm parts;

	if (localtime_r(&now, &parts) != NULL)
		strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
	watch->left = watch->screen.rows - 1;
	screen_begin_frame();
	snprintf(text, sizeof(text), "%s  %.500s  q: quit", clock, watch->options->server->text);
	print_line(watch, COLOR_PLAIN, text);
	if (watch->trouble.code != EXIT_DONE) {
		snprintf(text, sizeof(text), "%s; trying again", watch->trouble.text);
		print_line(watch, COLOR_BAD, text);
	}
	text[0] = '\0';
	print_line(watch, COLOR_PLAIN, text);
	form.lines = watch->left;
	if (form.lines > 0)
		table_print(watch->views.list, watch->views.count, &form);
	watch->gone = !screen_end_frame();
}

/* The last table stays in sight if the server cannot be asked. False: we were called away
 * meanwhile. */
static bool look(struct status_live *watch)
{
	struct deadline deadline = {
		.until = clock_after(clock_now(), PATIENCE),
		.cancel_fd = watch->wakes,
		.least = DEADLINE_LEAST,
	};
	struct lock_list views = {0};
	struct failure trouble = {.code = EXIT_DONE};
	bool good = lock_list_look(watch->lister, lock_list_take, &views, deadline, &trouble) &&
		    lock_list_sort(&views, &trouble);
	bool called_away = !good && is_readable(watch->wakes);

	if (good) {
		trouble.code = EXIT_DONE;
		lock_list_free(&watch->views);
		watch->views = views;
	} else {
		lock_list_free(&views);
	}
	if (!called_away)
		watch->trouble = trouble;
	return !called_away;
}

static void run(struct status_live *watch)
{
	nanos interval = watch->options->interval > 0 ? watch->options->interval : INTERVAL;
	struct pollfd wakes = {.fd = watch->wakes, .events = POLLIN};
	nanos next = clock_now();

	while (goes_on(watch)) {
		bool redraws = false;

		if (clock_now() >= next && look(watch)) {
			next = clock_after(clock_now(), interval);
			redraws = true;
		}
		if (heed(watch))
			redraws = true;
		screen_measure(&watch->screen);
		if (redraws && goes_on(watch) && !screen_is_stopped())
			draw(watch);
		if (goes_on(watch))
			poll(&wakes, 1, clock_poll_ms(next));
	}
}

static bool open_all(struct status_live *watch, struct failure *failure)
{
	const struct options *options = watch->options;

	if (!screen_open(&watch->screen, failure))
		return false;
	watch->query = (struct lock_query){
		options->prefix, options->operands, options->operand_count, false, false, false};
	watch->lister = lock_list_open(options->server, &watch->query, failure);
	return watch->lister != NULL && listen_to_all(watch, failure);
}

static void close_all(struct status_live *watch)
{
	if (watch->lister != NULL)
		lock_list_close(watch->lister);
	lock_list_free(&watch->views);
}

int status_watch(const struct options *options)
{
	struct status_live watch = {.options = options};
	struct failure failure;
	static char frame[FRAME_SIZE];

	if (!open_all(&watch, &failure)) {
		close_all(&watch);
		return message_failure(&failure);
	}
	/* A frame is one write, or it would flicker. */
	setvbuf(stdout, frame, _IOFBF, sizeof(frame));
	screen_enter(&watch.screen);
	run(&watch);
	screen_leave(&watch.screen);
	close_all(&watch);
	if (watch.end != 0)
		exit_status_by_signal(watch.end);
	if (watch.gone)
		message_say(MESSAGE_ERROR, "--watch: the terminal is gone");
	return watch.gone ? EXIT_SYSTEM : EXIT_DONE;
}
