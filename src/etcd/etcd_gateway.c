#include "etcd/etcd_gateway.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/password.h"
#include "net/resolve.h"
#include "net/server.h"

#define ANSWER_MOST (64 << 20)           /* bytes */
#define ONE_LEAST   (200 * NANOS_PER_MS) /* for one of several endpoints */
#define ONE_MOST    (2 * NANOS_PER_SEC)  /* if time is not limited */

#define NOT_FOUND 5 /* of gRPC's codes, as the gateway has them beside an error */

const char *gateway_endpoint(const struct gateway *gateway, char text[static LOCK_SERVER_SIZE])
{
	const struct endpoint *endpoint = &gateway->server->endpoints[gateway->at];

	place_write(text, LOCK_SERVER_SIZE, endpoint->host, endpoint->port);
	return text;
}

static enum lock_result fail_memory(struct failure *failure)
{
	failure_set(failure, EXIT_SYSTEM, "out of memory");
	return LOCK_FAILED;
}

/* --- Sockets --------------------------------------------------------------------------------- */

/* libcurl's own are not close-on-exec from the start, and COMMAND may be started at any moment. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
	(void)context;
	(void)purpose;
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* --- Where the endpoint is ------------------------------------------------------------------- */

static void forget_host(struct gateway *gateway)
{
	if (gateway->easy)
		curl_easy_setopt(gateway->easy, CURLOPT_RESOLVE, NULL);
	curl_slist_free_all(gateway->found);
	gateway->found = NULL;
}

/* As libcurl takes it: HOST:PORT:ADDRESS,ADDRESS */
static bool keep_host(struct gateway *gateway, const struct addresses *addresses)
{
	char text[LOCK_SERVER_SIZE + ADDRESSES_MOST * (INET6_ADDRSTRLEN + 1)];
	size_t length;

	gateway_endpoint(gateway, text);
	for (size_t i = 0; i < addresses->count; i++) {
		length = strlen(text);
		text[length] = i == 0 ? ':' : ',';
		resolve_write(addresses, i, text + length + 1);
	}
	gateway->found = curl_slist_append(NULL, text);
	gateway->found_at = gateway->at;
	return gateway->found != NULL;
}

/* libcurl would look it up without a limit in time, and forget a name that worked. It is looked up
 * again after a transfer that did not end well. */
static enum lock_result find_host(
	struct gateway *gateway, struct deadline deadline, struct failure *failure)
{
	const struct endpoint *endpoint = &gateway->server->endpoints[gateway->at];
	struct addresses addresses;

	if (strchr(endpoint->host, ':') || (gateway->found && gateway->found_at == gateway->at))
		return LOCK_GRANTED;
	gateway_stop(gateway);
	forget_host(gateway);
	switch (resolve_host(
		&gateway->lookup, endpoint->host, endpoint->port, deadline, &addresses, failure)) {
	case IO_OK:
		return keep_host(gateway, &addresses) ? LOCK_GRANTED : fail_memory(failure);
	case IO_TIMEOUT:
		return LOCK_TIMEOUT;
	case IO_CANCELLED:
		return LOCK_CANCELLED;
	default:
		return LOCK_FAILED;
	}
}

/* --- One transfer ---------------------------------------------------------------------------- */

static size_t keep(char *data, size_t size, size_t count, void *context)
{
	struct gateway *gateway = context;
	char *text;

	size *= count;
	if (gateway->length + size > ANSWER_MOST)
		return 0;
	text = realloc(gateway->text, gateway->length + size + 1);
	if (!text)
		return 0;
	memcpy(text + gateway->length, data, size);
	gateway->text = text;
	gateway->length += size;
	text[gateway->length] = '\0';
	return size;
}

static void set_tls(CURL *easy, const struct server *server)
{
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, server->insecure ? 0L : 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, server->insecure ? 0L : 2L);
	if (server->cacert)
		curl_easy_setopt(easy, CURLOPT_CAINFO, server->cacert);
	if (server->cert)
		curl_easy_setopt(easy, CURLOPT_SSLCERT, server->cert);
	if (server->cert)
		curl_easy_setopt(easy, CURLOPT_SSLKEY, server->key ? server->key : server->cert);
}

static bool make_handles(struct gateway *gateway)
{
	static bool begun;
	CURL *easy;

	if (gateway->easy)
		return true;
	if (!begun)
		begun = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
	gateway->multi = curl_multi_init();
	gateway->easy = easy = curl_easy_init();
	if (!gateway->multi || !easy)
		return false;
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, gateway->error);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, gateway);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 5L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 2L);
	set_tls(easy, gateway->server);
	return true;
}

/* If the answer is there already, the connection is good for another request. */
void gateway_stop(struct gateway *gateway)
{
	int running = 0;

	if (gateway->running)
		curl_multi_perform(gateway->multi, &running);
	if (gateway->running)
		curl_multi_remove_handle(gateway->multi, gateway->easy);
	gateway->running = false;
	if (running > 0)
		forget_host(gateway);
}

/* Begins a request; text NULL: a GET. */
static bool begin(struct gateway *gateway, const char *path, const char *text)
{
	char url[LOCK_SERVER_SIZE + 64], endpoint[LOCK_SERVER_SIZE];

	if (!make_handles(gateway))
		return false;
	gateway_stop(gateway);
	snprintf(url, sizeof(url), "%s://%s/%s", gateway->server->tls ? "https" : "http",
		gateway_endpoint(gateway, endpoint), path);
	curl_easy_setopt(gateway->easy, CURLOPT_URL, url);
	curl_easy_setopt(gateway->easy, CURLOPT_RESOLVE, gateway->found);
	curl_easy_setopt(gateway->easy, CURLOPT_HTTPHEADER, gateway->headers);
	if (text)
		curl_easy_setopt(gateway->easy, CURLOPT_COPYPOSTFIELDS, text);
	else
		curl_easy_setopt(gateway->easy, CURLOPT_HTTPGET, 1L);
	gateway->length = 0;
	gateway->error[0] = '\0';
	gateway->running = curl_multi_add_handle(gateway->multi, gateway->easy) == CURLM_OK;
	return gateway->running;
}

static void read_end(struct gateway *gateway)
{
	int left;
	const CURLMsg *message = curl_multi_info_read(gateway->multi, &left);

	gateway->code = message ? message->data.result : CURLE_FAILED_INIT;
	curl_multi_remove_handle(gateway->multi, gateway->easy);
	gateway->running = false;
	if (gateway->code != CURLE_OK)
		forget_host(gateway);
}

static char *find_line(const struct gateway *gateway)
{
	return gateway->length > 0 ? memchr(gateway->text, '\n', gateway->length) : NULL;
}

/* Until the transfer has ended, or with `lines` a line is there: LOCK_GRANTED. */
static enum lock_result run(struct gateway *gateway, struct deadline *deadline, bool lines)
{
	struct curl_waitfd cancel = {.fd = deadline->cancel_fd, .events = CURL_WAIT_POLLIN};
	int running = 0, ms;

	while (gateway->running) {
		curl_multi_perform(gateway->multi, &running);
		if (running == 0)
			read_end(gateway);
		if (running == 0 || (lines && find_line(gateway)))
			return LOCK_GRANTED;
		if (deadline_is_over(deadline))
			return LOCK_TIMEOUT;
		ms = clock_poll_ms(deadline->until);
		cancel.revents = 0;
		curl_multi_poll(gateway->multi, &cancel, deadline->cancel_fd < 0 ? 0 : 1,
			ms < 0 ? 60000 : ms, NULL);
		if (cancel.revents != 0)
			return LOCK_CANCELLED;
	}
	return LOCK_GRANTED;
}

/* --- What came of it ------------------------------------------------------------------------- */

static enum exit_code judge_transfer(CURLcode code)
{
	switch (code) {
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
		return EXIT_CONFIG;
	case CURLE_PEER_FAILED_VERIFICATION:
		return EXIT_REFUSED;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9, as it takes any other text for */
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_WRITE_ERROR:
	case CURLE_BAD_CONTENT_ENCODING:
		return EXIT_PROTOCOL;
	default:
		return EXIT_UNREACHABLE;
	}
}

/* The exit code for an error of that code: another endpoint, or the same a little later, may do
 * better if it is EXIT_UNREACHABLE. */
static enum exit_code judge_code(int code, const char *text)
{
	static const struct {
		int code;
		const char *word; /* in the text; the first row that fits counts */
		enum exit_code exit;
	} codes[] = {
		{1, "", EXIT_UNREACHABLE},                             /* cancelled */
		{2, "", EXIT_UNREACHABLE},                             /* unknown */
		{3, "auth", EXIT_REFUSED},                             /* an invalid argument */
		{3, "user", EXIT_REFUSED}, {4, "", EXIT_UNREACHABLE},  /* the time is over */
		{7, "", EXIT_REFUSED},                                 /* permission denied */
		{8, "space", EXIT_SYSTEM},                             /* exhausted */
		{8, "", EXIT_UNREACHABLE}, {9, "auth", EXIT_REFUSED},  /* a precondition failed */
		{9, "user", EXIT_REFUSED}, {10, "", EXIT_UNREACHABLE}, /* aborted */
		{14, "", EXIT_UNREACHABLE},                            /* unavailable */
		{16, "", EXIT_REFUSED},                                /* not authenticated */
	};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].code == code && strstr(text, codes[i].word))
			return codes[i].exit;
	return EXIT_PROTOCOL;
}

/* An error as the gateway puts it: {"error": text, "code": number}, or, if etcd was built with
 * version 2 of grpc-gateway, as in Debian 13: {"message": text, "code": number}. */
static enum lock_result read_error(
	const struct gateway *gateway, const json_t *json, struct failure *failure)
{
	const json_t *old = json_object_get(json, "error");
	const char *text = json_string_value(old ? old : json_object_get(json, "message"));
	int code = (int)json_integer_value(json_object_get(json, "code"));
	char endpoint[LOCK_SERVER_SIZE];
	enum exit_code exit = text ? judge_code(code, text) : EXIT_PROTOCOL;

	if (text && code == NOT_FOUND && strstr(text, "lease"))
		return LOCK_GONE;
	failure_set(failure, exit, "%s: %.200s", gateway_endpoint(gateway, endpoint),
		text ? text : "an error without a reason");
	failure->passes = exit == EXIT_UNREACHABLE;
	if (exit == EXIT_SYSTEM)
		failure_set(failure, exit, "%s (see etcdctl alarm list)", failure->text);
	return LOCK_FAILED;
}

static enum lock_result fail_status(
	const struct gateway *gateway, long status, struct failure *failure)
{
	char endpoint[LOCK_SERVER_SIZE];

	gateway_endpoint(gateway, endpoint);
	if (status == 404)
		failure_set(failure, EXIT_PROTOCOL,
			"%s: no JSON gateway here: etcd needs --enable-grpc-gateway", endpoint);
	else if (status == 502 || status == 503 || status == 504)
		failure_set(failure, EXIT_UNREACHABLE, "%s: HTTP status %ld", endpoint, status);
	else
		failure_set(failure, EXIT_PROTOCOL,
			"%s: not etcd: an answer that is no JSON (HTTP status %ld)", endpoint,
			status);
	failure->passes = failure->code == EXIT_UNREACHABLE;
	return LOCK_FAILED;
}

/* The transfer has ended. */
static enum lock_result read_answer(
	const struct gateway *gateway, json_t **answer, struct failure *failure)
{
	char endpoint[LOCK_SERVER_SIZE];
	enum lock_result result;
	long status = 0;
	json_t *json;

	if (gateway->code != CURLE_OK) {
		failure_set(failure, judge_transfer(gateway->code), "%s: %.200s",
			gateway_endpoint(gateway, endpoint),
			gateway->error[0] ? gateway->error : curl_easy_strerror(gateway->code));
		return LOCK_FAILED;
	}
	curl_easy_getinfo(gateway->easy, CURLINFO_RESPONSE_CODE, &status);
	json = gateway->length > 0 ? json_loadb(gateway->text, gateway->length, 0, NULL) : NULL;
	if (!json_is_object(json)) {
		json_decref(json);
		return fail_status(gateway, status, failure);
	}
	if (status == 200) {
		*answer = json;
		return LOCK_GRANTED;
	}
	result = read_error(gateway, json, failure);
	json_decref(json);
	return result;
}

/* --- The user -------------------------------------------------------------------------------- */

static void forget_user(struct gateway *gateway)
{
	for (struct curl_slist *one = gateway->headers; one; one = one->next)
		explicit_bzero(one->data, strlen(one->data));
	curl_slist_free_all(gateway->headers);
	gateway->headers = NULL;
}

static enum lock_result ask_one(struct gateway *gateway, const char *path, const char *text,
	struct deadline *deadline, json_t **answer, struct failure *failure)
{
	enum lock_result result = find_host(gateway, *deadline, failure);

	if (result != LOCK_GRANTED)
		return result;
	if (!begin(gateway, path, text))
		return fail_memory(failure);
	result = run(gateway, deadline, false);
	gateway_stop(gateway);
	return result == LOCK_GRANTED ? read_answer(gateway, answer, failure) : result;
}

/* Takes over an auth token, however long that is. */
static bool keep_token(struct gateway *gateway, const char *token)
{
	char *header = NULL;

	if (asprintf(&header, "Authorization: %s", token ? token : "") < 0)
		return false;
	gateway->headers = curl_slist_append(NULL, header);
	password_forget(header);
	return gateway->headers != NULL;
}

/* A user has an auth token, for some minutes. */
static enum lock_result identify(
	struct gateway *gateway, struct deadline *deadline, struct failure *failure)
{
	const struct server *server = gateway->server;
	json_t *body, *answer = NULL;
	enum lock_result result;
	char *password, *text;

	if (!server->user || gateway->headers)
		return LOCK_GRANTED;
	password = server_password(server);
	body = json_pack("{ss ss}", "name", server->user, "password", password ? password : "");
	password_forget(password);
	text = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	result = text ? ask_one(gateway, "v3/auth/authenticate", text, deadline, &answer, failure)
		      : fail_memory(failure);
	password_forget(text);
	if (result != LOCK_GRANTED)
		return result;
	if (!keep_token(gateway, json_string_value(json_object_get(answer, "token"))))
		result = fail_memory(failure);
	json_decref(answer);
	return result;
}

/* The auth token has expired, or the rights were changed since. */
static bool is_stale(const struct gateway *gateway, const struct failure *failure)
{
	return gateway->headers && (strstr(failure->text, "invalid auth token") ||
					   strstr(failure->text, "revision of auth store"));
}

static enum lock_result ask_as_user(struct gateway *gateway, const char *path, const char *text,
	struct deadline *deadline, json_t **answer, struct failure *failure)
{
	enum lock_result result;

	for (int again = 0; again < 2; again++) {
		result = identify(gateway, deadline, failure);
		if (result != LOCK_GRANTED)
			return result;
		result = ask_one(gateway, path, text, deadline, answer, failure);
		if (result != LOCK_FAILED || !is_stale(gateway, failure))
			return result;
		forget_user(gateway);
	}
	return result;
}

/* --- The cluster ----------------------------------------------------------------------------- */

/* An endpoint among several may use no more than its share of the time. */
static struct deadline share(const struct deadline *deadline, size_t left)
{
	nanos now = clock_now(), span = ONE_MOST;
	struct deadline own = *deadline;

	if (left <= 1)
		return own;
	if (deadline->until != NANOS_NEVER)
		span = (deadline->until - now) / (nanos)left;
	return deadline_within(own, span < ONE_LEAST ? ONE_LEAST : span);
}

static enum lock_result ask_cluster(struct gateway *gateway, const char *path, const char *text,
	struct deadline *deadline, json_t **answer, struct failure *failure)
{
	size_t count = gateway->server->endpoint_count;
	enum lock_result result = LOCK_FAILED;
	struct failure passing = {0};

	for (size_t left = count; left > 0; left--) {
		struct deadline own = share(deadline, left);

		result = ask_as_user(gateway, path, text, &own, answer, failure);
		if (result == LOCK_FAILED && failure->passes)
			passing = *failure;
		if (left == 1)
			*deadline = own; /* the time that there was to spare is used up */
		if (result != LOCK_TIMEOUT &&
			(result != LOCK_FAILED || failure->code != EXIT_UNREACHABLE))
			return result;
		gateway->at = (gateway->at + 1) % count;
		if (deadline_is_over(deadline)) {
			result = LOCK_TIMEOUT;
			break;
		}
	}
	if (!passing.passes)
		return result;
	*failure = passing;
	return LOCK_FAILED;
}

enum lock_result gateway_call(struct gateway *gateway, const char *path, json_t *body,
	struct deadline deadline, json_t **answer, struct failure *failure)
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	enum lock_result result;

	*answer = NULL;
	json_decref(body);
	if (!text)
		return fail_memory(failure);
	result = ask_cluster(gateway, path, text, &deadline, answer, failure);
	free(text);
	return result;
}

enum lock_result gateway_get(struct gateway *gateway, const char *path, struct deadline deadline,
	json_t **answer, struct failure *failure)
{
	return ask_one(gateway, path, NULL, &deadline, answer, failure);
}

bool gateway_send(struct gateway *gateway, const char *path, const char *text)
{
	int running;

	if (!begin(gateway, path, text))
		return false;
	curl_multi_perform(gateway->multi, &running);
	if (running == 0)
		read_end(gateway);
	return true;
}

enum lock_result gateway_receive(
	struct gateway *gateway, struct deadline deadline, json_t **answer, struct failure *failure)
{
	enum lock_result result = run(gateway, &deadline, false);

	gateway_stop(gateway);
	return result == LOCK_GRANTED ? read_answer(gateway, answer, failure) : result;
}

/* --- The leader ------------------------------------------------------------------------------ */

bool gateway_lacks_leader(struct gateway *gateway, struct deadline deadline)
{
	struct failure unheard;
	json_t *answer = NULL;
	const char *leader;
	bool lacks;

	for (size_t left = gateway->server->endpoint_count; left > 0 && !answer; left--) {
		struct deadline own = deadline_within(deadline, ONE_LEAST);

		gateway->at = (gateway->at + 1) % gateway->server->endpoint_count;
		ask_one(gateway, "v3/maintenance/status", "{}", &own, &answer, &unheard);
	}
	leader = json_string_value(json_object_get(answer, "leader"));
	lacks = json_object_get(answer, "header") && (!leader || strcmp(leader, "0") == 0);
	json_decref(answer);
	return lacks;
}

/* --- Streams --------------------------------------------------------------------------------- */

bool gateway_stream(
	struct gateway *gateway, const char *path, const char *text, struct deadline deadline)
{
	struct failure unheard;

	return identify(gateway, &deadline, &unheard) == LOCK_GRANTED &&
	       find_host(gateway, deadline, &unheard) == LOCK_GRANTED && begin(gateway, path, text);
}

enum lock_result gateway_next(struct gateway *gateway, struct deadline deadline, json_t **line)
{
	enum lock_result result = run(gateway, &deadline, true);
	const char *end = find_line(gateway);
	size_t length;

	if (result != LOCK_GRANTED)
		return result;
	if (!end)
		return LOCK_FAILED;
	length = (size_t)(end - gateway->text) + 1;
	*line = json_loadb(gateway->text, length, 0, NULL);
	gateway->length -= length;
	memmove(gateway->text, end + 1, gateway->length + 1);
	return *line ? LOCK_GRANTED : LOCK_FAILED;
}

/* --- Begin and end --------------------------------------------------------------------------- */

void gateway_open(struct gateway *gateway, const struct server *server)
{
	*gateway = (struct gateway){.server = server};
}

void gateway_open_beside(struct gateway *gateway, const struct gateway *other)
{
	gateway_open(gateway, other->server);
	gateway->at = other->at;
	gateway->lookup = resolve_copy(other->lookup);
}

/* The known addresses of hosts stay. */
static void drop(struct gateway *gateway)
{
	gateway_stop(gateway);
	forget_host(gateway);
	if (gateway->easy)
		curl_easy_cleanup(gateway->easy);
	if (gateway->multi)
		curl_multi_cleanup(gateway->multi);
	gateway->easy = NULL;
	gateway->multi = NULL;
	forget_user(gateway);
	free(gateway->text);
	gateway->text = NULL;
	gateway->length = 0;
}

void gateway_close(struct gateway *gateway)
{
	drop(gateway);
	resolve_abandon(gateway->lookup);
	gateway->lookup = NULL;
}
