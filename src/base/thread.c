#include "base/thread.h"

#include <signal.h>

int thread_start(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(thread, attributes, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}
