/* Of a list of contenders: which holds the lock, and which waits for which. */
#include "lock/contenders.h"

#include <stdlib.h>

#include "tap.h"

#define OTHER_HOST "host=web9\tpid=77\tuser=ci\tlabel=make"
#define OUR_HOST   "host=web3\tboot=b\tpid=41\tstart=5\tpidns=9\tuser=ci\tlabel=make"

/* A service keeps more of each. */
struct member {
	struct contender is;
	char more[24];
};

static struct contenders list_of(const struct contender *from, size_t count)
{
	struct contenders all;

	if (!contenders_open(&all, sizeof(struct member), count))
		exit(1);
	for (size_t i = 0; i < count; i++) {
		struct contender *c = contenders_at(&all, all.count++);

		*c = from[i];
		c->id = c->id ? c->id : "";
	}
	contenders_sort(&all);
	return all;
}

/* --- What place makes of them ---------------------------------------------------------------- */

/* Contenders in their order: X is an exclusive one, S a shared one, P2 one of two permits; what it
 * says of itself behind it: h that it holds, w that it waits, o that it has released the lock, r so
 * that it goes. out: H holds, w waits, o and - as they say. Newcomers,
 * each with the number of its obstacle (-: none). */
static const struct {
	const char *what, *in, *out, *newcomers;
} orders[] = {
	{"nobody", "", "", "X- S- P1-"},
	{"the first holds, the others wait", "X X S", "Hww", "X2 S1 P9:2"},
	{"readers hold together, up to a writer", "S S X S", "HHww", "X3 S2 P9:3"},
	{"as many as there are permits", "P2 P2", "HH", "X1 P1:1 P2:1 P3-"},
	{"one that waits for a permit is not passed", "P2 P2 P2", "HHw", "X2 P3:2 P4:2 P9:2"},
	{"each by its own number of permits", "P1 P3 P2", "HHw", "P1:2 P9:2 S2"},
	{"not even by one that asks for more of them", "P3 P1 P3", "Hww", "X2 P9:2 S2"},
	{"nor does one pass that waits by its own word", "P3 P1w P3", "Hww", "P1:2 P9:2"},
	{"nor one of another mode", "P3 Sw P3w", "Hww", "P9:2 S2"},
	{"what is left of a holder has its permit", "P2o P2", "oH", "P2:1 P3-"},
	{"readers and permits wait for each other", "S P2 S", "Hww", "S1 P9:2 X2"},
	{"one that goes is in the way of none", "Xr X", "-H", "X1 S1 P1:1"},
	{"one that says that it waits is believed", "Xw X", "ww", "X1 S1 P1:1"},
	{"one that released the lock counts if it stays", "So S", "oH", "X1 S- P9:1"},
};

static struct contender read_one(const char **at)
{
	struct contender c = {0};

	c.mode = **at == 'X' ? LOCK_EXCLUSIVE : **at == 'S' ? LOCK_SHARED : LOCK_PERMITS;
	for (++*at; **at >= '0' && **at <= '9' && c.mode == LOCK_PERMITS; ++*at)
		c.permits = c.permits * 10 + **at - '0';
	c.state = **at == 'w'   ? CONTENDER_WAITING
		  : **at == 'h' ? CONTENDER_HOLDING
		  : **at == 'o' ? CONTENDER_OVER
		  : **at == 'r' ? CONTENDER_RELEASED
				: CONTENDER_BY_PLACE;
	*at += c.state != CONTENDER_BY_PLACE;
	return c;
}

static void check_newcomers(const struct contenders *all, const char *what, const char *newcomers)
{
	for (const char *at = newcomers; *at != '\0'; at++) {
		struct contender newcomer = read_one(&at);
		const struct contender *obstacle, *wanted = NULL;
		int rank;

		at += *at == ':';
		if (*at != '-')
			wanted = contenders_at(all, (size_t)(*at - '0'));
		obstacle = contenders_obstacle(all, NULL, newcomer.mode, newcomer.permits, &rank);
		ok(obstacle == wanted, "%s: in the way of a newcomer of %s", what, newcomers);
		at += at[1] == ' ';
	}
}

static void check_orders(void)
{
	for (size_t i = 0; i < COUNT(orders); i++) {
		struct contender in[9] = {{0}};
		size_t count = strlen(orders[i].out);
		const char *at = orders[i].in;
		char out[10] = "";
		struct contenders all;

		/* The service may have them in any order. */
		for (size_t j = count; j-- > 0; at += *at == ' ') {
			in[j] = read_one(&at);
			in[j].place = (int64_t)(count - j) * 3;
		}
		all = list_of(in, count);
		for (size_t j = 0; j < count; j++)
			out[j] = "?wHo--"[contenders_at(&all, j)->state];
		same(out, orders[i].out, orders[i].what);
		check_newcomers(&all, orders[i].what, orders[i].newcomers);
		contenders_free(&all);
	}
}

/* Those of them that want a permit, each with the number of its obstacle (-: none). */
static const struct {
	const char *what, *in, *obstacles;
} permits[] = {
	{"as many as there are", "P2h P2h P2w P2w", "- - 1 2"},
	{"one with few of them waits for all that hold", "P9h P9h P1w", "- - 1"},
	{"one with more waits for it, as long as it waits", "P9h P1w P9w", "- 0 1"},
	{"and no longer", "P1h P9w", "- -"},
	{"a holder that is behind counts, too", "P1w P3h", "1 0"},
	{"but not one that holds as we do", "P1 P3", "- -"},
	{"two of them", "P2w P3h P3h", "2 0 0"},
	{"but not if there are enough", "P3w P3h P3h", "- 0 0"},
};

static int read_obstacle(const char **at)
{
	int obstacle = **at == '-' ? -1 : **at - '0';

	*at += 1 + ((*at)[1] == ' ');
	return obstacle;
}

static void check_permits(void)
{
	for (size_t i = 0; i < COUNT(permits); i++) {
		struct contender in[9] = {{0}};
		const char *at = permits[i].in, *obstacles = permits[i].obstacles;
		size_t count = 0;
		struct contenders all;

		for (; *at != '\0'; at += *at == ' ', count++) {
			in[count] = read_one(&at);
			in[count].place = (int64_t)count;
		}
		all = list_of(in, count);
		for (size_t j = 0; j < count; j++) {
			const struct contender *own = contenders_at(&all, j), *obstacle;
			int rank, wanted = read_obstacle(&obstacles);

			obstacle = contenders_obstacle(&all, own, own->mode, own->permits, &rank);
			ok(obstacle == (wanted < 0 ? NULL : contenders_at(&all, (size_t)wanted)),
				"%s: in the way of contender %zu", permits[i].what, j);
		}
		contenders_free(&all);
	}
}

static void check_own_place(void)
{
	const struct contender in[] = {{.id = "a", .place = 1}, {.id = "b", .place = 2},
		{.id = "c", .place = 3, .mode = LOCK_SHARED}};
	struct contenders all = list_of(in, COUNT(in));
	const struct contender *own = contenders_find(&all, "c"), *obstacle;
	int rank;

	obstacle = contenders_obstacle(&all, own, own->mode, 0, &rank);
	ok(obstacle == contenders_find(&all, "b") && rank == 1,
		"what is behind us is in nobody's way; one waits");
	obstacle = contenders_obstacle(&all, contenders_find(&all, "a"), LOCK_EXCLUSIVE, 0, &rank);
	ok(!obstacle && rank == 0, "nothing is before the first");
	ok(!contenders_find(&all, "d"), "one that nobody is");
	contenders_free(&all);
}

/* --- For people ------------------------------------------------------------------------------ */

static void check_view(void)
{
	const struct contender in[] = {{.place = 1,
					       .mode = LOCK_SHARED,
					       .owner = OUR_HOST,
					       .since_us = 1,
					       .ttl_ms = 500,
					       .fence = 7},
		{.place = 2, .mode = LOCK_SHARED, .foreign = true, .ttl_ms = -1},
		{.place = 3, .mode = LOCK_EXCLUSIVE, .foreign = true},
		{.place = 4, .mode = LOCK_EXCLUSIVE, .owner = OTHER_HOST}};
	struct contenders all = list_of(in, COUNT(in));
	struct lock_view_owner owners[2 * COUNT(in)];
	struct lock_view view = {.name = "x"};
	struct lock_answer answer = {0};

	contenders_view(&all, owners, &view);
	ok(view.holder_count == 1 && view.waiter_count == 2 && view.foreign,
		"one holder, another client, two waiters");
	ok(view.ttl_ms == 500 && view.fence == 7 && view.mode == LOCK_SHARED,
		"the lock as its holder has it");
	same(view.holders[0].owner.host, "web3", "the holder's host");
	ok(view.holders[0].ms > 0 && view.waiters[0].ms == 0,
		"for how long, unless nobody knows since when");
	ok(view.counters.acquisitions == 1 && view.counters.contentions == 2, "the counters");

	contender_describe(contenders_at(&all, 0), "another client", &answer);
	ok(answer.known && answer.fence == 7 && !answer.foreign && answer.holder.pid == 41,
		"a busy answer names it");
	answer = (struct lock_answer){0};
	contender_describe(contenders_at(&all, 1), "another client", &answer);
	same(answer.foreign, "another client", "or the client that it is no dlock of");
	ok(!answer.known, "of which nothing is known");
	contenders_free(&all);
}

int main(void)
{
	check_orders();
	check_permits();
	check_own_place();
	check_view();
	return tap_end();
}
