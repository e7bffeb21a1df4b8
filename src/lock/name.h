/* The rules for the NAME of a lock, and for the PREFIX of its keys. Pure. */
#pragma once

#include <stdbool.h>

#define NAME_MAX_BYTES 512
#define NAME_ID_BYTES  256

/* NULL when the name is fine, else the reason as half a sentence ("is empty", "is not UTF-8",
 * "holds a control character", "is longer than 512 bytes", "looks like a server's URL"): 1 to 512
 * bytes of well-formed UTF-8 (RFC 3629), no control character (C0, DEL, C1), and no "://". Static
 * text. For users: services_name_fault. */
const char *name_fault(const char *name);

/* NULL when the ID of --once is fine: 1 to 256 bytes of UTF-8, no control character. Else as above.
 */
const char *name_id_fault(const char *id);

/* NULL when the prefix is fine: at most 128 bytes, UTF-8, no control character, and '{' only as
 * part of a whole, non-empty hash tag (else Redis would keep a lock's keys in several slots). */
const char *name_prefix_fault(const char *prefix);

/* Whether what status is asked for is a GLOB rather than a NAME. */
bool name_is_glob(const char *text);
