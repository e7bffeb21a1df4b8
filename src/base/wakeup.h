/* An eventfd, by which one thread or process wakes another that polls. */
#pragma once

/* Close-on-exec and non-blocking; -1 with errno. */
int wakeup_open(void);

/* Makes it readable. Any thread. */
void wakeup_send(int fd);

/* Takes what was rung; whatever the other thread wrote before it rang can be read now. */
void wakeup_clear(int fd);
