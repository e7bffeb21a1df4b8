/* Colour, if stdout is a terminal that has it and the user does not object (NO_COLOR,
 * no-color.org). */
#pragma once

enum color { COLOR_PLAIN, COLOR_HEADING, COLOR_GOOD, COLOR_DOUBT, COLOR_BAD };

/* Prints text to stdout, in that style if there are any. */
void color_print(enum color color, const char *text);
