/* Durations as people write them: "1m30s", "2.5", "250ms". Pure. */
#pragma once

#include <stdbool.h>

#include "base/clock.h"

#define DURATION_TEXT 32 /* enough for duration_format */

/* Reads decimal numbers with ms, s, m, h or d, joined at will; a single number without a unit is
 * seconds, as flock(1) reads it. False when empty, negative, malformed or beyond 100 years; *out
 * is then untouched. */
bool duration_parse(const char *text, nanos *out);

/* Writes what was probably meant by a text that is no duration into buf: "5m" for "5min", "1h30m"
 * for "1 hour 30 minutes". False: no guess. */
bool duration_guess(const char *text, char buf[static DURATION_TEXT]);

/* Writes a span for people, two units at most, into buf: "2m13s", "45s", "3d4h", "120ms" below a
 * second. Returns buf. */
const char *duration_format(nanos span, char buf[static DURATION_TEXT]);

/* The same of one that was given, not measured: all of it, "2.5s", "1h0.001s". Returns buf. */
const char *duration_format_given(nanos span, char buf[static DURATION_TEXT]);
