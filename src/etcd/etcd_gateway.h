/*
 * Requests to etcd through its JSON gateway, by libcurl: the only file that knows it.
 *
 * A gateway has one transfer at a time, over a connection that it keeps. It belongs to one thread
 * at a time. A list of endpoints is one cluster: if one does not answer, the next is asked.
 */
#pragma once

#include <curl/curl.h>
#include <jansson.h>

#include "base/deadline.h"
#include "lock/lock.h"

struct lookup;
struct server;

struct gateway {
	const struct server *server; /* borrowed */
	CURLM *multi;                /* owned; NULL: none yet */
	CURL *easy;                  /* owned */
	struct curl_slist *headers;  /* owned; with the auth token; NULL: none */
	size_t at;                   /* the endpoint in use */
	struct lookup *lookup;       /* owned; of all endpoints that were in use */
	struct curl_slist *found;    /* owned; where the endpoint found_at is; NULL: not known */
	size_t found_at;
	char *text; /* owned; what has come */
	size_t length;
	bool running;  /* a transfer is under way, */
	CURLcode code; /* or has ended with this */
	char error[CURL_ERROR_SIZE];
};

void gateway_open(struct gateway *gateway, const struct server *server);

/* Another gateway to the same endpoint: for names that worked it needs no name server. */
void gateway_open_beside(struct gateway *gateway, const struct gateway *other);

void gateway_close(struct gateway *gateway);
/* Sends the body, whose reference it takes, to /v3/PATH and reads the answer. LOCK_GRANTED: *answer
 * is it, owned by the caller. LOCK_GONE: there is no such lease. LOCK_TIMEOUT, LOCK_CANCELLED,
 * LOCK_FAILED with failure: EXIT_UNREACHABLE, EXIT_REFUSED, EXIT_PROTOCOL, EXIT_CONFIG,
 * EXIT_SYSTEM. After a time-out the request may yet be carried out. */
enum lock_result gateway_call(struct gateway *gateway, const char *path, json_t *body,
	struct deadline deadline, json_t **answer, struct failure *failure);

/* A GET of that path, by the endpoint `at` alone. As gateway_call. */
enum lock_result gateway_get(struct gateway *gateway, const char *path, struct deadline deadline,
	json_t **answer, struct failure *failure);

/* Whether a member says that its cluster has no leader. Such a member answers nothing else. */
bool gateway_lacks_leader(struct gateway *gateway, struct deadline deadline);

/* The two halves of a request to the endpoint in use, for an answer that can wait. */
bool gateway_send(struct gateway *gateway, const char *path, const char *text);
enum lock_result gateway_receive(struct gateway *gateway, struct deadline deadline, json_t **answer,
	struct failure *failure);

/* Ends a transfer that is under way. */
void gateway_stop(struct gateway *gateway);

/* The same with an answer of many lines, without an end: the request is begun, and each call of
 * gateway_next reads one, owned by the caller. False, or LOCK_FAILED: the stream has ended. */
bool gateway_stream(
	struct gateway *gateway, const char *path, const char *text, struct deadline deadline);
enum lock_result gateway_next(struct gateway *gateway, struct deadline deadline, json_t **line);

/* The name of the endpoint in use: host:port. */
const char *gateway_endpoint(const struct gateway *gateway, char text[static LOCK_SERVER_SIZE]);
