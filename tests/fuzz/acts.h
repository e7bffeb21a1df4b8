/* What is done with a server, for fuzzers: all that dlock's commands and processes do. */
#ifndef ACTS_H
#define ACTS_H

#include <stdint.h>

struct server;

/* Does what the letter stands for (acts.c); any other stands for one of them. */
void act(uint8_t letter, const struct server *server);

#endif
