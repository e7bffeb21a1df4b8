#include "lock/run.h"

#include <stdlib.h>

#include "base/number.h"

#define US_MOST (INT64_C(1) << 53) /* the year 2255; Lua's numbers are exact up to there */

void run_date(struct lock_run *run, int64_t now_us)
{
	int64_t ended_us = run->ended_us == 0 ? run->began_us : run->ended_us;

	run->began_ms = now_us > run->began_us ? (now_us - run->began_us) / 1000 : 0;
	run->ago_ms = now_us > ended_us ? (now_us - ended_us) / 1000 : 0;
}

bool run_read(struct lock_run *run, const char *text, int64_t now_us)
{
	int64_t numbers[3] = {0};
	char *rest;

	for (size_t i = 0; i < 3 && text; i++) {
		numbers[i] = number_within(strtoll(text, &rest, 10), 0, US_MOST);
		text = *rest == '|' ? rest + 1 : NULL;
	}
	*run = (struct lock_run){.began_us = numbers[0]};
	if (text) {
		run->ended_us = numbers[1];
		run->exit = (int)number_within(numbers[2], 0, 255);
		owner_read(&run->owner, text);
	}
	run_date(run, now_us);
	return text != NULL;
}
