/*
 * Runs a fuzzer without libFuzzer: over the files of its corpus, and over as many changed ones. The
 * same ones each time, so that a test is either good or not.
 *   FUZZER RUNS FILE...
 */
#include "fuzz.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#define MOST 4096

struct input {
	uint8_t bytes[MOST];
	size_t size;
};

static uint32_t state = 1;
static struct input current;
static char failed[] = "failed-input";

/* xorshift: G. Marsaglia, Xorshift RNGs, 2003. */
static uint32_t any(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state % below;
}

/* What was being run is left in the working directory, as libFuzzer does. */
static void leave_input(int signal)
{
	int file = open(failed, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	(void)!write(file, current.bytes, current.size);
	_exit(128 + signal);
}

static void read_input(struct input *input, const char *path)
{
	FILE *file = fopen(path, "r");

	MUST(file != NULL);
	input->size = fread(input->bytes, 1, MOST, file);
	fclose(file);
}

static void change_byte(struct input *input)
{
	static const char interesting[] = "\r\n\t :/@?&=#%*$+-[]{}'\"\\.,;|09\x7f\xfe\xff";

	if (input->size > 0)
		input->bytes[any((uint32_t)input->size)] =
			any(2) == 0 ? (uint8_t)any(256)
				    : (uint8_t)interesting[any(sizeof(interesting))];
}

static void cut(struct input *input)
{
	if (input->size > 0)
		input->size = any((uint32_t)input->size);
}

/* A piece of it moves, or comes twice. */
static void copy_piece(struct input *input)
{
	size_t length, from, to;

	if (input->size == 0)
		return;
	length = 1 + any(input->size > 32 ? 32 : (uint32_t)input->size);
	if (length > input->size)
		length = input->size;
	from = any((uint32_t)(input->size - length + 1));
	to = any((uint32_t)input->size + 1);
	if (to + length > MOST)
		return;
	memmove(input->bytes + to, input->bytes + from, length);
	if (to + length > input->size)
		input->size = to + length;
}

/* A number becomes one that programs stumble over. */
static void change_number(struct input *input)
{
	static const char *const numbers[] = {"9223372036854775807", "-9223372036854775808",
		"4294967296", "-1", "0", "2147483647", "1e9", "65536"};
	const char *number = numbers[any(sizeof(numbers) / sizeof(numbers[0]))];
	size_t length = strlen(number), from = input->size == 0 ? 0 : any((uint32_t)input->size),
	       to;

	while (from < input->size && (input->bytes[from] < '0' || input->bytes[from] > '9'))
		from++;
	for (to = from; to < input->size && input->bytes[to] >= '0' && input->bytes[to] <= '9';)
		to++;
	if (input->size - (to - from) + length > MOST)
		return;
	memmove(input->bytes + from + length, input->bytes + to, input->size - to);
	memcpy(input->bytes + from, number, length);
	input->size = input->size - (to - from) + length;
}

static void change(struct input *input)
{
	static void (*const ways[])(struct input * input) = {
		change_byte, change_byte, change_byte, cut, copy_piece, change_number};

	for (uint32_t times = 1 + any(4); times > 0; times--)
		ways[any(sizeof(ways) / sizeof(ways[0]))](input);
}

static void run(const struct input *input)
{
	/* In memory of its own size, so that a sanitizer sees a read beyond it. */
	uint8_t *bytes = malloc(input->size + 1);

	MUST(bytes != NULL);
	memcpy(bytes, input->bytes, input->size);
	LLVMFuzzerTestOneInput(bytes, input->size);
	free(bytes);
}

int main(int argc, char **argv)
{
	long runs = argc > 2 ? strtol(argv[1], NULL, 10) : 0;

	signal(SIGABRT, leave_input);
	signal(SIGSEGV, leave_input);
	signal(SIGFPE, leave_input);
	signal(SIGALRM, leave_input);
	for (int i = 2; i < argc; i++) {
		read_input(&current, argv[i]);
		run(&current);
	}
	for (long i = 0; i < runs; i++) {
		read_input(&current, argv[2 + any((uint32_t)(argc - 2))]);
		change(&current);
		alarm(20);
		run(&current);
	}
	alarm(0);
	fprintf(stderr, "%d files, %ld changed\n", argc > 2 ? argc - 2 : 0, runs);
	return argc > 2 ? 0 : 64;
}
