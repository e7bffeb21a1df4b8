#include "lock/name.h"

#include <string.h>

#include "base/utf8.h"

#define PREFIX_MAX_BYTES 128

/* NULL, or why text is not UTF-8 without control characters. */
static const char *characters_fault(const char *text)
{
	size_t length;

	for (; *text != '\0'; text += length) {
		length = utf8_character(text);
		if (length == 0)
			return "is not UTF-8";
		if (utf8_is_control(text))
			return "holds a control character";
	}
	return NULL;
}

const char *name_fault(const char *name)
{
	if (*name == '\0')
		return "is empty";
	if (strlen(name) > NAME_MAX_BYTES)
		return "is longer than 512 bytes";
	if (strstr(name, "://") != NULL)
		return "looks like a server's URL";
	return characters_fault(name);
}

const char *name_id_fault(const char *id)
{
	if (*id == '\0')
		return "is empty";
	if (strlen(id) > NAME_ID_BYTES)
		return "is longer than 256 bytes";
	return characters_fault(id);
}

const char *name_prefix_fault(const char *prefix)
{
	const char *open = prefix;

	if (strlen(prefix) > PREFIX_MAX_BYTES)
		return "is longer than 128 bytes";
	while ((open = strchr(open, '{')) != NULL) {
		const char *close = strchr(open, '}');

		if (close == NULL || close == open + 1)
			return "holds a '{' that begins no hash tag";
		open = close;
	}
	return characters_fault(prefix);
}

bool name_is_glob(const char *text)
{
	return strpbrk(text, "*?[") != NULL;
}
