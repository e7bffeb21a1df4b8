/*
 * Starts many contenders at one moment, each of which runs a command again and again.
 *
 *	contend [-c CONTENDERS] [-r ROUNDS] COMMAND [ARG]...
 *
 * Prints the ms from the start to the end of the last. Every run must exit with 0.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "contend: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void run_once(char **argv)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		execvp(argv[0], argv);
		fail(argv[0]);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			fail("waitpid");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(stderr, "contend: '%s' failed, wait status 0x%x\n", argv[0],
			(unsigned)status);
		_exit(1);
	}
}

/* A contender waits for the end of the pipe that the parent holds, so that all start together. */
static _Noreturn void contend(int start, char **argv, int rounds)
{
	char byte;

	while (read(start, &byte, 1) < 0)
		if (errno != EINTR)
			fail("read");
	close(start);
	for (int i = 0; i < rounds; i++)
		run_once(argv);
	_exit(0);
}

static void start_all(int gate[2], int contenders, int rounds, char **argv)
{
	for (int i = 0; i < contenders; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (pid == 0) {
			close(gate[1]);
			contend(gate[0], argv, rounds);
		}
	}
	close(gate[0]);
}

static int wait_for_all(int contenders)
{
	int failed = 0, status;

	while (contenders > 0) {
		if (wait(&status) > 0) {
			contenders--;
			failed |= status != 0;
		} else if (errno != EINTR) {
			fail("wait");
		}
	}
	return failed;
}

int main(int argc, char **argv)
{
	int contenders = 20, rounds = 10, option, gate[2], failed;
	double start;

	while ((option = getopt(argc, argv, "+c:r:")) != -1) {
		if (option == 'c')
			contenders = atoi(optarg);
		else if (option == 'r')
			rounds = atoi(optarg);
		else
			return 64;
	}
	if (contenders < 1 || rounds < 1 || optind == argc) {
		fputs("usage: contend [-c CONTENDERS] [-r ROUNDS] COMMAND [ARG]...\n", stderr);
		return 64;
	}
	if (pipe(gate) < 0)
		fail("pipe");
	start_all(gate, contenders, rounds, argv + optind);
	usleep(50000); /* until every contender is there */
	start = now_ms();
	close(gate[1]);
	failed = wait_for_all(contenders);
	printf("%.1f\n", now_ms() - start);
	return failed;
}
