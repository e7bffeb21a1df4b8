#include "base/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

bool failure_set(struct failure *failure, enum exit_code code, const char *format, ...)
{
	char text[sizeof(failure->text)]; /* the arguments may lie in failure->text */
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	failure->code = code;
	failure->passes = false;
	memcpy(failure->text, utf8_clean(text), sizeof(text));
	return false;
}
