/* For libFuzzer: words, each ended by a 0, as a command line. */
#include <stdint.h>
#include <stdlib.h>

#include "option.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void nowhere(int level, const char *format, ...)
{
	(void)level;
	(void)format;
}

/* Words that end the program or write files are for others to try. */
static int is_harmless(const char *word)
{
	return !strstr(word, "help") && !strstr(word, "list-filters") && !strstr(word, "log-");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char *text = malloc(length + 1);
	const char *words[34] = {"app"};
	struct options o;
	int count = 1, before;

	memcpy(text, bytes, length);
	text[length] = '\0';
	for (char *at = text; at <= text + length && count < 32; at += strlen(at) + 1)
		if (is_harmless(at))
			words[count++] = at;
	before = count;
	options_read(&o, "app", &count, words, nowhere);
	if (count < 1 || count > before)
		abort();
	options_free(&o);
	free(text);
	return 0;
}
