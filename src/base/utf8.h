/* Text that may come from anybody: UTF-8 (RFC 3629), and what a terminal must not get. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The length in bytes of the character at text, 1 to 4; 0 when it is not well-formed, or the end.
 */
size_t utf8_character(const char *text);

/* Whether the well-formed character at text is a control character: C0, DEL or C1. */
bool utf8_is_control(const char *text);

/* Whether a terminal must not get the well-formed character at text: it is a control character, or
 * one that shows other text in another order or on another line. */
bool utf8_is_unsafe(const char *text);

/* Makes text fit for a terminal, in place: each treacherous character, and each byte that is no
 * UTF-8, becomes a '?'. Returns text. */
char *utf8_clean(char *text);

/* How wide characters are on a terminal. Not wcwidth(3): that goes by a locale, which may not be
 * there. */

/* The columns of cleaned text (utf8_clean). */
size_t utf8_width_of_text(const char *text);

/* How many bytes of cleaned text fit into so many columns. *columns: what they leave of these. */
size_t utf8_width_fit(const char *text, size_t *columns);

/* Cuts cleaned text in place if it is wider than that, so that it ends with a '…' and is no wider.
 * Because of that '…' it may need up to 3 bytes more than text has, but never more than size.
 * Returns text. */
char *utf8_width_cut(char *text, size_t size, size_t columns);
