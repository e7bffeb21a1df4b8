#include "show/table.h"

#include <bsd/string.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/utf8.h"
#include "lock/lock_list.h"
#include "show/color.h"
#include "show/status_json.h"

#define UNKNOWN   "-"
#define CELL_SIZE 700 /* a NAME has at most 512 bytes, a party less */
#define GAP       2   /* between columns */
#define NARROWEST 6   /* the least width of a NAME or a HOLDER */

enum column { NAME, MODE, HOLDER, HELD, TTL, FENCE, WAITING, COLUMNS };

struct row {
	char cells[COLUMNS][CELL_SIZE];
	enum color styles[COLUMNS];
};

struct table {
	const struct table_form *form;
	size_t widths[COLUMNS];
	int lines; /* all that there are */
	int printed;
};

static void write_span(char cell[static CELL_SIZE], int64_t ms)
{
	if (ms < 0)
		strlcpy(cell, UNKNOWN, CELL_SIZE);
	else
		duration_format(
			ms > INT64_MAX / NANOS_PER_MS ? INT64_MAX : ms * NANOS_PER_MS, cell);
}

/* host:pid user label */
static void write_party(char cell[static CELL_SIZE], const struct owner *owner)
{
	const char *before_user = owner->user[0] != '\0' ? " " : "";
	const char *before_label = owner->label[0] != '\0' ? " " : "";

	snprintf(cell, CELL_SIZE, "%s:%jd%s%s%s%s", owner->host, (intmax_t)owner->pid, before_user,
		owner->user, before_label, owner->label);
}

static void fill_heading(struct row *row)
{
	static const char *const headings[COLUMNS] = {
		"NAME", "MODE", "HOLDER", "HELD", "TTL", "FENCE", "WAITING"};

	for (size_t i = 0; i < COLUMNS; i++) {
		strlcpy(row->cells[i], headings[i], CELL_SIZE);
		row->styles[i] = COLOR_HEADING;
	}
}

static int64_t find_ttl(const struct lock_view *view, const struct lock_view_owner *holder)
{
	if (holder != NULL)
		return holder->ttl_ms;
	return view->hold_off == LOCK_HOLD_OFF_NONE || view->foreign ? view->ttl_ms
								     : view->hold_off_ms;
}

/* holder: NULL when none is known. */
static void fill_row(
	struct row *row, const struct lock_view *view, const struct lock_view_owner *holder)
{
	strlcpy(row->cells[NAME], view->name, CELL_SIZE);
	strlcpy(row->cells[MODE], status_json_mode(view, view->mode), CELL_SIZE);
	strlcpy(row->cells[HOLDER], UNKNOWN, CELL_SIZE);
	if (holder != NULL)
		write_party(row->cells[HOLDER], &holder->owner);
	else if (view->hold_off == LOCK_HOLD_OFF_SETTLE && !view->foreign)
		strlcpy(row->cells[HOLDER], "- (held off: the server started lately)", CELL_SIZE);
	else if (view->hold_off == LOCK_HOLD_OFF_RETURN && !view->foreign)
		strlcpy(row->cells[HOLDER], "- (held off: a holder may return)", CELL_SIZE);
	if (holder != NULL && holder->detached)
		strlcat(row->cells[HOLDER], " (detached)", CELL_SIZE);
	write_span(row->cells[HELD], holder == NULL ? -1 : holder->ms);
	write_span(row->cells[TTL], find_ttl(view, holder));
	strlcpy(row->cells[FENCE], UNKNOWN, CELL_SIZE);
	if (view->fence != 0)
		snprintf(row->cells[FENCE], CELL_SIZE, "%" PRIu64, view->fence);
	snprintf(row->cells[WAITING], CELL_SIZE, "%zu", view->waiter_count);
	for (size_t i = 0; i < COLUMNS; i++) {
		utf8_clean(row->cells[i]);
		row->styles[i] = COLOR_PLAIN;
	}
	if (view->foreign)
		row->styles[MODE] = COLOR_DOUBT;
	if (view->waiter_count > 0)
		row->styles[WAITING] = COLOR_DOUBT;
}

static void measure_row(struct table *table, struct row *row)
{
	for (size_t i = 0; i < COLUMNS; i++) {
		size_t width = utf8_width_of_text(row->cells[i]);

		if (width > table->widths[i])
			table->widths[i] = width;
	}
	table->lines++;
}

/* Only so many fit: the last line counts the others. */
static bool is_left_out(struct table *table, size_t left)
{
	int most = table->form->lines;
	char text[32];

	if (most <= 0 || table->lines <= most || table->printed < most - 1)
		return false;
	if (table->printed++ == most - 1) {
		/* The heading is none of them, shown or not. */
		snprintf(text, sizeof(text), "... %d more",
			table->lines - (most > 1 ? most - 1 : 1));
		printf("%s%s\n", table->form->line_start, utf8_width_cut(text, sizeof(text), left));
	}
	return true;
}

/* However narrow the terminal is, nothing is wider. */
static void print_row(struct table *table, struct row *row)
{
	size_t left = table->form->columns > 0 ? (size_t)table->form->columns : SIZE_MAX;

	if (is_left_out(table, left))
		return;
	table->printed++;
	fputs(table->form->line_start, stdout);
	for (size_t i = 0; i < COLUMNS && left > 0; i++) {
		size_t width = table->widths[i];
		char *cell = utf8_width_cut(row->cells[i], CELL_SIZE, width < left ? width : left);
		size_t used = utf8_width_of_text(cell);
		size_t blanks = width + GAP - used;

		color_print(row->styles[i], cell);
		left -= used;
		if (blanks > left)
			blanks = left;
		if (i < COLUMNS - 1)
			printf("%*s", (int)blanks, "");
		left -= blanks;
	}
	putchar('\n');
}

/* All rows in order, which are made anew each time: some lines of text are not worth keeping. */
static void for_each_row(struct table *table, const struct lock_view *views, size_t count,
	void (*take)(struct table *table, struct row *row))
{
	struct row row;

	fill_heading(&row);
	take(table, &row);
	for (size_t i = 0; i < count; i++) {
		size_t holder = 0;

		do {
			bool known = holder < views[i].holder_count;

			fill_row(&row, &views[i], known ? &views[i].holders[holder] : NULL);
			take(table, &row);
		} while (++holder < views[i].holder_count);
	}
}

/* The wider one of NAME and HOLDER gives way. */
static void narrow(struct table *table)
{
	size_t *name = &table->widths[NAME], *holder = &table->widths[HOLDER];
	size_t total = GAP * (COLUMNS - 1);

	if (table->form->columns == 0)
		return;
	for (size_t i = 0; i < COLUMNS; i++)
		total += table->widths[i];
	for (; total > (size_t)table->form->columns; total--) {
		size_t *wider = *name > *holder ? name : holder;

		if (*wider <= NARROWEST)
			return;
		(*wider)--;
	}
}

void table_print(const struct lock_view *views, size_t count, const struct table_form *form)
{
	struct table table = {.form = form};

	for_each_row(&table, views, count, measure_row);
	narrow(&table);
	for_each_row(&table, views, count, print_row);
}

/* ---- the last runs ---- */

static const char *span_of(int64_t ms, char text[static DURATION_TEXT])
{
	return duration_format(ms < 0 ? 0 : ms * NANOS_PER_MS, text);
}

static void describe(
	const struct lock_run *run, const char *what, char text[static TABLE_RUNS_TEXT / 2])
{
	char ago[DURATION_TEXT], took[DURATION_TEXT];

	snprintf(text, TABLE_RUNS_TEXT / 2, "%s %s ago on %s, took %s", what,
		span_of(run->ago_ms, ago), run->owner.host,
		span_of((run->ended_us - run->began_us) / 1000, took));
}

const char *table_describe_runs(const struct lock_view *view, char text[static TABLE_RUNS_TEXT])
{
	const struct lock_run *run = &view->last_run, *success = &view->last_success;
	char half[TABLE_RUNS_TEXT / 2], what[40];

	text[0] = '\0';
	if (success->ended_us != 0) {
		describe(success, "last success", half);
		strlcat(text, half, TABLE_RUNS_TEXT);
	}
	if (run->ended_us > success->ended_us) {
		snprintf(what, sizeof(what), "last run failed (%d)", run->exit);
		describe(run, what, half);
		strlcat(text, *text ? "; " : "", TABLE_RUNS_TEXT);
		strlcat(text, half, TABLE_RUNS_TEXT);
	}
	utf8_clean(text);
	return text;
}
