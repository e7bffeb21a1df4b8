/* What a server says of itself: INFO, and the settings that CONFIG GET gives away. */
#ifndef DLOCK_REDIS_FACTS_H
#define DLOCK_REDIS_FACTS_H

#include <stdint.h>

#define FACT_SIZE 128
#define FACT_MOST (INT64_C(1) << 53) /* of a number: seconds, bytes */

struct reply;

/* Begins as zeros. */
struct facts {
	char *text; /* owned; lines "key:value"; a setting's key is "config." and its name */
};

/* Adds what INFO answered, or CONFIG GET with one setting. Other replies add nothing. */
void facts_add_info(struct facts *facts, const struct reply *reply);
void facts_add_setting(struct facts *facts, const struct reply *reply);
void facts_free(struct facts *facts);

/* The value, cut to fit and made printable. NULL: not known. */
const char *facts_find(const struct facts *facts, const char *key, char value[static FACT_SIZE]);

/* The same as a number, up to FACT_MOST; -1: not known, or none. */
int64_t facts_number(const struct facts *facts, const char *key);

#endif
