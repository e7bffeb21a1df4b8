#include "findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <jansson.h>

#include "failure.h"
#include "lock.h"
#include "server.h"
#include "style.h"
#include "text.h"
#include "width.h"

static const struct {
	const char *word;
	enum style style;
} verdicts[] = {
	[LOCK_FIT] = {"ok", STYLE_GOOD},
	[LOCK_DOUBTFUL] = {"warning", STYLE_DOUBT},
	[LOCK_UNFIT] = {"failure", STYLE_BAD},
};

/* --- Keeping them ---------------------------------------------------------------------------- */

static char *copy_clean(const char *text)
{
	char *copy = strdup(text);

	return copy == NULL ? NULL : text_clean(copy);
}

static void free_finding(const struct lock_finding *finding)
{
	free((char *)finding->server);
	free((char *)finding->subject);
	free((char *)finding->found);
	free((char *)finding->advice);
}

void findings_take(const struct lock_finding *finding, void *context)
{
	struct findings *findings = context;
	struct lock_finding *list =
		reallocarray(findings->list, findings->count + 1, sizeof(*list));
	struct lock_finding copy = *finding;

	if (list == NULL) {
		findings->out_of_memory = true;
		return;
	}
	findings->list = list;
	copy.server = copy_clean(finding->server);
	copy.subject = copy_clean(finding->subject);
	copy.found = copy_clean(finding->found);
	copy.advice = finding->advice == NULL ? NULL : copy_clean(finding->advice);
	if (copy.server == NULL || copy.subject == NULL || copy.found == NULL ||
		(copy.advice == NULL && finding->advice != NULL)) {
		findings->out_of_memory = true;
		free_finding(&copy);
		return;
	}
	list[findings->count++] = copy;
}

void findings_free(struct findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		free_finding(&findings->list[i]);
	free(findings->list);
}

const struct lock_finding *findings_worst(const struct findings *findings)
{
	for (size_t i = 0; i < findings->count; i++) {
		if (findings->list[i].code != EXIT_DONE && findings->list[i].code != EXIT_BUSY)
			return &findings->list[i];
	}
	return NULL;
}

enum exit_code findings_code(const struct findings *findings)
{
	const struct lock_finding *worst = findings_worst(findings);

	if (worst != NULL)
		return worst->code;
	for (size_t i = 0; i < findings->count; i++) {
		if (findings->list[i].verdict != LOCK_FIT)
			return EXIT_BUSY;
	}
	return EXIT_DONE;
}

/* --- The table ------------------------------------------------------------------------------- */

static bool has_several(const struct findings *findings)
{
	for (size_t i = 1; i < findings->count; i++) {
		if (strcmp(findings->list[i].server, findings->list[0].server) != 0)
			return true;
	}
	return false;
}

static int widest(const struct findings *findings, const char *heading, bool servers)
{
	size_t width = strlen(heading);

	for (size_t i = 0; i < findings->count; i++) {
		const struct lock_finding *finding = &findings->list[i];
		size_t own = width_of_text(servers ? finding->server : finding->subject);

		if (own > width)
			width = own;
	}
	return (int)width;
}

/* printf(3) would count bytes. */
static void print_cell(enum style style, const char *text, int width)
{
	style_print(style, text);
	printf("%*s", width + 2 - (int)width_of_text(text), "");
}

void findings_table(const struct findings *findings, bool only_failures)
{
	int servers = has_several(findings) ? widest(findings, "SERVER", true) : -1;
	int subjects = widest(findings, "CHECK", false);
	int words = (int)strlen("VERDICT");

	if (only_failures && findings_worst(findings) == NULL)
		return;
	if (servers >= 0)
		print_cell(STYLE_HEADING, "SERVER", servers);
	print_cell(STYLE_HEADING, "CHECK", subjects);
	print_cell(STYLE_HEADING, "VERDICT", words);
	style_print(STYLE_HEADING, "FOUND");
	putchar('\n');
	for (size_t i = 0; i < findings->count; i++) {
		const struct lock_finding *finding = &findings->list[i];

		if (only_failures && finding->verdict != LOCK_UNFIT)
			continue;
		if (servers >= 0)
			print_cell(STYLE_PLAIN, finding->server, servers);
		print_cell(STYLE_PLAIN, finding->subject, subjects);
		print_cell(
			verdicts[finding->verdict].style, verdicts[finding->verdict].word, words);
		fputs(finding->found, stdout);
		if (finding->advice != NULL)
			printf(" -> %s", finding->advice);
		putchar('\n');
	}
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *finding_object(const struct lock_finding *finding)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s?}", "server", finding->server, "check",
		finding->subject, "verdict", verdicts[finding->verdict].word, "found",
		finding->found, "advice", finding->advice);
}

static const char *overall(enum exit_code code)
{
	if (code == EXIT_DONE)
		return verdicts[LOCK_FIT].word;
	return verdicts[code == EXIT_BUSY ? LOCK_DOUBTFUL : LOCK_UNFIT].word;
}

bool findings_json(
	const struct findings *findings, const struct server *server, struct failure *failure)
{
	enum exit_code code = findings_code(findings);
	json_t *list = json_array();
	json_t *object;
	char *name = copy_clean(server->text);
	bool done = list != NULL && name != NULL;

	for (size_t i = 0; done && i < findings->count; i++)
		done = json_array_append_new(list, finding_object(&findings->list[i])) == 0;
	object = json_pack("{s:s, s:s, s:i, s:o}", "server", name, "verdict", overall(code), "exit",
		(int)code, "findings", list);
	done = done && object != NULL && json_dumpf(object, stdout, JSON_COMPACT) == 0;
	json_decref(object);
	free(name);
	putchar('\n');
	return done || ferror(stdout) || failure_set(failure, EXIT_SYSTEM, "out of memory");
}
