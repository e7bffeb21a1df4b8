/* Printing, and whether the text got there. */
#pragma once

#include <stdbool.h>

struct failure;

/* Ends what was printed: false with failure EXIT_SYSTEM when stdout did not take all of it. */
bool output_finish(struct failure *failure);

/* Whether a descriptor is open for writing; false with errno. A standard stream is looked at before
 * the closed ones are filled (caller_state_take). */
bool output_can_go_to(int fd);
