#include "supervise/wait_line.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/message.h"
#include "base/number.h"
#include "base/utf8.h"
#include "lock/holder.h"
#include "lock/nesting.h"
#include "supervise/notify.h"
#include "supervise/task.h"

#define FIRST (300 * NANOS_PER_MS) /* a shorter wait is not worth a line */
#define AGAIN NANOS_PER_SEC
#define LOOK  (100 * NANOS_PER_MS) /* a shorter one is not worth a look, either */

bool wait_line_is_wanted(void)
{
	return message_shows(MESSAGE_WARNING) && isatty(STDERR_FILENO) == 1;
}

static void describe(const struct wait_line *line, const struct lock_answer *answer, nanos at,
	char text[static WAIT_PAGE_TEXT])
{
	nanos now = clock_now();
	char waited[DURATION_TEXT], holder[HOLDER_TEXT], ahead[32] = "";

	if (answer->rank > 0)
		snprintf(ahead, sizeof(ahead), ", %d ahead", answer->rank);
	snprintf(text, WAIT_PAGE_TEXT, "dlock: %s: waiting for %s%s; %s", line->task->name,
		duration_format(
			(now - line->task->lease->waits.since) / NANOS_PER_SEC * NANOS_PER_SEC,
			waited),
		ahead, holder_describe(answer, now - at, holder));
	utf8_clean(text);
}

void wait_line_open(struct wait_line *line, const struct task *task, struct notify *notify)
{
	*line = (struct wait_line){.task = task,
		.notify = notify,
		.draw_at = wait_line_is_wanted() ? clock_now() + FIRST : NANOS_NEVER,
		.look_at = task->wait == 0 ? NANOS_NEVER : clock_now() + LOOK};
}

nanos wait_line_due(const struct wait_line *line)
{
	nanos due = number_least(line->draw_at, line->look_at);

	return number_least(due, notify_due(line->notify, &line->task->lease->waits));
}

static void draw_line(struct wait_line *line)
{
	struct wait_page *page = &line->task->lease->waits;
	static struct lock_answer answer; /* large */
	char text[WAIT_PAGE_TEXT];
	nanos at;

	if (clock_now() < line->draw_at)
		return;
	line->draw_at = clock_now() + AGAIN;
	if (!wait_page_read(page, &answer, &at)) {
		line->draw_at = clock_now() + FIRST; /* no answer yet */
	} else if (answer.result == LOCK_BUSY) {
		describe(line, &answer, at, text);
		wait_page_draw(page, text);
	}
}

static const struct lock_answer *look_around(struct wait_line *line, bool *learnt)
{
	static struct lock_answer answer; /* large */
	struct nesting *nesting = line->task->nesting;
	size_t known = strlen(nesting->held);
	bool around;
	nanos at;

	if (clock_now() < line->look_at)
		return NULL;
	line->look_at = clock_now() + LOOK;
	if (!wait_page_read(&line->task->lease->waits, &answer, &at) || answer.result != LOCK_BUSY)
		return NULL; /* not busy so far */
	line->look_at = NANOS_NEVER;
	around = nesting_has(nesting, line->task->request->self, &answer, true);
	*learnt = strlen(nesting->held) > known;
	return around ? &answer : NULL;
}

const struct lock_answer *wait_line_attend(struct wait_line *line, bool *learnt)
{
	draw_line(line);
	notify_wait(line->notify, &line->task->lease->waits);
	return look_around(line, learnt);
}
