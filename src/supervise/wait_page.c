#include "supervise/wait_page.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/message.h"
#include "base/utf8.h"
#include "lock/holder.h"

#define COLUMNS 80 /* if the terminal does not say */
#define WIDEST  500
#define YIELDS  200 /* a line is drawn within some of them, unless its writer was stopped */

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
static void draw(const char *text)
{
	char out[WAIT_PAGE_TEXT + WIDEST + 2];
	size_t left = (size_t)count_columns();
	int fit = (int)utf8_width_fit(text, &left);
	int length = snprintf(out, sizeof(out), "\r%.*s%*s\r", fit, text, (int)left, "");

	(void)!write(STDERR_FILENO, out, (size_t)length);
}

static void say_first(const struct lock_answer *answer)
{
	char text[HOLDER_TEXT];

	holder_describe(answer, 0, text);
	if (answer->settling_ms > 0)
		message_say(MESSAGE_INFO, "%s", text);
	else
		message_say(MESSAGE_INFO, "waiting, %d ahead; %s",
			answer->rank > 0 ? answer->rank : 0, text);
}

/* Where the reader does not look just now. */
static struct wait_news *next_half(struct wait_page *page)
{
	return &page->half[(atomic_load(&page->told) + 1) % 2];
}

static void publish(struct wait_page *page)
{
	next_half(page)->at = clock_now();
	atomic_fetch_add(&page->told, 1);
}

void wait_page_tell(struct wait_page *page, const struct lock_answer *answer)
{
	int over = WAIT_LINE_OVER; /* of a grant that came too late, or of a server that is back */

	atomic_compare_exchange_strong(&page->line, &over, WAIT_LINE_AWAY);
	next_half(page)->answer = *answer;
	if (page->since == 0) {
		page->since = clock_now();
		say_first(answer);
	}
	publish(page);
}

void wait_page_tell_unreached(struct wait_page *page, const struct failure *why)
{
	struct lock_answer *answer = &next_half(page)->answer;

	wait_page_end(page);
	answer->result = LOCK_FAILED;
	answer->failure = *why;
	publish(page);
}

void wait_page_end(struct wait_page *page)
{
	int state = atomic_load(&page->line);

	for (int i = 0; i < YIELDS && state != WAIT_LINE_OVER; i++) {
		if (state != WAIT_LINE_BUSY &&
			atomic_compare_exchange_strong(&page->line, &state, WAIT_LINE_OVER))
			break;
		sched_yield();
		state = atomic_load(&page->line);
	}
	if (state == WAIT_LINE_DRAWN && may_draw())
		draw("");
}

bool wait_page_read(struct wait_page *page, struct lock_answer *answer, nanos *at)
{
	unsigned told;

	do {
		told = atomic_load(&page->told);
		*answer = page->half[told % 2].answer;
		*at = page->half[told % 2].at;
	} while (atomic_load(&page->told) != told);
	return told > 0;
}

/* Nothing else may be written meanwhile. False: the wait is over. */
static bool claim(struct wait_page *page)
{
	int state = WAIT_LINE_AWAY;

	return atomic_compare_exchange_strong(&page->line, &state, WAIT_LINE_BUSY) ||
	       (state == WAIT_LINE_DRAWN &&
		       atomic_compare_exchange_strong(&page->line, &state, WAIT_LINE_BUSY));
}

void wait_page_draw(struct wait_page *page, const char *text)
{
	if (!may_draw() || !claim(page))
		return;
	draw(text);
	atomic_store(&page->line, WAIT_LINE_DRAWN);
}
