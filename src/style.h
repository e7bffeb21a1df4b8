/* Colour, where stdout is a terminal that has it and nobody objects (NO_COLOR, no-color.org). */
#ifndef DLOCK_STYLE_H
#define DLOCK_STYLE_H

enum style { STYLE_PLAIN, STYLE_HEADING, STYLE_GOOD, STYLE_DOUBT, STYLE_BAD };

/* What follows on stdout is shown so, up to style_end(). Nothing where there is no colour. */
void style_begin(enum style style);
void style_end(void);

#endif
