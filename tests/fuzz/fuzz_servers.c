/*
 * Servers that answer anything, by every way that leads to them: one alone, the nodes of a Cluster,
 * Sentinels and the master that they name, a quorum. The first byte says which, the second what is
 * done; the rest is what they say on one connection after the other (world.h), to whomever that
 * leads.
 */
#include "fuzz.h"
#include "server.h"
#include "use.h"
#include "world.h"

#define TOKEN "here:7:00112233445566778899aabbccddeeff"

static const struct {
	uint8_t letter;
	const char *url;
} places[] = {
	{'u', "unix:///none"},
	{'c', "redis://node:7001"}, /* whether it is a Cluster is for the server to say */
	{'C', "redis://user:word@[::1]:7001"},
	{'s', "redis+sentinel://h1,h2:26380/service"},
	{'S', "redis+sentinel://user:word@h1,h2,h3/service/2"},
	{'q', "redis+quorum://h1,h2,h3"},
	{'Q', "redis+quorum://user:word@h1,[::2],h3:7000,h4,h5/2"},
};

static const struct lock_request plain = {
	.name = "x",
	.prefix = "lock:",
	.ttl_ms = 10000,
	.queues = true,
	.self = {.host = "here", .pid = 7, .label = "fuzz"},
};

/* --- What is done --------------------------------------------------------------------------- */

static void run(const struct server *server)
{
	use_lock(server, &plain, false);
}

static void run_hurried(const struct server *server)
{
	struct lock_request request = plain;

	request.queues = false;
	request.settle_ms = request.at_least_ms = 20000;
	request.cooldown_ms = 5000;
	request.once = "id";
	request.once_for_ms = 1000;
	request.outer = TOKEN;
	use_lock(server, &request, false);
}

static void run_replicated(const struct server *server)
{
	struct lock_request request = plain;

	request.replicas = 2;
	request.replicas_ms = 500;
	use_lock(server, &request, false);
}

/* The keeper hears the answer: *answer is what it says. */
static void leave_to_keeper(const struct server *server, struct lock_answer *answer)
{
	struct lock *lock = use_open(server, &plain);
	struct failure failure = {0};

	if (lock != NULL && lock_ask(lock, world_patience(), &failure) == LOCK_GRANTED) {
		lock_learn(lock, answer);
		if (answer->result == LOCK_BUSY &&
			lock_listen(lock, world_patience(), &failure) == LOCK_GRANTED)
			use_acquire(lock, answer);
		lock_hear(lock, &(struct lock_parting){.success = true}, world_patience(), answer);
	}
	if (lock != NULL)
		lock_close(lock);
}

static void run_kept(const struct server *server)
{
	struct lock_answer answer = {.result = LOCK_GRANTED, .fence = 7, .generation = 7};

	leave_to_keeper(server, &answer);
}

static void run_denied(const struct server *server)
{
	struct lock_answer answer = {
		.result = LOCK_BUSY, .look_at = world_patience().until, .free_in_ms = 5000};

	leave_to_keeper(server, &answer);
}

/* The keeper was killed: what it had is given back on other connections. */
static void run_orphaned(const struct server *server)
{
	static struct lock_answer answer;
	struct lock *lock = use_open(server, &plain);
	struct failure failure = {0};

	if (lock != NULL && lock_ask(lock, world_patience(), &failure) == LOCK_GRANTED) {
		lock_reset(lock);
		use_give(lock, false, &answer);
	}
	if (lock != NULL)
		lock_close(lock);
}

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
		use_give(lock, false, &answer);
	lock_close(lock);
}

static void by_token(
	const struct server *server, void (*step)(struct lock *lock, struct lock_answer *answer))
{
	static struct lock_answer answer;
	struct lock_request request = {
		.name = "x", .prefix = "lock:", .token = TOKEN, .detached = true};
	struct lock *lock = use_open(server, &request);

	if (lock == NULL)
		return;
	step(lock, &answer);
	lock_close(lock);
}

static void give_whole(struct lock *lock, struct lock_answer *answer)
{
	use_give(lock, false, answer);
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

static char name[] = "x", glob[] = "a*";
static char *const names[] = {name, glob};

static void survey(const struct server *server)
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
	{'h', run_hurried},
	{'p', run_replicated},
	{'k', run_kept},
	{'d', run_denied},
	{'o', run_orphaned},
	{'a', acquire},
	{'w', renew},
	{'g', release},
	{'f', force},
	{'s', survey},
	{'n', survey_name},
	{'l', look},
	{'e', examine},
};

/* --- Which ---------------------------------------------------------------------------------- */

#define PLACES (sizeof(places) / sizeof(places[0]))
#define ACTS   (sizeof(acts) / sizeof(acts[0]))

static size_t find_place(uint8_t letter)
{
	for (size_t i = 0; i < PLACES; i++)
		if (places[i].letter == letter)
			return i;
	return letter % PLACES;
}

static size_t find_act(uint8_t letter)
{
	for (size_t i = 0; i < ACTS; i++)
		if (acts[i].letter == letter)
			return i;
	return letter % ACTS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct failure failure;
	struct server *server;

	if (size < 2 || size >= 65536)
		return 0;
	server = server_parse(places[find_place(data[0])].url, &failure);
	MUST(server != NULL);
	world_begin(data + 2, size - 2);
	acts[find_act(data[1])].act(server);
	world_end();
	server_free(server);
	return 0;
}
