/*
 * A COMMAND that notices what a lock failed to prevent. The kernel is the judge: each holds an flock(2) on one local
 * file for as long as it lives.
 *
 *	judge FOLDER		(BENCH_RUN: the name of this run)
 *
 * Appends to FOLDER/log "begin RUN PID FENCE free|held" and, if it comes to its end, "end RUN", each behind the ms of
 * CLOCK_MONOTONIC. `held` is an overlap: another one still lives. Takes 20 ms; or as many as FOLDER/next says,
 * which becomes FOLDER/aim.RUN. The fence is dlock's, or the revision of etcdctl lock; else "-".
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* One write with O_APPEND, so that lines of many processes do not mix. */
static void note(int log, const char *what, const char *rest)
{
	char line[256];
	int length = snprintf(line, sizeof(line), "%" PRId64 " %s %s\n", now_ms(), what, rest);

	if (write(log, line, (size_t)length) != length)
		abort();
}

/* How long to take: what `next` says to the one that takes it away. */
static int64_t length_ms(const char *run)
{
	char aim[128];
	int64_t ms = 20;
	FILE *file;

	snprintf(aim, sizeof(aim), "aim.%s", run);
	if (rename("next", aim) < 0)
		return ms;
	file = fopen(aim, "r");
	if (!file || fscanf(file, "%" SCNd64, &ms) != 1)
		abort();
	fclose(file);
	return ms;
}

int main(int argc, char **argv)
{
	const char *run = getenv("BENCH_RUN"), *fence = getenv("DLOCK_FENCE");
	int64_t begin = now_ms(), ms;
	char rest[128];
	int log, held;
	bool free;

	if (argc != 2 || !run || chdir(argv[1]) < 0) {
		fputs("usage: BENCH_RUN=NAME judge FOLDER\n", stderr);
		return 64;
	}
	if (!fence)
		fence = getenv("ETCD_LOCK_REV");
	log = open("log", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	held = open("held", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	free = flock(held, LOCK_EX | LOCK_NB) == 0;
	snprintf(rest, sizeof(rest), "%s %d %s %s", run, (int)getpid(), fence ? fence : "-", free ? "free" : "held");
	note(log, "begin", rest);
	ms = length_ms(run);
	while (now_ms() - begin < ms) {
		usleep(5000);
		free = free || flock(held, LOCK_EX | LOCK_NB) == 0; /* the next one is to see this one as well */
	}
	note(log, "end", run);
	return 0;
}
