#include "use.h"

#include "fuzz.h"
#include "lock/lock_check.h"
#include "lock/lock_list.h"
#include "lock/lock_set.h"
#include "show.h"
#include "show/check_report.h"
#include "world.h"

#define ROUNDS 8

static const struct release_terms release_terms = {.success = true, .ran = true};

/* --- What must be so ------------------------------------------------------------------------ */

static void check_failure(const struct failure *failure)
{
	MUST(failure->code != EXIT_DONE && failure->text[0] != '\0');
	MUST(memchr(failure->text, '\0', sizeof(failure->text)) != NULL);
	show_text(failure->text);
}

static void check_result(enum lock_result result, const struct failure *failure)
{
	if (result == LOCK_FAILED)
		check_failure(failure);
}

static void check_answer(const struct lock_answer *answer)
{
	check_result(answer->result, &answer->failure);
	if (answer->result == LOCK_BUSY) {
		MUST(memchr(answer->holder_token, '\0', LOCK_TOKEN_SIZE) != NULL);
		show_holder(answer);
	}
	if (answer->result == LOCK_GRANTED)
		MUST(answer->asked_at >= 0 && answer->asked_at <= clock_now() &&
			answer->fence <= INT64_MAX);
}

/* --- One lock ------------------------------------------------------------------------------- */

struct lock *use_open(const struct server *server, const struct lock_request *request)
{
	struct failure failure = {0};
	struct lock *lock = lock_open(server, request, &failure);

	if (lock == NULL)
		check_failure(&failure);
	return lock;
}

static void settle(struct lock *lock, struct lock_answer *answer)
{
	lock_verify(lock, LOCK_VERIFY_GLANCE);
	check_answer(answer);
}

bool use_acquire(struct lock *lock, struct lock_answer *answer)
{
	struct failure failure = {0};

	for (int round = 0; round < ROUNDS; round++) {
		enum lock_result result;

		lock_take(lock, world_patience(), answer);
		check_answer(answer);
		if (answer->result == LOCK_LOST || answer->result == LOCK_PART)
			continue;
		if (answer->result != LOCK_BUSY)
			return answer->result == LOCK_GRANTED;
		result = lock_wait(lock, world_patience(), &failure);
		check_result(result, &failure);
		if (result != LOCK_GRANTED)
			return false;
	}
	return false;
}

void use_renew(struct lock *lock, struct lock_answer *answer)
{
	for (int round = 0; round < 3; round++) {
		lock_renew(lock, world_patience(), answer);
		check_answer(answer);
	}
}

void use_give(struct lock *lock, struct lock_answer *answer)
{
	lock_release(lock, &release_terms, world_patience(), answer);
	check_answer(answer);
	settle(lock, answer);
}

/* What COMMAND gets to know of a lock that is held. */
static void check_lock(struct lock *lock)
{
	MUST(lock_token(lock)[0] != '\0' && strlen(lock_token(lock)) < LOCK_TOKEN_SIZE);
	MUST(lock_watch_fd(lock) >= -1);
	(void)lock_fence(lock, "a");
}

void use_whole(struct lock *lock)
{
	static struct lock_answer answer;

	if (use_acquire(lock, &answer)) {
		check_lock(lock);
		settle(lock, &answer);
		use_renew(lock, &answer);
	}
	use_give(lock, &answer);
	lock_close(lock);
}

void use_lock(const struct server *server, const struct lock_request *request)
{
	struct lock *lock = use_open(server, request);

	if (lock != NULL)
		use_whole(lock);
}

static void hear_of(const struct lock_answer *held, void *context)
{
	check_answer(held);
	show_holder(held);
	++*(int *)context;
}

void use_force(struct lock *lock, struct lock_answer *answer)
{
	int told = 0;

	lock_force(lock, hear_of, &told, world_patience(), answer);
	check_answer(answer);
	MUST(told == 0 || answer->result == LOCK_RELEASED);
	settle(lock, answer);
}

/* --- All locks ------------------------------------------------------------------------------ */

static void check_party(const struct lock_view_owner *view)
{
	MUST(view->mode >= LOCK_EXCLUSIVE && view->mode <= LOCK_PERMITS && view->ttl_ms >= -1);
}

static void take(const struct lock_view *view, void *context)
{
	MUST(view->name != NULL && view->key != NULL && view->ttl_ms >= -1);
	MUST(view->fence <= INT64_MAX);
	for (size_t i = 0; i < view->holder_count; i++)
		check_party(&view->holders[i]);
	for (size_t i = 0; i < view->waiter_count; i++)
		check_party(&view->waiters[i]);
	lock_list_take(view, context);
}

void use_survey(const struct server *server, char *const *names, size_t name_count, bool idle_too)
{
	struct failure failure = {0};
	struct lock_list views = {0};

	struct lock_query query = {"lock:", names, name_count, idle_too, true, false};
	struct lock_lister *lister = lock_list_open(server, &query, &failure);

	if (lister && lock_list_look(lister, take, &views, world_patience(), &failure))
		show_views(&views);
	else
		check_failure(&failure);
	if (lister)
		lock_list_close(lister);
	lock_list_free(&views);
}

void use_look(const struct server *server, char *const *names, size_t name_count)
{
	struct failure failure = {0};
	struct lock_query query = {"lock:", names, name_count, false, false, true};
	struct lock_lister *lookout = lock_list_open(server, &query, &failure);

	if (!lookout) {
		check_failure(&failure); /* more servers than a quorum may have */
		return;
	}
	for (int round = 0; round < 2; round++) {
		struct lock_list views = {0};

		if (lock_list_look(lookout, take, &views, world_patience(), &failure))
			show_views(&views);
		else
			check_failure(&failure);
		lock_list_free(&views);
	}
	lock_list_close(lookout);
}

static void take_finding(const struct lock_finding *finding, void *context)
{
	MUST(finding->server != NULL && finding->subject != NULL && finding->found[0] != '\0');
	MUST((finding->verdict == LOCK_FIT) == (finding->code == EXIT_DONE));
	check_report_take(finding, context);
}

void use_examine(const struct server *server, const struct lock_request *request)
{
	struct failure failure = {0};
	struct check_report findings = {0};

	if (!lock_check_server(server, request, take_finding, &findings, &failure))
		check_failure(&failure);
	MUST(findings.count > 0);
	show_findings(&findings, server);
	check_report_free(&findings);
}
