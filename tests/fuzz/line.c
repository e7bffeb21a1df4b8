#include "line.h"

#include "fuzz.h"

static const struct {
	enum lock_mode mode;
	int permits;
} modes[] = {{LOCK_EXCLUSIVE, 0}, {LOCK_SHARED, 0}, {LOCK_PERMITS, 1}, {LOCK_PERMITS, 3}};

/* The first that counts; NULL: there is none. */
static const struct contender *find_first(const struct contenders *all)
{
	for (size_t i = 0; i < all->count; i++) {
		const struct contender *c = contenders_at(all, i);

		if (c->state != CONTENDER_RELEASED)
			return c;
	}
	return NULL;
}

/* A newcomer waits for one that is there, and none is in the way of the first but holders of
 * permits behind it. */
static void try_obstacles(const struct contenders *all)
{
	const struct contender *first = find_first(all);
	int rank;

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		const struct contender *obstacle =
			contenders_obstacle(all, NULL, modes[i].mode, modes[i].permits, &rank);

		MUST(rank <= (int)all->count);
		MUST(!obstacle || first);
		MUST(obstacle || !first || modes[i].mode != LOCK_EXCLUSIVE);
		if (first)
			obstacle = contenders_obstacle(
				all, first, modes[i].mode, modes[i].permits, &rank);
		MUST(!first || !obstacle ||
			(modes[i].mode == LOCK_PERMITS && contender_may_hold(obstacle)));
	}
}

static void try_view(const struct contenders *all)
{
	struct lock_view_owner *owners = calloc(2 * all->count + 1, sizeof(*owners));
	struct lock_view view = {.name = "x"};

	MUST(owners != NULL);
	contenders_view(all, owners, &view);
	MUST(view.holder_count + view.waiter_count <= all->count);
	for (size_t i = 0; i < view.holder_count; i++)
		MUST(view.holders[i].ms >= 0);
	free(owners);
}

void line_try(const struct contenders *all)
{
	int64_t last = INT64_MIN;

	for (size_t i = 0; i < all->count; i++) {
		const struct contender *c = contenders_at(all, i);
		struct lock_answer answer = {0};

		MUST(c->place >= last && c->state != CONTENDER_BY_PLACE && c->id != NULL);
		last = c->place;
		MUST(contenders_find(all, c->id) != NULL);
		contender_describe(c, "another client", &answer);
		MUST(answer.foreign == NULL || !answer.known);
	}
	try_obstacles(all);
	try_view(all);
}
