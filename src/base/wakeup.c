#include "base/wakeup.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int wakeup_open(void)
{
	return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void wakeup_send(int fd)
{
	(void)!write(fd, &(uint64_t){1}, sizeof(uint64_t));
}

void wakeup_clear(int fd)
{
	(void)!read(fd, &(uint64_t){0}, sizeof(uint64_t));
}
