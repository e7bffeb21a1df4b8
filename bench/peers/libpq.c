/* NAME COMMAND...: the least that a client of libpq can do: connect, take an advisory lock, run COMMAND, give the
 * lock back. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int ask(PGconn *connection, const char *statement, const char *name)
{
	PGresult *result = PQexecParams(connection, statement, 1, NULL, &name, NULL, NULL, 0);
	int good = PQresultStatus(result) == PGRES_TUPLES_OK;

	PQclear(result);
	return good;
}

int main(int argc, char **argv)
{
	PGconn *connection = PQconnectdb("");
	int status = 1;
	pid_t child;

	if (argc < 3 || !ask(connection, "SELECT pg_advisory_lock(hashtext($1))", argv[1]))
		return 1;
	child = fork();
	if (child == 0) {
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	waitpid(child, &status, 0);
	ask(connection, "SELECT pg_advisory_unlock(hashtext($1))", argv[1]);
	PQfinish(connection);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
