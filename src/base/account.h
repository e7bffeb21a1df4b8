/* A user, as /etc/passwd has it. */
#pragma once

#include <pwd.h>

/* Valid to the next call; NULL: it is not listed there. getpwuid(3) would load the modules of
 * nsswitch.conf, which takes a millisecond, and may ask a directory server. One thread. */
const struct passwd *account_find(uid_t uid);
