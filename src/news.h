/* An eventfd, by which one thread or process wakes another that polls. */
#ifndef DLOCK_NEWS_H
#define DLOCK_NEWS_H

/* Close-on-exec and non-blocking; -1 with errno. */
int news_open(void);

/* Makes it readable. Any thread. */
void news_ring(int fd);

/* Takes what was rung; whatever the other thread wrote before it rang can be read now. */
void news_hear(int fd);

#endif
