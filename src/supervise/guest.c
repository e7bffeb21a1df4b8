#include "supervise/guest.h"

#include <bsd/string.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/failure.h"
#include "base/number.h"
#include "lock/lock_set.h"
#include "supervise/lease.h"
#include "supervise/task.h"

#define ANSWER_WITHIN (3 * NANOS_PER_SEC)
#define AGAIN_AFTER   (10 * NANOS_PER_MS)
#define BACKLOG       128
#define SEATS_MOST    512
#define NAME_SIZE     640
#define DIGEST_SIZE   SHA256_DIGEST_STRING_LENGTH

enum verdict { VERDICT_WELCOME, VERDICT_COVERED, VERDICT_OTHER, VERDICT_OTHER_MODE };

struct question {
	char proof[DIGEST_SIZE], place[DIGEST_SIZE], name[NAME_SIZE];
	enum lock_mode mode;
	bool told, by_ancestry;
	struct guest_id id;
};

struct reply {
	char proof[DIGEST_SIZE];
	enum verdict verdict;
	enum lock_mode mode;
	uint64_t fence;
};

/* ---- what both must agree on ---- */

/* Host and guest may be of different releases: so this goes up with a change of lease_lent,
 * question, reply, their enums, or what is hashed. Then the two do not find each other: the sockets
 * have other names. */
#define GUEST_FORMAT 1

_Static_assert(sizeof(struct lease_lent) == 16 &&
		       (sizeof(void *) != 8 ||
			       (sizeof(struct question) == 808 && sizeof(struct reply) == 88)),
	"a change of these is one of GUEST_FORMAT");

static void digest(
	const char *what, const char *text, const char *more, char digest[static DIGEST_SIZE])
{
	char all[2048];
	int length =
		snprintf(all, sizeof(all), "dlock %s %d %s %s", what, GUEST_FORMAT, text, more);

	if (length >= (int)sizeof(all))
		length = (int)sizeof(all) - 1;
	SHA256Data((const uint8_t *)all, (size_t)length, digest);
}

static socklen_t make_address(const char *token, struct sockaddr_un *address)
{
	char name[DIGEST_SIZE];
	int length;

	digest("address", token, "", name);
	*address = (struct sockaddr_un){.sun_family = AF_UNIX}; /* a NUL first: abstract */
	length = snprintf(
		address->sun_path + 1, sizeof(address->sun_path) - 1, "dlock/lease/%s", name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static struct guest_id id_of(const struct lock_request *request)
{
	const struct owner *self = request->self;

	return request->hold ? (struct guest_id){self->pid, self->start, self->space}
			     : (struct guest_id){0};
}

/* ---- the guest ---- */

/* The backlog may be full. */
static bool connect_within(int fd, const char *token, struct deadline *limit)
{
	struct sockaddr_un address;
	socklen_t length = make_address(token, &address);

	while (connect(fd, (struct sockaddr *)&address, length) != 0)
		if ((errno != EAGAIN && errno != EINTR) || deadline_is_over(limit) ||
			!deadline_pause(*limit, AGAIN_AFTER))
			return false;
	return true;
}

static void ask(int fd, const struct task *task, const struct guest_wish *wish)
{
	struct question question = {.mode = task->request->mode,
		.told = wish->told,
		.by_ancestry = wish->by_ancestry,
		.id = id_of(task->request)};

	digest("guest", wish->token, "", question.proof);
	digest("place", task->place, task->request->prefix, question.place);
	strlcpy(question.name, wish->name, sizeof(question.name));
	(void)!send(fd, &question, sizeof(question), MSG_NOSIGNAL);
}

/* *page: a descriptor; -1: none came. */
static bool read_reply(int fd, struct reply *reply, int *page)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control;
	struct iovec part = {reply, sizeof(*reply)};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	ssize_t length = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *sent = CMSG_FIRSTHDR(&message);

	*page = -1;
	if (length > 0 && sent && sent->cmsg_level == SOL_SOCKET && sent->cmsg_type == SCM_RIGHTS)
		memcpy(page, CMSG_DATA(sent), sizeof(*page));
	return length == (ssize_t)sizeof(*reply);
}

static bool await_reply(int fd, const struct task *task, const struct guest_wish *wish,
	struct deadline *limit, struct reply *reply, int *page)
{
	char proof[DIGEST_SIZE];

	*page = -1;
	ask(fd, task, wish);
	if (deadline_wait(limit, fd, POLLIN) != DEADLINE_READY || !read_reply(fd, reply, page))
		return false;
	digest("host", wish->token, "", proof);
	return memcmp(reply->proof, proof, sizeof(proof)) == 0;
}

static bool watch_end(struct guest *guest, int fd)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};

	if (guest->count == 0)
		guest->ended_fd = epoll_create1(EPOLL_CLOEXEC);
	return guest->ended_fd >= 0 && epoll_ctl(guest->ended_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void record(struct guest *guest, const struct guest_wish *wish, const struct reply *reply)
{
	struct guest_lock *lock = &guest->locks[guest->count++];

	*lock = (struct guest_lock){.name = wish->name, .fence = reply->fence};
	strlcpy(lock->token, wish->token, sizeof(lock->token));
}

/* The lease goes by that page from now on. */
static bool settle(const struct task *task, int fd, int page)
{
	struct lease *lease = task->lease;
	struct stat status;
	const struct lease_lent *host;

	if (fstat(page, &status) != 0 || (size_t)status.st_size < sizeof(*host))
		return false;
	host = mmap(NULL, sizeof(*host), PROT_READ, MAP_SHARED, page, 0);
	if (host == MAP_FAILED || !watch_end(task->guest, fd))
		return false;
	lease->hosts[task->guest->count] = host;
	if (host->ttl != NANOS_NEVER)
		lease->terms.grace = number_least(lease->terms.grace, host->ttl / 3);
	return true;
}

static enum guest_end refuse_mode(const struct reply *reply, struct failure *failure)
{
	failure_set(failure, EXIT_DEADLOCK,
		"waiting would deadlock: the dlock around this one holds it %s; use the same mode "
		"inside",
		reply->mode == LOCK_SHARED ? "shared (-s)" : "by a permit (--permits)");
	return GUEST_REFUSED;
}

static enum guest_end follow(const struct task *task, const struct guest_wish *wish,
	const struct reply *reply, int fd, int page, struct failure *failure)
{
	switch (reply->verdict) {
	case VERDICT_COVERED:
		record(task->guest, wish, reply);
		task->lease->covered = true;
		return GUEST_COVERED;
	case VERDICT_OTHER_MODE:
		return refuse_mode(reply, failure);
	case VERDICT_WELCOME:
		if (task->guest->count < GUEST_MOST && page >= 0 && settle(task, fd, page)) {
			record(task->guest, wish, reply);
			return GUEST_JOINED;
		}
		failure_set(failure, EXIT_SYSTEM, "cannot be a guest of the dlock around this one");
		return GUEST_REFUSED;
	default:
		return GUEST_OTHER;
	}
}

enum guest_end guest_join(
	const struct task *task, const struct guest_wish *wish, struct failure *failure)
{
	struct deadline limit = deadline_alone(clock_now() + ANSWER_WITHIN);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), page = -1;
	enum guest_end end = GUEST_SILENT;
	struct reply reply;

	if (fd >= 0 && connect_within(fd, wish->token, &limit) &&
		await_reply(fd, task, wish, &limit, &reply, &page))
		end = follow(task, wish, &reply, fd, page, failure);
	if (end == GUEST_JOINED)
		return end;
	if (page >= 0)
		close(page);
	if (fd >= 0)
		close(fd);
	return end;
}

const struct guest_lock *guest_find(const struct guest *guest, const char *name)
{
	for (size_t i = 0; i < guest->count; i++)
		if (strcmp(guest->locks[i].name, name) == 0)
			return &guest->locks[i];
	return NULL;
}

uint64_t guest_fence(const struct task *task, const char *name)
{
	const struct guest_lock *around = guest_find(task->guest, name);
	uint64_t fence = around ? around->fence : task->lock ? lock_fence(task->lock, name) : 0;

	return fence != 0 ? fence : task->lease->answer.fence;
}

const char *guest_token(const struct task *task)
{
	return task->lock ? lock_token(task->lock) : task->guest->locks[0].token;
}

/* ---- the host ---- */

void guests_open(struct guests *guests, const char *token)
{
	struct sockaddr_un address;
	socklen_t length = make_address(token, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*guests = (struct guests){.listener = fd, .events = -1};
	if (fd < 0 ||
		(bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, BACKLOG) == 0))
		return;
	close(fd);
	guests->listener = -1;
}

static void drop(struct guests *guests, size_t i)
{
	guests->joined -= guests->seats[i].joined;
	close(guests->seats[i].fd);
	guests->seats[i] = guests->seats[--guests->count];
}

static bool add_seat(struct guests *guests, int fd)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = fd};
	struct guest_seat *seats;
	struct ucred other = {0};
	socklen_t size = sizeof(other);

	if (guests->events < 0)
		guests->events = epoll_create1(EPOLL_CLOEXEC);
	if (guests->count >= SEATS_MOST || guests->events < 0 ||
		epoll_ctl(guests->events, EPOLL_CTL_ADD, fd, &event) != 0)
		return false;
	seats = realloc(guests->seats, (guests->count + 1) * sizeof(*seats));
	if (!seats)
		return false;
	guests->seats = seats;
	(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size);
	seats[guests->count++] = (struct guest_seat){.fd = fd, .pid = other.pid};
	return true;
}

/* Out of descriptors nothing can be accepted, and the listener would stay readable. */
static void close_listener(struct guests *guests)
{
	if (guests->listener >= 0)
		close(guests->listener);
	guests->listener = -1;
}

static void accept_all(struct guests *guests)
{
	int fd;

	while (guests->listener >= 0) {
		fd = accept4(guests->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0 && !add_seat(guests, fd))
			close(fd);
		if (fd < 0 && (errno == EMFILE || errno == ENFILE))
			close_listener(guests);
		if (fd < 0)
			return;
	}
}

static bool is_same_id(const struct guest_id *one, const struct guest_id *other)
{
	return one->pid != 0 && one->space != 0 && one->pid == other->pid &&
	       one->start == other->start && one->space == other->space;
}

/* Whether it is ours, other than as a guest's. */
static bool holds(const struct task *task, const char *name)
{
	bool named = strcmp(name, task->name) == 0;

	for (size_t i = 0; i < task->also_count && !named; i++)
		named = strcmp(name, task->also[i]) == 0;
	return named && !guest_find(task->guest, name);
}

static bool covers(const struct guests *guests, const struct task *task, bool released,
	const struct guest_id *id)
{
	struct guest_id own = id_of(task->request);
	bool covered = is_same_id(id, &own) && !released;

	for (size_t i = 0; i < guests->count && !covered; i++)
		covered = guests->seats[i].joined && is_same_id(id, &guests->seats[i].id);
	return covered;
}

/* False: it does not know our token. */
static bool decide(const struct guests *guests, const struct task *task, bool released,
	const struct question *question, struct reply *reply)
{
	const char *token = lock_token(task->lock);
	char proof[DIGEST_SIZE], place[DIGEST_SIZE];

	digest("guest", token, "", proof);
	digest("place", task->place, task->request->prefix, place);
	*reply = (struct reply){.verdict = VERDICT_WELCOME, .mode = task->request->mode};
	digest("host", token, "", reply->proof);
	if (holds(task, question->name))
		reply->fence = guest_fence(task, question->name);
	if (reply->fence == 0 || (question->by_ancestry && released) ||
		(!question->told && memcmp(question->place, place, sizeof(place)) != 0))
		reply->verdict = VERDICT_OTHER;
	else if (reply->mode != LOCK_EXCLUSIVE && reply->mode != question->mode)
		reply->verdict = VERDICT_OTHER_MODE;
	else if (covers(guests, task, released, &question->id))
		reply->verdict = VERDICT_COVERED;
	return memcmp(question->proof, proof, sizeof(proof)) == 0;
}

/* The page once more, read-only, and with the lock that says that there is a guest: that lives as
 * long as a process has this descriptor. -1: it cannot be had. */
static int open_page(const struct lease *lease)
{
	struct flock taken = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	char path[40];
	int page;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", lease->fd);
	page = open(path, O_RDONLY | O_CLOEXEC);
	if (page >= 0 && fcntl(page, F_OFD_SETLK, &taken) == 0)
		return page;
	if (page >= 0)
		close(page);
	return -1;
}

static bool send_reply(int fd, const struct reply *reply, int page)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control = {0};
	struct iovec part = {(void *)reply, sizeof(*reply)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (page >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
			.cmsg_len = CMSG_LEN(sizeof(int))};
		memcpy(CMSG_DATA(&control.header), &page, sizeof(page));
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(*reply);
}

/* False: the connection is of no use. */
static bool answer(
	struct guests *guests, struct guest_seat *seat, const struct task *task, bool released)
{
	struct question question;
	struct reply reply;
	int page = -1;
	bool sent;

	if (seat->joined || recv(seat->fd, &question, sizeof(question), MSG_DONTWAIT) !=
				    (ssize_t)sizeof(question))
		return false;
	question.name[NAME_SIZE - 1] = '\0';
	if (!decide(guests, task, released, &question, &reply))
		return false;
	if (reply.verdict == VERDICT_WELCOME && (page = open_page(task->lease)) < 0)
		return false;
	sent = send_reply(seat->fd, &reply, page);
	if (page >= 0)
		close(page);
	seat->joined = sent && reply.verdict == VERDICT_WELCOME;
	seat->id = question.id;
	guests->joined += seat->joined;
	return seat->joined;
}

void guests_attend(struct guests *guests, const struct task *task, bool released)
{
	struct epoll_event events[16];
	int count;

	accept_all(guests);
	if (guests->events < 0)
		return;
	count = epoll_wait(guests->events, events, 16, 0);
	for (int i = 0; i < count; i++)
		for (size_t j = 0; j < guests->count; j++)
			if (guests->seats[j].fd == events[i].data.fd) {
				if (!answer(guests, &guests->seats[j], task, released))
					drop(guests, j);
				break;
			}
}

void guests_dismiss(struct guests *guests)
{
	close_listener(guests);
	for (size_t i = 0; i < guests->count; i++)
		shutdown(guests->seats[i].fd, SHUT_WR);
}

const char *guests_name(const struct guests *guests, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < guests->count && used < size; i++)
		if (guests->seats[i].joined && guests->seats[i].pid > 0)
			used += (size_t)snprintf(text + used, size - used, "%s%d",
				used > 0 ? " " : "", (int)guests->seats[i].pid);
	return text;
}

bool guests_have_page(const struct lease *lease)
{
	struct flock wanted = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return lease->fd >= 0 && fcntl(lease->fd, F_OFD_GETLK, &wanted) == 0 &&
	       wanted.l_type != F_UNLCK;
}
