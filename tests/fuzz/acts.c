#include "acts.h"

#include "fuzz.h"
#include "lock/lock_set.h"
#include "net/server.h"
#include "redis/redis_url.h"
#include "use.h"
#include "world.h"

#define TOKEN "here:7:00112233445566778899aabbccddeeff"

static const struct lock_request plain = {
	.name = "x",
	.prefix = "lock:",
	.ttl_ms = 10000,
	.queues = true,
	.self = &(struct owner){.host = "here", .pid = 7, .label = "fuzz"},
};

/* --- One lock ------------------------------------------------------------------------------- */

static void run(const struct server *server)
{
	use_lock(server, &plain);
}

/* Under others that it holds, so that waiting could go round in a circle. */
static void run_under(const struct server *server)
{
	struct lock_request request = plain;

	request.priority = 3;
	request.held = "here:7:00 b\nhere:8:00 c\nnonsense\n";
	request.watched = true;
	use_lock(server, &request);
}

static void run_shared(const struct server *server)
{
	struct lock_request request = plain;

	request.mode = LOCK_SHARED;
	request.name = "a{tag}b";
	request.held = "here:7:00 b";
	use_lock(server, &request);
}

static void run_permitted(const struct server *server)
{
	struct lock_request request = plain;

	request.mode = LOCK_PERMITS;
	request.permits = 3;
	request.name = "}{x";
	request.once = "an id: 100%";
	use_lock(server, &request);
}

static void run_hurried(const struct server *server)
{
	struct lock_request request = plain;

	request.queues = false;
	request.settle_ms = request.at_least_ms = 20000;
	request.cooldown_ms = 5000;
	request.once = "id";
	request.once_for_ms = 1000;
	use_lock(server, &request);
}

static void run_replicated(const struct server *server)
{
	struct lock_request request = plain;

	request.replicas = 2;
	request.replicas_ms = 500;
	use_lock(server, &request);
}

/* The keeper was killed: what it had is released by its token. granted: what it had heard; NULL:
 * nothing. */
static void take_over(struct lock *lock, const struct lock_answer *granted)
{
	static struct lock_answer answer;

	if (lock == NULL)
		return;
	lock_take_over(lock, granted);
	use_give(lock, &answer);
	lock_close(lock);
}

static const struct lock_answer grant = {.result = LOCK_GRANTED, .fence = 7, .own = {7}};

/* For another process to read. */
static struct lock *open_paged(const struct server *server, const struct lock_request *request)
{
	static char page[LOCK_TOKEN_SIZE];
	struct lock_request paged = *request;

	paged.token_page = page;
	return use_open(server, &paged);
}

static void run_kept(const struct server *server)
{
	take_over(open_paged(server, &plain), &grant);
}

static void run_orphaned(const struct server *server)
{
	take_over(open_paged(server, &plain), NULL);
}

/* It asks again, not knowing what came of the first request. */
static void run_repeated(const struct server *server)
{
	static struct lock_answer answer;
	struct lock *lock = use_open(server, &plain);

	if (lock == NULL)
		return;
	lock_take(lock, world_patience(), &answer);
	use_whole(lock);
}

static void run_late(const struct server *server)
{
	struct lock_request request = plain;

	request.replicas = redis_form(server) == REDIS_QUORUM ? 0 : 2;
	take_over(open_paged(server, &request), NULL);
}

/* --- Several as one ------------------------------------------------------------------------- */

static const char *const also[] = {"b", "a", "x", "b"};

static struct lock *open_set(const struct server *server, const struct lock_request *request)
{
	struct failure failure = {0};
	struct lock *lock =
		lock_set_open(server, request, also, sizeof(also) / sizeof(also[0]), &failure);

	MUST(lock != NULL || (failure.code != EXIT_DONE && failure.text[0] != '\0'));
	return lock;
}

static void run_set(const struct server *server)
{
	struct lock *lock = open_set(server, &plain);

	if (lock != NULL)
		use_whole(lock);
}

static void run_set_hurried(const struct server *server)
{
	struct lock_request request = plain;
	struct lock *lock;

	request.queues = false;
	request.cooldown_ms = 5000;
	request.once = "id";
	request.once_for_ms = 1000;
	request.held = TOKEN " b\n";
	lock = open_set(server, &request);
	if (lock != NULL)
		use_whole(lock);
}

static struct lock *open_paged_set(const struct server *server)
{
	static char page[LOCK_TOKEN_SIZE];
	struct lock_request request = plain;

	request.token_page = page;
	return open_set(server, &request);
}

static void run_set_kept(const struct server *server)
{
	take_over(open_paged_set(server), &grant);
}

static void run_set_orphaned(const struct server *server)
{
	take_over(open_paged_set(server), NULL);
}

/* --- Without a process ---------------------------------------------------------------------- */

static void acquire(const struct server *server)
{
	static struct lock_answer answer;
	struct lock_request request = plain;
	struct lock *lock;

	request.detached = true;
	lock = use_open(server, &request);
	if (lock == NULL)
		return;
	if (!use_acquire(lock, &answer))
		use_give(lock, &answer);
	lock_close(lock);
}

static void by_token(
	const struct server *server, void (*step)(struct lock *lock, struct lock_answer *answer))
{
	static struct lock_answer answer;
	struct lock_request request = {.name = "x",
		.prefix = "lock:",
		.token = TOKEN,
		.self = plain.self,
		.detached = true};
	struct lock *lock = use_open(server, &request);

	if (lock == NULL)
		return;
	step(lock, &answer);
	lock_close(lock);
}

static void give_whole(struct lock *lock, struct lock_answer *answer)
{
	use_give(lock, answer);
}

static void renew(const struct server *server)
{
	by_token(server, use_renew);
}

static void release(const struct server *server)
{
	by_token(server, give_whole);
}

static void force(const struct server *server)
{
	by_token(server, use_force);
}

/* --- All locks ------------------------------------------------------------------------------ */

static char name[] = "x", glob[] = "a*";
static char *const names[] = {name, glob};

static void listing(const struct server *server)
{
	use_survey(server, NULL, 0, true);
}

static void survey_name(const struct server *server)
{
	use_survey(server, names, 1, false);
}

static void look(const struct server *server)
{
	use_look(server, names, 2);
}

static void examine(const struct server *server)
{
	use_examine(server, &plain);
}

static const struct {
	uint8_t letter;
	void (*act)(const struct server *server);
} acts[] = {
	{'r', run},
	{'u', run_under},
	{'S', run_shared},
	{'P', run_permitted},
	{'h', run_hurried},
	{'p', run_replicated},
	{'k', run_kept},
	{'t', run_late},
	{'o', run_orphaned},
	{'j', run_repeated},
	{'m', run_set},
	{'M', run_set_hurried},
	{'K', run_set_kept},
	{'O', run_set_orphaned},
	{'a', acquire},
	{'w', renew},
	{'g', release},
	{'f', force},
	{'s', listing},
	{'n', survey_name},
	{'l', look},
	{'e', examine},
};

#define ACTS (sizeof(acts) / sizeof(acts[0]))

void act(uint8_t letter, const struct server *server)
{
	size_t which = letter % ACTS;

	for (size_t i = 0; i < ACTS; i++)
		if (acts[i].letter == letter)
			which = i;
	acts[which].act(server);
}
