/*
 * A server that answers anything, to one client. The first byte says what is asked of it, the rest
 * is what it says on one connection after the other (world.h).
 */
#include "fuzz.h"
#include "lock/services.h"
#include "net/server.h"
#include "use.h"
#include "world.h"

enum way { NOT_QUEUED = 1, HELD = 2, SHARED = 4, GREETS = 8, WATCHED = 16, SURVEY = 128 };

static void ask_for_lock(const struct server *server, unsigned ways)
{
	struct lock_request request = {
		.name = "x",
		.prefix = "lock:",
		.mode = ways & SHARED ? LOCK_SHARED : LOCK_EXCLUSIVE,
		.ttl_ms = 10000,
		.cooldown_ms = ways & SHARED ? 5000 : 0,
		.once_for_ms = 1000,
		.queues = (ways & NOT_QUEUED) == 0,
		.watched = (ways & WATCHED) != 0,
		.held = ways & HELD ? "host:1:00 a\nhost:2:00 b" : NULL,
		.self = &(struct owner){.host = "here", .pid = 7, .label = "fuzz"},
	};

	use_lock(server, &request);
}

static void look(const struct server *server, unsigned ways)
{
	static char name[] = "x", glob[] = "a*";
	static char *const names[] = {name, glob};

	use_survey(server, names, ways % 3, ways & WATCHED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned ways = size > 0 ? data[0] : 0;
	struct failure failure;
	struct server *server = services_read_url(
		ways & GREETS ? "unix://user:word@/none?db=2" : "unix:///none", &failure);

	MUST(server != NULL);
	if (size > 0 && size < 16384) {
		world_begin(data + 1, size - 1, NULL);
		if (ways & SURVEY)
			look(server, ways);
		else
			ask_for_lock(server, ways);
		world_end();
	}
	server_free(server);
	return 0;
}
