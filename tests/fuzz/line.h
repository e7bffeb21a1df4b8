/* What must be so of any list of contenders, whatever a service has said of them. */
#ifndef LINE_H
#define LINE_H

#include "lock/contenders.h"

void line_try(const struct contenders *all);

#endif
