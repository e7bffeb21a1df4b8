#include "news.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int news_open(void)
{
	return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void news_ring(int fd)
{
	(void)!write(fd, &(uint64_t){1}, sizeof(uint64_t));
}

void news_hear(int fd)
{
	(void)!read(fd, &(uint64_t){0}, sizeof(uint64_t));
}
