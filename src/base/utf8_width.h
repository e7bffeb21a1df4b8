/* How wide characters are on a terminal, by utf8proc. Not wcwidth(3): that goes by a locale, which
 * may not be there. Pure. */
#pragma once

#include <stddef.h>

/* The columns of the well-formed character at text: 0 (it joins the one before), 1 or 2. */
int utf8_width(const char *text);

/* The columns of cleaned text (utf8_clean). */
size_t utf8_width_of_text(const char *text);

/* Cuts cleaned text in place if it is wider than that, so that it ends with a '…' and is no wider.
 * Of bytes it may need up to 3 more than text has, because of that '…', but never more than size.
 * Returns text. */
char *utf8_width_cut(char *text, size_t size, size_t columns);
