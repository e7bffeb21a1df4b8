#include "supervise/wait_line.h"

#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/message.h"
#include "base/number.h"
#include "base/utf8.h"
#include "lock/holder.h"

#define FIRST     (300 * NANOS_PER_MS) /* a shorter wait is not worth a line */
#define AGAIN     NANOS_PER_SEC
#define TEXT_SIZE 1400 /* a NAME of 512 bytes, a holder, and what stands between */
#define COLUMNS   80   /* if the terminal does not say */
#define WIDEST    500

bool wait_line_is_wanted(void)
{
	return message_shows(MESSAGE_WARNING) && isatty(STDERR_FILENO) == 1;
}

void wait_line_open(struct wait_line *line, const char *name, int cancel_fd, struct notify *notify)
{
	*line = (struct wait_line){
		.name = name,
		.cancel_fd = cancel_fd,
		.notify = notify,
		.timer = -1,
		.both_fd = -1,
		.draw_at = NANOS_NEVER,
		.wake_at = NANOS_NEVER,
	};
}

/* One descriptor for both, since a wait for a message can be ended by one only. */
static void open_both(struct wait_line *line)
{
	struct epoll_event readable = {.events = EPOLLIN};

	if (line->both_fd >= 0)
		return;
	line->timer = clock_timer_open();
	line->both_fd = epoll_create1(EPOLL_CLOEXEC);
	if (line->timer >= 0 && line->both_fd >= 0 &&
		epoll_ctl(line->both_fd, EPOLL_CTL_ADD, line->timer, &readable) == 0 &&
		epoll_ctl(line->both_fd, EPOLL_CTL_ADD, line->cancel_fd, &readable) == 0)
		return;
	if (line->timer >= 0)
		close(line->timer);
	if (line->both_fd >= 0)
		close(line->both_fd);
	line->timer = line->both_fd = -1;
}

static void describe(const struct wait_line *line, nanos now, char text[static TEXT_SIZE])
{
	const struct lock_answer *answer = line->answer;
	char waited[DURATION_TEXT], holder[HOLDER_TEXT], ahead[32] = "";

	if (answer->rank > 0)
		snprintf(ahead, sizeof(ahead), ", %d ahead", answer->rank);
	snprintf(text, TEXT_SIZE, "dlock: %s: waiting for %s%s; %s", line->name,
		duration_format((now - line->started) / NANOS_PER_SEC * NANOS_PER_SEC, waited),
		ahead, holder_describe(answer, now - line->answered_at, holder));
	utf8_clean(text);
}

/* The columns that a line may fill: one less than there are, or the cursor would go to the next. */
static int count_columns(void)
{
	struct winsize size;
	int columns = COLUMNS;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		columns = size.ws_col;
	return (columns < WIDEST ? columns : WIDEST) - 1;
}

/* In the background the terminal is another job's; and if it were stopped by Ctrl-S it would stop
 * us. */
static bool may_draw(void)
{
	struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};

	return tcgetpgrp(STDERR_FILENO) == getpgrp() && poll(&out, 1, 0) > 0;
}

/* From the first column on, cut and filled with blanks to the last, so that the line before is
 * gone and no terminal needs to know a control sequence. */
static void draw(struct wait_line *line, const char *text)
{
	char out[TEXT_SIZE + WIDEST + 2];
	size_t left = (size_t)count_columns();
	int fit = (int)utf8_width_fit(text, &left);
	int length = snprintf(out, sizeof(out), "\r%.*s%*s\r", fit, text, (int)left, "");

	line->drawn = write(STDERR_FILENO, out, (size_t)length) > 0;
}

static void redraw(struct wait_line *line)
{
	nanos now = clock_now();
	char text[TEXT_SIZE];

	if (may_draw()) {
		describe(line, now, text);
		draw(line, text);
	}
	line->draw_at = now + AGAIN;
}

static bool set_timer(const struct wait_line *line)
{
	nanos due = number_least(notify_due(line->notify), line->wake_at);

	return clock_timer_set(line->timer, number_least(line->draw_at, due)) < 0;
}

int wait_line_begin(struct wait_line *line, const struct lock_answer *answer, nanos wake_at)
{
	bool first = line->started == 0;
	char text[HOLDER_TEXT];

	line->answer = answer;
	line->answered_at = clock_now();
	if (first) {
		line->started = line->answered_at;
		holder_describe(answer, 0, text);
		if (answer->settling_ms > 0)
			message_say(MESSAGE_INFO, "%s", text);
		else
			message_say(MESSAGE_INFO, "waiting, %d ahead; %s",
				answer->rank > 0 ? answer->rank : 0, text);
		if (wait_line_is_wanted())
			line->draw_at = line->started + FIRST;
	}
	line->wake_at = wake_at;
	notify_waiting(line->notify, answer, 0);
	if (line->draw_at != NANOS_NEVER || wake_at != NANOS_NEVER ||
		notify_due(line->notify) != NANOS_NEVER)
		open_both(line);
	if (line->both_fd < 0)
		return line->cancel_fd;
	if (line->draw_at != NANOS_NEVER && line->answered_at - line->started >= FIRST)
		redraw(line);
	return set_timer(line) ? line->both_fd : line->cancel_fd;
}

bool wait_line_goes_on(struct wait_line *line)
{
	struct pollfd fds[] = {
		{.fd = line->cancel_fd, .events = POLLIN}, {.fd = line->timer, .events = POLLIN}};

	if (poll(fds, 2, 0) < 0 || fds[0].revents != 0)
		return false;
	if (fds[1].revents != 0) {
		nanos now = clock_now();

		clock_timer_clear(line->timer);
		if (now >= line->draw_at)
			redraw(line);
		if (now >= line->wake_at)
			line->wake_at = NANOS_NEVER;
		notify_waiting(line->notify, line->answer, now - line->answered_at);
		set_timer(line);
	}
	return true;
}

void wait_line_end(struct wait_line *line)
{
	if (!line->drawn)
		return;
	if (may_draw())
		draw(line, "");
	line->drawn = false;
}
