/* What is printed to stdout, and whether it got there. */
#pragma once

#include <stdbool.h>

struct failure;

/* Ends what was printed: false with failure EXIT_SYSTEM when stdout did not take all of it. */
bool output_finish(struct failure *failure);
