#include "base/nearest.h"

#include <stdbool.h>
#include <string.h>
#include <sys/param.h>

#define WORD_SIZE 32 /* longer words are near to none */

/* How many letters must be added, left out, replaced, or swapped with the next one, to make one
 * word of the other. Both are shorter than WORD_SIZE. */
static size_t count_typos(const char *one, size_t one_length, const char *other)
{
	size_t other_length = strlen(other);
	size_t rows[WORD_SIZE][WORD_SIZE];

	for (size_t j = 0; j <= other_length; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= one_length; i++) {
		rows[i][0] = i;
		for (size_t j = 1; j <= other_length; j++) {
			bool same = one[i - 1] == other[j - 1];
			bool swapped = i > 1 && j > 1 && one[i - 1] == other[j - 2] &&
				       one[i - 2] == other[j - 1];

			rows[i][j] = MIN(rows[i - 1][j], rows[i][j - 1]) + 1;
			rows[i][j] = MIN(rows[i][j], rows[i - 1][j - 1] + (same ? 0 : 1));
			if (swapped)
				rows[i][j] = MIN(rows[i][j], rows[i - 2][j - 2] + 1);
		}
	}
	return rows[one_length][other_length];
}

void nearest_begin(struct nearest *nearest, const char *typed, size_t length)
{
	*nearest = (struct nearest){
		.typed = typed, .length = length, .most = length < 3 ? 1 : length / 3};
}

void nearest_try(struct nearest *nearest, const char *word)
{
	size_t typos;

	if (nearest->length >= WORD_SIZE || strlen(word) >= WORD_SIZE)
		return;
	typos = count_typos(nearest->typed, nearest->length, word);
	if (typos > nearest->most || (nearest->word != NULL && typos == nearest->most))
		return;
	nearest->word = word;
	nearest->most = typos;
}
