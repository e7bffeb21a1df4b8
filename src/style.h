/* Colour, where stdout is a terminal that has it and nobody objects (NO_COLOR, no-color.org). */
#ifndef DLOCK_STYLE_H
#define DLOCK_STYLE_H

enum style { STYLE_PLAIN, STYLE_HEADING, STYLE_GOOD, STYLE_DOUBT, STYLE_BAD };

/* Prints text to stdout, in that style where there are any. */
void style_print(enum style style, const char *text);

#endif
