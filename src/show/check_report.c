#include "show/check_report.h"

#include <bsd/stdlib.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/utf8.h"
#include "lock/lock_check.h"
#include "net/server.h"
#include "show/color.h"
#include "show/status_json.h"

static const struct {
	const char *word;
	enum color color;
} verdicts[] = {
	[LOCK_FIT] = {"ok", COLOR_GOOD},
	[LOCK_DOUBTFUL] = {"warning", COLOR_DOUBT},
	[LOCK_UNFIT] = {"failure", COLOR_BAD},
};

/* The same text, but for what a terminal must not get; each line by itself. */
static char *copy_clean(const char *text, const char *line_end)
{
	char *copy = strdup(text), *rest = copy, *to = copy;

	while (rest != NULL) {
		const char *line = utf8_clean(strsep(&rest, line_end));
		size_t length = strlen(line);

		memmove(to, line, length);
		to += length;
		*to = '\0';
		if (rest != NULL)
			*to++ = '\n';
	}
	return copy;
}

/* Its texts, of which the script alone has several lines. */
enum { SCRIPT = 4, TEXTS };

static const char **text_of(struct lock_finding *finding, int i)
{
	const char **texts[TEXTS] = {&finding->server, &finding->subject, &finding->found,
		&finding->advice, [SCRIPT] = &finding->script};

	return texts[i];
}

void check_report_take(const struct lock_finding *finding, void *context)
{
	struct check_report *findings = context;
	struct lock_finding *list =
		reallocarray(findings->list, findings->count + 1, sizeof(*list));

	if (list == NULL) {
		findings->out_of_memory = true;
		return;
	}
	findings->list = list;
	list[findings->count] = *finding;
	for (int i = 0; i < TEXTS; i++) {
		const char **text = text_of(&list[findings->count], i);

		if (*text != NULL && (*text = copy_clean(*text, i == SCRIPT ? "\n" : "")) == NULL)
			findings->out_of_memory = true;
	}
	findings->count++;
}

void check_report_free(struct check_report *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		for (int j = 0; j < TEXTS; j++)
			free((char *)*text_of(&findings->list[i], j));
	free(findings->list);
}

const struct lock_finding *check_report_worst(const struct check_report *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->list[i].code != EXIT_DONE && findings->list[i].code != EXIT_BUSY)
			return &findings->list[i];
	return NULL;
}

enum exit_code check_report_code(const struct check_report *findings)
{
	const struct lock_finding *worst = check_report_worst(findings);

	if (worst != NULL)
		return worst->code;
	for (size_t i = 0; i < findings->count; i++)
		if (findings->list[i].verdict != LOCK_FIT)
			return EXIT_BUSY;
	return EXIT_DONE;
}

static bool has_several(const struct check_report *findings)
{
	for (size_t i = 1; i < findings->count; i++)
		if (strcmp(findings->list[i].server, findings->list[0].server) != 0)
			return true;
	return false;
}

static int widest(const struct check_report *findings, const char *heading, bool servers)
{
	size_t width = strlen(heading);

	for (size_t i = 0; i < findings->count; i++) {
		const struct lock_finding *finding = &findings->list[i];
		size_t own = utf8_width_of_text(servers ? finding->server : finding->subject);

		if (own > width)
			width = own;
	}
	return (int)width;
}

/* printf(3) would count bytes. */
static void print_cell(enum color color, const char *text, int width)
{
	color_print(color, text);
	printf("%*s", width + 2 - (int)utf8_width_of_text(text), "");
}

static void print_scripts(const struct check_report *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->list[i].script != NULL)
			printf("\n%s", findings->list[i].script);
}

void check_report_table(const struct check_report *findings, bool only_failures)
{
	int servers = has_several(findings) ? widest(findings, "SERVER", true) : -1;
	int subjects = widest(findings, "CHECK", false);
	int words = (int)strlen("VERDICT");

	if (only_failures && check_report_worst(findings) == NULL)
		return;
	if (servers >= 0)
		print_cell(COLOR_HEADING, "SERVER", servers);
	print_cell(COLOR_HEADING, "CHECK", subjects);
	print_cell(COLOR_HEADING, "VERDICT", words);
	color_print(COLOR_HEADING, "FOUND");
	putchar('\n');
	for (size_t i = 0; i < findings->count; i++) {
		const struct lock_finding *finding = &findings->list[i];

		if (only_failures && finding->verdict != LOCK_UNFIT)
			continue;
		if (servers >= 0)
			print_cell(COLOR_PLAIN, finding->server, servers);
		print_cell(COLOR_PLAIN, finding->subject, subjects);
		print_cell(
			verdicts[finding->verdict].color, verdicts[finding->verdict].word, words);
		fputs(finding->found, stdout);
		if (finding->advice != NULL)
			printf(" -> %s", finding->advice);
		putchar('\n');
	}
	print_scripts(findings);
}

static json_t *finding_object(const struct lock_finding *finding)
{
	json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s?}", "server", finding->server, "check",
		finding->subject, "verdict", verdicts[finding->verdict].word, "found",
		finding->found, "advice", finding->advice);

	if (object != NULL && finding->script != NULL)
		json_object_set_new(object, "script", json_string(finding->script));
	return object;
}

static const char *overall(enum exit_code code)
{
	if (code == EXIT_DONE)
		return verdicts[LOCK_FIT].word;
	return verdicts[code == EXIT_BUSY ? LOCK_DOUBTFUL : LOCK_UNFIT].word;
}

bool check_report_json(
	const struct check_report *findings, const struct server *server, struct failure *failure)
{
	enum exit_code code = check_report_code(findings);
	json_t *list = json_array();
	json_t *object;
	bool done = list != NULL;

	for (size_t i = 0; done && i < findings->count; i++)
		done = json_array_append_new(list, finding_object(&findings->list[i])) == 0;
	object = json_pack("{s:o, s:s, s:i, s:o}", "server", status_json_text(server->text),
		"verdict", overall(code), "exit", (int)code, "findings", list);
	done = done && object != NULL && json_dumpf(object, stdout, JSON_COMPACT) == 0;
	json_decref(object);
	putchar('\n');
	return done || ferror(stdout) || failure_set(failure, EXIT_SYSTEM, "out of memory");
}
