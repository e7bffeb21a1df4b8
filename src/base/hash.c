#include "base/hash.h"

uint64_t hash_text(uint64_t sum, const char *text)
{
	do
		sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	while (*text++ != '\0');
	return sum;
}
