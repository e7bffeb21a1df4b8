/*
 * Times two commands as whole processes, in turn: A B A B ... Other work on the machine meets both
 * alike, so the ratio of a pair says more than either time.
 *
 *	pairs [-n PAIRS] [-w WARM-UP] A [ARG]... ::: B [ARG]...
 *
 * Prints one line: median ms of A, of B, the median of the ratios B/A pair by pair, its quartiles,
 * and the median of the peak memory of A's and of B's largest process in KiB (where the kernel maps
 * the libraries is random, and with it how much of them counts). Every run must exit with 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SEPARATOR ":::"

struct contestant {
	char **argv;
	double *ms;
	double *peaks; /* KiB */
};

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "pairs: %s: %s\n", what, strerror(errno));
	exit(1);
}

static _Noreturn void become(char **argv)
{
	int null = open("/dev/null", O_RDWR);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
		_exit(126);
	close(null);
	execvp(argv[0], argv);
	fprintf(stderr, "pairs: %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/*
 * One run, in ms; *peak in KiB. By fork, not vfork: exec hands the peak memory of the image that it
 * replaces on to the new one (exec_mmap), and a fork of this small program has hardly any.
 */
static double run_once(const struct contestant *who, double *peak)
{
	struct rusage usage;
	int status;
	double start = now_ms();
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid == 0)
		become(who->argv);
	while (wait4(pid, &status, 0, &usage) < 0)
		if (errno != EINTR)
			fail("wait4");

	double end = now_ms();

	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(stderr, "pairs: '%s' failed, wait status 0x%x\n", who->argv[0],
			(unsigned)status);
		exit(1);
	}
	*peak = (double)usage.ru_maxrss;
	return end - start;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts; `part` of the values lie below the one returned. */
static double quantile(double *values, size_t count, double part)
{
	qsort(values, count, sizeof(*values), compare);
	return values[(size_t)(part * (double)(count - 1) + 0.5)];
}

static double *new_values(size_t count)
{
	double *values = calloc(count, sizeof(*values));

	if (!values)
		fail("calloc");
	return values;
}

static void measure(struct contestant *a, struct contestant *b, size_t pairs, size_t warm_up)
{
	double *ratios = new_values(pairs);

	for (size_t i = 0; i < warm_up; i++) {
		run_once(a, &a->peaks[0]);
		run_once(b, &b->peaks[0]);
	}
	for (size_t i = 0; i < pairs; i++) {
		a->ms[i] = run_once(a, &a->peaks[i]);
		b->ms[i] = run_once(b, &b->peaks[i]);
		ratios[i] = b->ms[i] / a->ms[i];
	}
	printf("%.2f %.2f %.3f %.2f %.2f %.0f %.0f\n", quantile(a->ms, pairs, 0.5),
		quantile(b->ms, pairs, 0.5), quantile(ratios, pairs, 0.5),
		quantile(ratios, pairs, 0.25), quantile(ratios, pairs, 0.75),
		quantile(a->peaks, pairs, 0.5), quantile(b->peaks, pairs, 0.5));
	free(ratios);
}

static void prepare(struct contestant *who, size_t pairs)
{
	who->ms = new_values(pairs);
	who->peaks = new_values(pairs);
}

/* Splits argv at the separator. False when a side is empty. */
static bool split(char **argv, struct contestant *a, struct contestant *b)
{
	a->argv = argv;
	while (*argv && strcmp(*argv, SEPARATOR) != 0)
		argv++;
	if (!*argv || argv == a->argv)
		return false;
	*argv = NULL;
	b->argv = argv + 1;
	return b->argv[0] != NULL;
}

int main(int argc, char **argv)
{
	struct contestant a = {0}, b = {0};
	long pairs = 100, warm_up = 10;
	int option;

	while ((option = getopt(argc, argv, "+n:w:")) != -1) {
		if (option == 'n')
			pairs = atol(optarg);
		else if (option == 'w')
			warm_up = atol(optarg);
		else
			return 64;
	}
	if (pairs < 1 || warm_up < 0 || !split(argv + optind, &a, &b)) {
		fputs("usage: pairs [-n PAIRS] [-w WARM-UP] A [ARG]... ::: B [ARG]...\n", stderr);
		return 64;
	}
	prepare(&a, (size_t)pairs);
	prepare(&b, (size_t)pairs);
	measure(&a, &b, (size_t)pairs, (size_t)warm_up);
	free(a.ms);
	free(a.peaks);
	free(b.ms);
	free(b.peaks);
	return 0;
}
