#include "base/number.h"

#include <stdlib.h>

char *number_write_unsigned(char *at, uint64_t number)
{
	char digits[NUMBER_SIZE];
	int count = 0;

	do {
		digits[count++] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	while (count > 0)
		*at++ = digits[--count];
	*at = '\0';
	return at;
}

char *number_write(char *at, int64_t number)
{
	if (number >= 0)
		return number_write_unsigned(at, (uint64_t)number);
	*at++ = '-';
	return number_write_unsigned(at, -(uint64_t)number);
}

char *number_write_hex(char *at, uint64_t number)
{
	for (int shift = 60; shift >= 0; shift -= 4)
		*at++ = "0123456789abcdef"[number >> shift & 15];
	*at = '\0';
	return at;
}

const char *number_text(char *text, int64_t number)
{
	number_write(text, number);
	return text;
}

int64_t number_least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t number_within(int64_t number, int64_t least, int64_t most)
{
	return number < least ? least : number_least(number, most);
}

bool number_is(const char *text)
{
	char *end;

	strtoll(text, &end, 10);
	return end != text && *end == '\0';
}

int number_compare(const void *a, const void *b)
{
	int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

	return (one > other) - (one < other);
}
