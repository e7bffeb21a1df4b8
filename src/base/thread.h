/* Threads beside the main one. */
#pragma once

#include <pthread.h>

/* As pthread_create(3), but the thread gets no signals: they are the main thread's. */
int thread_start(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
