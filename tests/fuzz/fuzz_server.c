/* A server's URL: whatever comes of it, no message shows its password, and what is left of it in
 * argv does not either. */
#include "base/failure.h"
#include "fuzz.h"
#include "lock/services.h"
#include "net/server.h"

/* Long enough that it does not stand anywhere by chance. */
static const char secret[] = "Q7secretQ7";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct failure failure = {0};
	struct server *server = services_read_url(text, &failure);
	size_t from, length;
	bool hides = url_find_password(text, &from, &length) && length == strlen(secret) &&
		     strncmp(text + from, secret, length) == 0 &&
		     strstr(text, secret) == text + from && strstr(text + from + 1, secret) == NULL;

	MUST(server != NULL || (failure.code != EXIT_DONE && failure.text[0] != '\0'));
	if (server != NULL) {
		MUST(server->endpoint_count > 0 && server->text != NULL);
		/* What looks like one may be a part of a path. */
		MUST(!hides || server->password == NULL || strstr(server->text, secret) == NULL);
	}
	MUST(!hides || server != NULL || strstr(failure.text, secret) == NULL);
	server_free(server);
	server_scrub(text);
	MUST(!hides || strstr(text, secret) == NULL);
	free(text);
	return 0;
}
