/*
 * One line to the system log. Not syslog(3): that waits as long as a daemon that hangs does not
 * read (send(2) without MSG_DONTWAIT), and what is said here is said by processes that must stop
 * COMMAND in time.
 */
#pragma once

/* level: 0 an error, 1 a warning, 2 information, 3 debugging. Waits 50 ms at most; then the line is
 * lost. Keeps nothing open. Any thread. The form of the line is that of syslog(3): RFC 3164, 4.1,
 * without the host's name. */
void system_log_send(int level, const char *text);
