/* A duration: what is read is in range, and what is written can be read. */
#include "base/duration.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	char written[DURATION_TEXT];
	nanos span = -1, again = -1;

	if (duration_parse(text, &span)) {
		MUST(span >= 0 && span <= 100 * INT64_C(36525) * 864 * NANOS_PER_SEC);
		duration_format(span, written);
		MUST(duration_parse(written, &again));
		MUST(again <= span + 5 * (span / 100 + NANOS_PER_MS));
	} else {
		MUST(span == -1);
	}
	free(text);
	return 0;
}
