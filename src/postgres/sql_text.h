/* What sql/embed.sh makes of sql/, a statement each. */
#pragma once

extern const char sql_settings[]; /* of a session; gives the backend's pid */
extern const char sql_install[];  /* schema and functions */
extern const char sql_take[];     /* a lock that nobody has */
extern const char sql_release[];  /* the same, if nobody came since */
