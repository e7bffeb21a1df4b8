#include "show.h"

#include <jansson.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "lock/holder.h"
#include "lock/lock.h"
#include "lock/lock_list.h"
#include "show/check_report.h"
#include "show/openmetrics.h"
#include "show/status_json.h"
#include "show/table.h"

void show_text(const char *text)
{
	for (const char *at = text; *at != '\0'; at += utf8_character(at))
		MUST(utf8_character(at) > 0 && !utf8_is_unsafe(at));
}

void show_holder(const struct lock_answer *answer)
{
	char text[HOLDER_TEXT];

	show_text(holder_describe(answer, 5 * NANOS_PER_SEC, text));
}

/* --- What is printed ------------------------------------------------------------------------ */

static struct {
	FILE *real, *caught;
	char *text; /* owned */
	size_t size;
} printed;

static void begin(void)
{
	printed.caught = open_memstream(&printed.text, &printed.size);
	MUST(printed.caught != NULL);
	printed.real = stdout;
	stdout = printed.caught;
}

/* free() with it. */
static char *end(void)
{
	stdout = printed.real;
	MUST(fclose(printed.caught) == 0 && strlen(printed.text) == printed.size);
	return printed.text;
}

static void end_lines(void)
{
	char *text = end();

	for (char *line = text, *stop; *line != '\0'; line = stop + 1) {
		stop = strchr(line, '\n');
		MUST(stop != NULL);
		*stop = '\0';
		show_text(line);
	}
	free(text);
}

static void end_json(void)
{
	char *text = end();
	json_t *parsed = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	MUST(parsed != NULL && strchr(text, '\n') == text + strlen(text) - 1);
	json_decref(parsed);
	text[strlen(text) - 1] = '\0';
	show_text(text);
	free(text);
}

void show_views(struct lock_list *views)
{
	static const struct table_form forms[] = {
		{.line_start = ""}, {.columns = 40, .lines = 3, .line_start = ""}};
	struct failure failure;

	MUST(lock_list_sort(views, &failure));
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		begin();
		table_print(views->list, views->count, &forms[i]);
		end_lines();
	}
	begin();
	openmetrics_print(views->list, views->count);
	end_lines();
	begin();
	MUST(status_json_print(views->list, views->count, &failure));
	end_json();
}

void show_findings(const struct check_report *findings, const struct server *server)
{
	struct failure failure;

	begin();
	check_report_table(findings, false);
	check_report_table(findings, true);
	end_lines();
	begin();
	MUST(check_report_json(findings, server, &failure));
	end_json();
}
