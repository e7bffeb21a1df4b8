#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "tap.h"

static bool is_like_printf(int64_t number)
{
	char text[NUMBER_SIZE], expected[NUMBER_SIZE + 1];
	char *end = number_write(text, number);

	snprintf(expected, sizeof(expected), "%" PRId64, number);
	return strcmp(text, expected) == 0 && end == text + strlen(text);
}

int main(void)
{
	static const int64_t numbers[] = {
		0, 1, -1, 9, 10, 99, 100, -100, 1795252345678901, INT32_MIN, INT64_MAX, INT64_MIN};
	static const char *const whole[] = {"0", "-42", "9223372036854775807"};
	static const char *const other[] = {"", "-", "x", "1x", "1 ", "--1", "1.0"};
	char text[NUMBER_SIZE];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		ok(is_like_printf(numbers[i]), "%" PRId64, numbers[i]);
	ok(*number_write_unsigned(text, UINT64_MAX) == '\0' &&
			strcmp(text, "18446744073709551615") == 0,
		"the greatest unsigned");
	ok(*number_write_hex(text, 0) == '\0' && strcmp(text, "0000000000000000") == 0, "hex 0");
	number_write_hex(text, UINT64_C(0x0123456789abcdef));
	ok(strcmp(text, "0123456789abcdef") == 0, "every hex digit");
	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
		ok(number_is(whole[i]), "'%s' is a number", whole[i]);
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		ok(!number_is(other[i]), "'%s' is none", other[i]);
	return tap_end();
}
