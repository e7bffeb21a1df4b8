/*
 * Where a lock service is, as its URL says it:
 * scheme://[user[:password]@]host[:port][,host...]/path ?parameter=value. The service decides the
 * meaning of the path, and which parameters there are; the functions here read what all have in
 * common. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct failure;
struct lock_scheme;
struct lock_service;

/* A host and a port, for those that keep them. */
#define PLACE_HOST 256
#define PLACE_TEXT (PLACE_HOST + 32)

struct place {
	char host[PLACE_HOST]; /* a name or an address without brackets; "": none */
	int port;
};

/* Reads HOST:PORT, an address of IPv6 without brackets too; the host may be empty. */
bool place_read(struct place *place, const char *text);

/* Writes HOST:PORT, with an address of IPv6 in brackets; what has no room is cut, as by
 * snprintf(3), and the length returned as by that. */
int place_write(char *text, size_t size, const char *host, int port);

struct endpoint {
	char *host; /* owned; a name, an IPv4 or IPv6 address without brackets; or a path of a unix
		       socket */
	int port;   /* 0 for a unix socket */
};

struct server {
	const char *program; /* static; the program that can speak to it; NULL: this one. If it is
			      * another, only service, tls and text are more than zero */
	const struct lock_service *service; /* static; which one the scheme stands for (NULL: only
					     * the other program knows) */
	const struct lock_scheme *scheme;   /* and in which form (lock/service.h) */
	bool tls;
	struct endpoint *endpoints; /* owned; one, or as many as the list names */
	size_t endpoint_count;
	char *path;          /* owned; what the service reads from the path: a folder, a
				name; the URL, for libpq; NULL: nothing */
	char *user;          /* owned; NULL: the default user */
	char *password;      /* owned; as it was at the start; NULL: none */
	char *password_file; /* owned; where it stands (net/password.h); NULL: nowhere */
	int db;              /* of the databases behind one address */
	char *cacert, *cert, *key, *sni; /* owned; NULL: not given */
	bool insecure;
	char *setting; /* owned; what else the service reads from the query; NULL: nothing */
	char *remark;  /* owned; what is unwise about it, for a warning; NULL: nothing */
	char *text;    /* owned; the URL as messages may show it: without the password, and what TLS
			  has behind a '?' */
};

/* The password to log in with now, to be given to password_forget: what server->password_file says;
 * else, or if that cannot be read just now, server->password. It is read again for each new
 * connection: a job that runs while the password is changed goes on with the new one. NULL: there
 * is none, or no memory. Any thread. */
char *server_password(const struct server *server);

/* Wipes the password and the path as well (explicit_bzero). NULL: nothing. */
void server_free(struct server *server);

/* The text in the place of the user's name in server->text goes: without a password it may be one
 * itself. */
void server_hide_user(struct server *server);

/* Overwrites the password in a URL in place with 'x's, and those in its query (password=,
 * sslpassword=): for argv, which ps shows. */
void server_scrub(char *url);

/* Decodes each %XX in place. False when one is malformed, or stands for a NUL. */
bool url_decode(char *text);

/* Where the password stands in a URL that may be malformed; false: there is none. A password that
 * was not encoded may hold any delimiter, so it is all between the first ':' and the last '@'.
 * Without an '@' it is what stands in the port's place and is no number. */
bool url_find_password(const char *text, size_t *from, size_t *length);

/* --- For the services: a URL on its way to a struct server. Each is false with failure. ------- */

/* A URL cut into its pieces; zero before. */
struct url {
	char *copy;     /* owned; the pieces lie in it and may be changed in place */
	char *user;     /* NULL: none; not decoded, as all the others */
	char *password; /* NULL: none */
	char *hosts;    /* empty: none */
	char *path;     /* the text behind the first '/'; NULL: none */
	char *query;    /* the text behind the '?'; NULL: none */
};

struct server_reading {
	const char *text;
	struct url url;
	struct server *server;
	struct failure *failure;
};

/* "What" is found in the URL and ought not to be, or misses: EXIT_USAGE; the URL is quoted without
 * its password. Always false. */
bool server_fault(const struct server_reading *reading, const char *what);

/* Cuts the URL into reading->url, and sets server->text, user and password. Then, or after a
 * failure, server_split_end wipes and frees the pieces. */
bool server_split(struct server_reading *reading);
void server_split_end(struct server_reading *reading);

/* Decodes text and stores a copy of it in *out, an empty one as NULL. */
bool server_keep(const struct server_reading *reading, char *text, char **out);

/* A number without sign or blanks. False without failure. */
bool server_read_number(const char *text, int least, int most, int *out);

/* Cuts a parameter, "NAME=", out of a URL of which a library reads the rest. *out is a copy of its
 * value, the caller's; it is left alone where there is none. */
bool server_cut_parameter(
	const struct server_reading *reading, char *url, const char *name, char **out);

/* The list of hosts, with that port if the URL names none. */
bool server_read_hosts(const struct server_reading *reading, int port);

/* Reads a parameter of the service's own. False with failure, or with *known set to false. */
typedef bool server_parameter_reader(
	const struct server_reading *reading, const char *name, char *value, bool *known);

/* The query: parameters of TLS (cacert= cert= key= sni= insecure=), if the scheme has TLS, and the
 * service's own (NULL: there are none). An unknown one is a fault. */
bool server_read_query(const struct server_reading *reading, server_parameter_reader *own);
