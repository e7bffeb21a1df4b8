#include "net/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <nss.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/number.h"
#include "base/thread.h"
#include "base/wakeup.h"

/* For so long a name server is waited for if there are addresses that it named before. */
#define KNOWN_WAIT NANOS_PER_SEC

#define WAY_OUT                                                                                    \
	" (this dlock has libc linked in, and asks /etc/hosts and DNS only: give the address, or " \
	"use a dlock built without --enable-static)"

/* Shared by the asker and the thread; the last of them to let go of it frees it. */
struct lookup {
	struct lookup *next; /* the asker's, owned; of another host */
	atomic_int owners;
	atomic_bool done;        /* result and error are there */
	int done_fd;             /* owned; readable when done */
	bool over;               /* the asker has what it found */
	nanos began;             /* the asker's, as what follows */
	struct addresses known;  /* the addresses that were found last */
	struct addrinfo *result; /* owned */
	int error;               /* of getaddrinfo(3) */
	int system_error;        /* errno with EAI_SYSTEM */
	int port;
	char host[];
};

static void let_go(struct lookup *lookup)
{
	if (atomic_fetch_sub(&lookup->owners, 1) > 1)
		return;
	if (lookup->result)
		freeaddrinfo(lookup->result);
	if (lookup->done_fd >= 0)
		close(lookup->done_fd);
	free(lookup);
}

/* Modules of nsswitch.conf would bring a libc of their own with them. */
static bool has_all_linked_in(void)
{
#ifdef DLOCK_STATIC
	return getauxval(AT_BASE) == 0; /* there is no dynamic linker */
#else
	return false;
#endif
}

static void *look_up(void *argument)
{
	struct lookup *lookup = argument;
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	char port[NUMBER_SIZE];

	pthread_detach(pthread_self());
	if (has_all_linked_in())
		__nss_configure_lookup("hosts", "files dns");
	number_write(port, lookup->port);
	lookup->error = getaddrinfo(lookup->host, port, &hints, &lookup->result);
	lookup->system_error = errno;
	atomic_store(&lookup->done, true);
	wakeup_send(lookup->done_fd);
	let_go(lookup);
	return NULL;
}

static struct lookup *make(const char *host, int port)
{
	size_t size = strlen(host) + 1;
	struct lookup *lookup = calloc(1, sizeof(*lookup) + size);

	if (!lookup)
		return NULL;
	memcpy(lookup->host, host, size);
	lookup->port = port;
	lookup->done_fd = -1;
	return lookup;
}

static struct lookup *start(
	const char *host, int port, const struct lookup *before, struct failure *failure)
{
	struct lookup *lookup = make(host, port);
	pthread_t thread;
	int error = ENOMEM;

	if (lookup) {
		lookup->owners = 2;
		lookup->began = clock_now();
		if (before)
			lookup->known = before->known;
		lookup->done_fd = wakeup_open();
		error = lookup->done_fd < 0 ? errno : thread_start(&thread, NULL, look_up, lookup);
	}
	if (error == 0)
		return lookup;
	failure_set(failure, EXIT_SYSTEM, "cannot look up %s: %s", host, strerror(error));
	if (lookup && lookup->done_fd >= 0)
		close(lookup->done_fd);
	free(lookup);
	return NULL;
}

void resolve_abandon(struct lookup *lookup)
{
	while (lookup) {
		struct lookup *next = lookup->next;

		let_go(lookup);
		lookup = next;
	}
}

struct lookup *resolve_copy(const struct lookup *lookup)
{
	struct lookup *first = NULL, *copy;

	for (; lookup; lookup = lookup->next) {
		copy = lookup->known.count > 0 ? make(lookup->host, lookup->port) : NULL;
		if (!copy)
			continue;
		copy->owners = 1;
		copy->over = true;
		copy->known = lookup->known;
		copy->next = first;
		first = copy;
	}
	return first;
}

static void add(struct addresses *addresses, const void *address, size_t length)
{
	if (addresses->count == ADDRESSES_MOST || length > sizeof(struct sockaddr_storage))
		return;
	memcpy(&addresses->list[addresses->count].address, address, length);
	addresses->list[addresses->count++].length = (socklen_t)length;
}

void resolve_write(
	const struct addresses *addresses, size_t which, char text[static INET6_ADDRSTRLEN])
{
	const struct sockaddr_storage *address = &addresses->list[which].address;
	const void *number =
		address->ss_family == AF_INET6
			? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
			: (const void *)&((const struct sockaddr_in *)address)->sin_addr;

	inet_ntop(address->ss_family, number, text, INET6_ADDRSTRLEN);
}

/* Without asking anybody. False: it takes more. */
static bool resolve_here(const char *host, int port, struct addresses *addresses)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	bool local = strcasecmp(host, "localhost") == 0;

	if (inet_pton(AF_INET, local ? "127.0.0.1" : host, &v4.sin_addr) == 1)
		add(addresses, &v4, sizeof(v4));
	if (inet_pton(AF_INET6, local ? "::1" : host, &v6.sin6_addr) == 1)
		add(addresses, &v6, sizeof(v6));
	return addresses->count > 0;
}

static enum io_result take(
	struct lookup *lookup, struct addresses *addresses, struct failure *failure)
{
	if (lookup->error != 0) {
		/* A name server that does not answer now may do so later. */
		bool later = lookup->error == EAI_AGAIN;

		failure_set(failure, EXIT_UNREACHABLE, "cannot look up %s: %s%s", lookup->host,
			lookup->error == EAI_SYSTEM ? strerror(lookup->system_error)
						    : gai_strerror(lookup->error),
			lookup->error != EAI_SYSTEM && has_all_linked_in() ? WAY_OUT : "");
		return later ? IO_CLOSED : IO_FAILED;
	}
	for (const struct addrinfo *found = lookup->result; found; found = found->ai_next)
		add(addresses, found->ai_addr, found->ai_addrlen);
	return IO_OK;
}

/* The lookup of that host that is under way, or another: then an address that was known before
 * stays known. NULL with failure. */
static struct lookup *go_on(
	struct lookup **list, const char *host, int port, struct failure *failure)
{
	struct lookup *last, *next;

	while (*list && (strcmp((*list)->host, host) != 0 || (*list)->port != port))
		list = &(*list)->next;
	last = *list;
	if (last && !last->over)
		return last;
	next = start(host, port, last, failure);
	if (next && last) {
		next->next = last->next;
		let_go(last);
	}
	if (next)
		*list = next;
	return next;
}

/* A name that worked is not forgotten because the name server is away: its server may be there. */
static enum io_result use_known(
	const struct lookup *lookup, struct addresses *addresses, enum io_result otherwise)
{
	if (lookup->known.count == 0 || (!lookup->over && clock_now() < lookup->began + KNOWN_WAIT))
		return otherwise;
	*addresses = lookup->known;
	return IO_OK;
}

enum io_result resolve_host(struct lookup **lookup, const char *host, int port,
	struct deadline deadline, struct addresses *addresses, struct failure *failure)
{
	struct lookup *own;
	enum io_result result;

	addresses->count = 0;
	if (resolve_here(host, port, addresses))
		return IO_OK;
	own = go_on(lookup, host, port, failure);
	if (!own)
		return IO_FAILED;
	if (own->known.count > 0 && own->began + KNOWN_WAIT < deadline.until) {
		deadline.until = own->began + KNOWN_WAIT;
		deadline.least = 0;
	}
	switch (deadline_wait(&deadline, own->done_fd, POLLIN)) {
	case DEADLINE_OVER:
		failure_set(failure, EXIT_UNREACHABLE, "cannot look up %s: no answer", host);
		return use_known(own, addresses, IO_TIMEOUT);
	case DEADLINE_CANCELLED:
		return IO_CANCELLED;
	case DEADLINE_READY:
		break;
	}
	if (!atomic_load(&own->done))
		return IO_TIMEOUT;
	result = take(own, addresses, failure);
	own->over = true;
	/* After poll(2) alone no race detector sees that the thread's write has ended. */
	wakeup_clear(own->done_fd);
	close(own->done_fd);
	own->done_fd = -1;
	if (result == IO_OK)
		own->known = *addresses;
	return result == IO_OK ? IO_OK : use_known(own, addresses, result);
}
