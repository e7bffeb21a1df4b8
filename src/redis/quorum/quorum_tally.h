/* What follows from the answers together. */
#ifndef DLOCK_REDIS_QUORUM_QUORUM_TALLY_H
#define DLOCK_REDIS_QUORUM_QUORUM_TALLY_H

#include "redis/quorum/quorum.h"

size_t quorum_count(const struct quorum *quorum, enum vote_kind kind);
size_t quorum_count_word(const struct quorum *quorum, enum vote_word word);

/* Since when the lock is proved: what a majority has granted or extended since. */
nanos quorum_proved_at(const struct quorum *quorum);

/* Why there is no majority: too few can be reached, or too many refuse. */
void quorum_explain(const struct quorum *quorum, struct failure *failure);

/* Whether no majority can come together any more, because so many refuse for good. */
bool quorum_is_refused(const struct quorum *quorum);

/* What is wrong with the list of servers, or with the wait: no other attempt will mend that. NULL:
 * nothing that is known by now. */
struct failure *quorum_find_refusal(const struct quorum *quorum);

/* The same where the answer came after the lock was granted: answer->flawed, once. */
void quorum_report_flaw(const struct quorum *quorum, struct lock_answer *answer);

/* How an attempt that got no majority is to be taken: LOCK_BUSY with the holder, LOCK_FAILED, or
 * LOCK_LOST: nobody has it, another attempt may. */
enum lock_result quorum_verdict(struct quorum *quorum, struct lock_answer *answer);

/* LOCK_BUSY, as far as the votes tell by whom. */
void quorum_busy(struct quorum *quorum, struct lock_answer *answer);

#endif
