/*
 * A link of some length: passes on what comes to a socket, each way so much later.
 *
 *	delay MS LISTEN TARGET
 *
 * LISTEN and TARGET are the path of a unix socket, or a port of 127.0.0.1. Any number of bytes may
 *be under way at a time, as on a real link, and connecting costs one round trip: what the client
 *sends first leaves it only then, and the server hears of the connection half a round trip later.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define LINKS_MOST 256
#define PIECE_SIZE 16384

struct piece {
	struct piece *next;
	double due;
	size_t length, sent; /* length 0: the end */
	char bytes[PIECE_SIZE];
};

struct way {
	int from, to;
	struct piece *first, *last;
	bool read_all, sent_all;
};

struct link {
	bool used;
	double accepted;
	struct way out, back; /* out.to: -1 until the server hears of it */
};

static struct link links[LINKS_MOST];
static double each_way;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "delay: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int at_address(const char *where, int (*use)(int, const struct sockaddr *, socklen_t))
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	bool is_path = where[0] == '/';
	int on = 1, fd = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fail("socket");
	if (is_path) {
		snprintf(un.sun_path, sizeof(un.sun_path), "%s", where);
		if (use(fd, (struct sockaddr *)&un, sizeof(un)) < 0)
			fail(where);
		return fd;
	}
	in.sin_port = htons((uint16_t)atoi(where));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (use(fd, (struct sockaddr *)&in, sizeof(in)) < 0)
		fail(where);
	return fd;
}

static void begin(int fd)
{
	for (struct link *link = links; link < links + LINKS_MOST; link++) {
		if (link->used)
			continue;
		*link = (struct link){.used = true, .accepted = now_ms()};
		link->out = (struct way){.from = fd, .to = -1};
		link->back = (struct way){.from = -1, .to = fd};
		return;
	}
	errno = EMFILE;
	fail("too many connections");
}

static void end(struct link *link)
{
	struct way *ways[] = {&link->out, &link->back};

	for (int i = 0; i < 2; i++)
		while (ways[i]->first) {
			struct piece *next = ways[i]->first->next;

			free(ways[i]->first);
			ways[i]->first = next;
		}
	close(link->out.from);
	if (link->out.to >= 0)
		close(link->out.to);
	link->used = false;
}

/* What has come leaves at `leaves`, or now if that has passed. */
static void take(struct way *way, double leaves)
{
	struct piece *piece = calloc(1, sizeof(*piece));
	ssize_t count;

	if (!piece)
		fail("memory");
	count = recv(way->from, piece->bytes, PIECE_SIZE, MSG_DONTWAIT);
	if (count < 0 && errno == EAGAIN) {
		free(piece);
		return;
	}
	piece->length = count > 0 ? (size_t)count : 0;
	way->read_all = count <= 0;
	piece->due = (now_ms() > leaves ? now_ms() : leaves) + each_way;
	if (way->first)
		way->last->next = piece;
	else
		way->first = piece;
	way->last = piece;
}

/* False: the other side is gone. */
static bool pass_on(struct way *way)
{
	while (way->to >= 0 && way->first && way->first->due <= now_ms()) {
		struct piece *piece = way->first;
		ssize_t count = 0;

		if (piece->length == 0) {
			shutdown(way->to, SHUT_WR);
			way->sent_all = true;
		} else {
			count = send(way->to, piece->bytes + piece->sent,
				piece->length - piece->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
			if (count < 0 && errno == EAGAIN) {
				piece->due = now_ms() + 0.1;
				return true;
			}
			if (count < 0)
				return false;
			piece->sent += (size_t)count;
		}
		if (piece->sent < piece->length)
			continue;
		way->first = piece->next;
		free(piece);
	}
	return true;
}

/* One that was reset, or that has said all both ways, ends. */
static void go_on(struct link *link, const char *target)
{
	if (link->out.to < 0 && now_ms() >= link->accepted + 3 * each_way)
		link->out.to = link->back.from = at_address(target, connect);
	if (!pass_on(&link->out) || !pass_on(&link->back) ||
		(link->out.sent_all && link->back.sent_all))
		end(link);
}

static void sooner(double *first, double moment)
{
	if (moment < *first)
		*first = moment;
}

static double next_moment(void)
{
	double first = now_ms() + 1000;

	for (const struct link *link = links; link < links + LINKS_MOST; link++) {
		if (!link->used)
			continue;
		if (link->out.to < 0)
			sooner(&first, link->accepted + 3 * each_way);
		else if (link->out.first)
			sooner(&first, link->out.first->due);
		if (link->back.first)
			sooner(&first, link->back.first->due);
	}
	return first;
}

static void wait_for(struct pollfd *polled, nfds_t count, double moment)
{
	double left = moment - now_ms();
	struct timespec span = {0};

	if (left > 0) {
		span.tv_sec = (time_t)(left / 1e3);
		span.tv_nsec = (long)((left - (double)span.tv_sec * 1e3) * 1e6);
	}
	if (ppoll(polled, count, &span, NULL) < 0 && errno != EINTR)
		fail("ppoll");
}

int main(int argc, char **argv)
{
	struct pollfd polled[1 + 2 * LINKS_MOST];
	int listener;

	if (argc != 4) {
		fprintf(stderr, "usage: delay MS LISTEN TARGET\n");
		return 64;
	}
	each_way = strtod(argv[1], NULL);
	listener = at_address(argv[2], bind);
	if (listen(listener, 128) < 0)
		fail("listen");
	for (;;) {
		polled[0] = (struct pollfd){.fd = listener, .events = POLLIN};
		for (size_t i = 0; i < LINKS_MOST; i++) {
			const struct link *link = &links[i];
			bool out = link->used && !link->out.read_all;
			bool back = link->used && link->back.from >= 0 && !link->back.read_all;

			polled[1 + 2 * i] =
				(struct pollfd){.fd = out ? link->out.from : -1, .events = POLLIN};
			polled[2 + 2 * i] = (struct pollfd){
				.fd = back ? link->back.from : -1, .events = POLLIN};
		}
		wait_for(polled, 1 + 2 * LINKS_MOST, next_moment());
		for (size_t i = 0; i < LINKS_MOST; i++) {
			struct link *link = &links[i];

			if (polled[1 + 2 * i].revents)
				take(&link->out, link->accepted + 2 * each_way);
			if (polled[2 + 2 * i].revents)
				take(&link->back, 0);
			if (link->used)
				go_on(link, argv[3]);
		}
		if (polled[0].revents)
			begin(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	}
}
