/* `dlock status --openmetrics`: for the textfile collector of node_exporter and whatever else reads
 * OpenMetrics 1.0. */
#pragma once

#include <stddef.h>

struct lock_view;

/* All families with a sample of each lock, to stdout. */
void openmetrics_print(const struct lock_view *views, size_t count);
