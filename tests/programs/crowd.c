/*
 * crowd ROUNDS COUNT LIFE PROGRAM [ARG]...: COUNT processes that live for LIFE ms, all at once; that ROUNDS
 * times, one after the other. Then becomes PROGRAM.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_LEAST 5

int main(int argc, char **argv)
{
	if (argc < ARGUMENTS_LEAST)
		return 125;
	int rounds = atoi(argv[1]), count = atoi(argv[2]);
	useconds_t life = (useconds_t)atoi(argv[3]) * 1000;

	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < count; i++) {
			pid_t pid = fork();

			if (pid < 0) {
				perror("crowd: fork");
				return 125;
			}
			if (pid == 0) {
				usleep(life);
				_exit(0);
			}
		}
		while (wait(NULL) > 0)
			continue;
	}
	execvp(argv[4], &argv[4]);
	perror("crowd: exec");
	return 125;
}
