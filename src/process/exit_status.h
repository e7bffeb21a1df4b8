/* How dlock itself ends after COMMAND. */
#pragma once

/* COMMAND's own status, as from waitpid(2), as an exit code: 128+N when signal N ended it. Pure. */
int exit_status_code(int status);

/* Ends dlock as the signal would have ended it, so that a shell's loop around it ends too; without
 * a core file, which could hold a password. */
void exit_status_by_signal(int sig);
