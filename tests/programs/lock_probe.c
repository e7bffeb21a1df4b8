/*
 * Drives lock.h by hand, for tests: lock_probe URL NAME [OPTION]...
 *
 * -m MODE (x, s, pK)   -t TTL_MS   -q (queues)   -p PRIORITY   -P PREFIX   -l LABEL   -k TOKEN   -r
 * REPLICAS
 *
 * Reads commands from stdin, one a line, and answers each with one line; a number is its patience
 * in ms (1000 times TEST_PATIENCE): acquire [MS]; listen [MS] waits for its turn; wait [MS]
 * acquires, listens, acquires ... until granted; renew [MS], release [MS [KEEP]]; verify [MS], until
 * nothing is pending; token, sleep MS, fd, survey [PATTERN [MS]]
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/lock.h"
#include "lock/lock_list.h"
#include "lock/services.h"
#include "net/server.h"
#include "redis/redis_service.h"
#include "redis/single/single.h"

static const char *const results[] = {
	[LOCK_GRANTED] = "granted",
	[LOCK_SET_AGAIN] = "again",
	[LOCK_PART] = "part",
	[LOCK_BUSY] = "busy",
	[LOCK_AROUND] = "around",
	[LOCK_ALREADY] = "already",
	[LOCK_RELEASED] = "released",
	[LOCK_GONE] = "gone",
	[LOCK_LOST] = "lost",
	[LOCK_TIMEOUT] = "timeout",
	[LOCK_CANCELLED] = "cancelled",
	[LOCK_FAILED] = "failed",
	[LOCK_UNREPLICATED] = "unreplicated",
};

struct probe {
	struct server *server;
	struct lock_request request;
	struct owner self;
	struct lock *lock;
	struct lock_answer *answer;
	struct deadline deadline;
	int64_t argument;
	const char *word;
};

static void say_result(enum lock_result result, const struct failure *failure)
{
	printf("%s", results[result]);
	if (result == LOCK_FAILED)
		printf(" %d %s", (int)failure->code, failure->text);
	puts("");
}

/* What the answer does not say, of a lock on one server; else NULL. */
static const struct single *single_of(const struct lock *lock)
{
	return lock->service == &redis_service ? (const struct single *)lock : NULL;
}

static void say_answer(const struct probe *probe)
{
	const struct lock_answer *answer = probe->answer;
	const struct single *single = single_of(probe->lock);

	printf("%s", results[answer->result]);
	switch (answer->result) {
	case LOCK_GRANTED:
	case LOCK_SET_AGAIN:
		printf(" fence=%" PRIu64 " gen=%" PRIu64 " since=%" PRId64, answer->fence,
			single ? single->generation : 0, single ? single->since_us : 0);
		break;
	case LOCK_BUSY:
		printf(" rank=%d foreign=%d known=%d left=%" PRId64
		       " holder=%s:%d label=%s held=%" PRId64 " ticket=%" PRIu64,
			answer->rank, answer->foreign != NULL, answer->known, answer->free_in_ms,
			answer->holder.host, (int)answer->holder.pid, answer->holder.label,
			answer->held_ms, replies_own(answer)->ticket);
		break;
	case LOCK_FAILED:
	case LOCK_UNREPLICATED:
		printf(" %d %s", (int)answer->failure.code, answer->failure.text);
		break;
	default:
		break;
	}
	printf(" handed=%d\n", single ? single->handed.count : 0);
}

static enum lock_result acquire(struct probe *probe)
{
	lock_take(probe->lock, probe->deadline, probe->answer);
	return probe->answer->result;
}

static void do_acquire(struct probe *probe)
{
	acquire(probe);
	say_answer(probe);
}

static void do_listen(struct probe *probe)
{
	struct failure failure = {0};

	say_result(lock_wait(probe->lock, probe->deadline, &failure), &failure);
}

static void do_wait(struct probe *probe)
{
	struct failure failure = {0};
	enum lock_result result = LOCK_GRANTED;

	while (result == LOCK_GRANTED) {
		result = acquire(probe);
		if (result == LOCK_GRANTED)
			break;
		if (result == LOCK_BUSY)
			result = lock_wait(probe->lock, probe->deadline, &failure);
		else if (result == LOCK_FAILED && probe->answer->failure.code == EXIT_UNREACHABLE)
			result = poll(NULL, 0, 50) == 0 && clock_now() < probe->deadline.until
					 ? LOCK_GRANTED
					 : LOCK_TIMEOUT;
		probe->answer->result = result;
	}
	say_answer(probe);
}

static void do_renew(struct probe *probe)
{
	lock_renew(probe->lock, probe->deadline, probe->answer);
	say_answer(probe);
}

static void do_release(struct probe *probe)
{
	lock_release(probe->lock, &(struct release_terms){.keep_ms = probe->argument},
		probe->deadline, probe->answer);
	say_answer(probe);
}

static void do_verify(struct probe *probe)
{
	printf("pending=%d\n", lock_verify(probe->lock, probe->deadline.until - clock_now()));
}

static void do_token(struct probe *probe)
{
	puts(lock_token(probe->lock));
}

static void do_sleep(struct probe *probe)
{
	deadline_wait(&probe->deadline, -1, 0);
	puts("slept");
}

static void do_fd(struct probe *probe)
{
	struct pollfd fd = {.fd = lock_watch_fd(probe->lock), .events = POLLIN};

	printf("fd=%s readable=%d\n", fd.fd < 0 ? "none" : "some",
		fd.fd >= 0 && poll(&fd, 1, 0) > 0);
}

static void show(const struct lock_view *view, void *context)
{
	(void)context;
	printf("view name=%s key=%s mode=%s%s fence=%d ttl=%s holders=%zu waiters=%zu", view->name,
		view->key, view->foreign ? "foreign " : "",
		view->mode == LOCK_EXCLUSIVE ? "exclusive"
		: view->mode == LOCK_SHARED  ? "shared"
					     : "permits",
		view->fence > 0, view->ttl_ms < 0 ? "none" : "some", view->holder_count,
		view->waiter_count);
	for (size_t i = 0; i < view->holder_count; i++)
		printf(" H:%s", view->holders[i].owner.label);
	for (size_t i = 0; i < view->waiter_count; i++)
		printf(" W:%s/%d", view->waiters[i].owner.label, view->waiters[i].priority);
	puts("");
}

static void do_survey(struct probe *probe)
{
	char *pattern = (char *)probe->word;
	struct lock_query query = {
		probe->request.prefix, &pattern, pattern ? 1 : 0, .idle_too = false};
	struct lock_lister *lister;
	struct failure failure = {0};

	if (probe->argument > 0)
		probe->deadline.until = clock_now() + probe->argument * NANOS_PER_MS;
	lister = lock_list_open(probe->server, &query, &failure);
	if (lister && lock_list_look(lister, show, NULL, probe->deadline, &failure))
		puts("surveyed");
	else
		printf("failed %d %s\n", (int)failure.code, failure.text);
	if (lister)
		lock_list_close(lister);
}

static const struct {
	const char *word;
	void (*run)(struct probe *probe);
} commands[] = {
	{"acquire", do_acquire},
	{"listen", do_listen},
	{"wait", do_wait},
	{"renew", do_renew},
	{"release", do_release},
	{"verify", do_verify},
	{"token", do_token},
	{"sleep", do_sleep},
	{"fd", do_fd},
	{"survey", do_survey},
};

static bool run_line(struct probe *probe, char *line)
{
	const char *word = strtok(line, " \n");
	const char *first = strtok(NULL, " \n");
	const char *second = strtok(NULL, " \n");

	const char *slow = getenv("TEST_PATIENCE");
	nanos limit = 1000 * (slow && atoi(slow) > 0 ? atoi(slow) : 1);

	if (!word)
		return true;
	if (first && atoi(first) > 0)
		limit = atoi(first);
	probe->word = first;
	probe->deadline.until = clock_now() + limit * NANOS_PER_MS;
	probe->argument = second ? atoll(second) : 0;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(word, commands[i].word) != 0)
			continue;
		commands[i].run(probe);
		fflush(stdout);
		return true;
	}
	fprintf(stderr, "lock_probe: no such command: %s\n", word);
	return false;
}

static bool read_options(struct probe *probe, int argc, char **argv, const char **label)
{
	struct lock_request *request = &probe->request;
	int option;

	while ((option = getopt(argc, argv, "m:t:qp:P:l:k:r:")) != -1) {
		switch (option) {
		case 'm':
			request->mode = *optarg == 'p'   ? LOCK_PERMITS
					: *optarg == 's' ? LOCK_SHARED
							 : LOCK_EXCLUSIVE;
			request->permits = atoi(optarg + 1);
			break;
		case 't':
			request->ttl_ms = atoll(optarg);
			break;
		case 'q':
			request->queues = true;
			break;
		case 'r':
			request->replicas = atoi(optarg);
			request->replicas_ms = 100;
			break;
		case 'p':
			request->priority = atoi(optarg);
			break;
		case 'P':
			request->prefix = optarg;
			break;
		case 'l':
			*label = optarg;
			break;
		case 'k':
			request->token = optarg;
			break;
		default:
			return false;
		}
	}
	return true;
}

int main(int argc, char **argv)
{
	static struct lock_answer answer; /* large */
	struct probe probe = {.deadline = {.cancel_fd = -1}};
	struct failure failure = {0};
	const char *label = "probe";
	char *line = NULL;
	size_t size = 0;
	bool good = true;

	if (argc < 3)
		return 64;
	probe.server = services_read_url(argv[1], &failure);
	probe.request = (struct lock_request){.name = argv[2], .prefix = "lock:", .ttl_ms = 60000};
	if (!probe.server || !read_options(&probe, argc - 2, argv + 2, &label)) {
		fprintf(stderr, "lock_probe: %s\n", failure.text);
		return 64;
	}
	probe.answer = &answer;
	probe.request.self = &probe.self;
	owner_self(&probe.self, label);
	probe.lock = lock_open(probe.server, &probe.request, &failure);
	if (!probe.lock) {
		printf("failed %d %s\n", (int)failure.code, failure.text);
		server_free(probe.server);
		return 1;
	}
	while (good && getline(&line, &size, stdin) > 0 && strcmp(line, "end\n") != 0)
		good = run_line(&probe, line);
	free(line);
	lock_close(probe.lock);
	server_free(probe.server);
	return good ? 0 : 64;
}
