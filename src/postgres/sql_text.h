/* What sql/embed.sh makes of sql/: the text that makes schema and functions, as one statement. */
#pragma once

extern const char sql_install[];
