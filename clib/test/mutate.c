/* Feeds LLVMFuzzerTestOneInput where there is no libFuzzer: seeds, changed at random.
 *
 *   NAME_fuzz SECONDS SEED... */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 4096

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static uint64_t state = 88172645463325252;

static size_t below(size_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return n ? state % n : 0;
}

/* Changes, copies, moves in or takes out a few bytes; gives the new length. */
static size_t mutate(uint8_t *bytes, size_t length)
{
	static const char pieces[] = "<>/=\"'&#;!?- \n\0ax09";
	size_t at = below(length + 1), n = below(16);

	switch (below(4)) {
	case 0:
		if (length > 0)
			bytes[below(length)] = (uint8_t)(below(2) ? below(256) : (size_t)pieces[below(sizeof pieces)]);
		return length;
	case 1:
		n = n > length - at ? length - at : n;
		memmove(bytes + at, bytes + at + n, length - at - n);
		return length - n;
	default:
		n = length + n > MOST ? 0 : n;
		memmove(bytes + at + n, bytes + at, length - at);
		for (size_t i = 0; i < n; i++)
			bytes[at + i] = (uint8_t)(length > 0 ? bytes[below(length)] : (uint8_t)pieces[below(sizeof pieces)]);
		return length + n;
	}
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atol(argv[1]) : 10);
	long rounds = 0;

	while (time(NULL) < end) {
		for (int i = 0; i < 1000; i++, rounds++) {
			uint8_t bytes[MOST + 16];
			const char *seed = argc > 2 ? argv[2 + below((size_t)argc - 2)] : "";
			size_t length = strlen(seed) > MOST ? MOST : strlen(seed);

			memcpy(bytes, seed, length);
			for (size_t n = below(12); n > 0; n--)
				length = mutate(bytes, length);
			for (size_t n = 0; n < length; n++)
				if (bytes[n] == '|') /* seeds cannot have a 0 */
					bytes[n] = 0;
			LLVMFuzzerTestOneInput(bytes, length);
		}
	}
	printf("%ld inputs\n", rounds);
	return 0;
}
