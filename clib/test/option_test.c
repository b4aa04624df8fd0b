/* Options and the environment. */
#include <stdarg.h>

#include "check.h"
#include "option.h"

static char said[4096];

static void take_message(int level, const char *format, ...)
{
	va_list values;
	size_t at = strlen(said);

	(void)level;
	va_start(values, format);
	vsnprintf(said + at, sizeof said - at, format, values);
	va_end(values);
}

static const char *words[64];
static int count;

/* Parses options from words; the remaining ones are in words and count. */
static int read_words(struct options *o, const char *const *from)
{
	for (count = 0; from[count]; count++)
		words[count] = from[count];
	words[count] = NULL;
	said[0] = '\0';
	return options_read(o, "path/to/app", &count, words, take_message);
}

#define READ(o, ...) read_words((o), (const char *const[]){__VA_ARGS__, NULL})

static void forms(void)
{
	struct options o;

	CHECK(READ(&o, "app", "-v", "--oml-id", "me", "file", "--oml-domain=d=1", "--oml-collect=tcp:h:1", "--oml-samples", "7",
		   "--oml-bufsize", "2048", "--oml-text", "--oml-close=0.5", "--", "--oml-id", "other") == 0);
	CHECK_TEXT(o.application, "app");
	CHECK_TEXT(o.id, "me");
	CHECK_TEXT(o.domain, "d=1");
	CHECK_TEXT(o.collect, "tcp:h:1");
	CHECK(o.samples == 7 && o.kept == 1 << 20 && o.patience == 0.5 && o.content == 0);
	CHECK(count == 6);
	CHECK_TEXT(words[1], "-v");
	CHECK_TEXT(words[2], "file");
	CHECK_TEXT(words[3], "--");
	CHECK_TEXT(words[4], "--oml-id");
	CHECK(words[6] == NULL);
	options_free(&o);
	CHECK(READ(&o, "app", "--oml-id", "x", "--oml-exp-id", "y", "--oml-file", "z") == 0);
	CHECK_TEXT(o.domain, "y");
	CHECK_TEXT(o.collect, "file:z");
	CHECK(o.content == -1);
	options_free(&o);
	CHECK(READ(&o, "app", "--oml-id", "x", "--oml-domain", "y", "--oml-server", "h", "--oml-instr-interval", "0", "--oml-binary") == 0);
	CHECK_TEXT(o.collect, "h");
	CHECK(o.content == 1);
	options_free(&o);
	CHECK(READ(&o, "app", "--oml-noop", "rest") == 1);
	CHECK(count == 2 && strcmp(words[1], "rest") == 0);
	options_free(&o);
	CHECK(READ(&o, "app", "--oml-config", "c.xml") == 0);
	options_free(&o);
}

static void faults(void)
{
	static const struct {
		const char *words[6], *message;
	} all[] = {
		{{"--oml-what"}, "oml: unknown option --oml-what (see --oml-help)\n"},
		{{"--oml-text=1"}, "oml: --oml-text: unknown option, or it takes no value (see --oml-help)\n"},
		{{"--oml-id"}, "oml: --oml-id requires a value\n"},
		{{"--oml-samples", "0"}, "oml: --oml-samples 0: use a number from 1 to 1e+09\n"},
		{{"--oml-samples", "1x"}, "oml: --oml-samples 1x: use a number from 1 to 1e+09\n"},
		{{"--oml-interval="}, "oml: --oml-interval : use a number from 0.001 to 1e+09\n"},
		{{"--oml-interval", "nan"}, "oml: --oml-interval nan: use a number from 0.001 to 1e+09\n"},
		{{"--oml-log-level", "9"}, "oml: --oml-log-level 9: use a number from -2 to 4\n"},
		{{"--oml-ring", "1e12"}, "oml: --oml-ring 1e12: use a number from 4096 to 1.07374e+09\n"},
		{{"--oml-samples=2", "--oml-interval=1"}, "oml: --oml-samples and --oml-interval are mutually exclusive\n"},
		{{"--oml-id=a"}, "oml: --oml-domain is required; measurement is disabled\n"},
		{{"--oml-domain=a"}, "oml: --oml-id is required; measurement is disabled\n"},
		{{"--oml-domain=a", "--oml-id=b"}, "oml: --oml-collect is required; measurement is disabled\n"},
		{{"--oml-domain=a\nb", "--oml-id=b", "--oml-collect=h"}, "oml: control character in domain\n"},
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct options o;
		const char *line[8] = {"app"};

		for (int n = 0; n < 6; n++)
			line[n + 1] = all[i].words[n];
		CHECK(read_words(&o, line) == -1);
		CHECK_TEXT(said, all[i].message);
		CHECK(count == 1);
		options_free(&o);
	}
}

/* A wrong option does not leave the program with a muddle; an array of words may end
 * without NULL. */
static void remaining_arguments(void)
{
	struct options o;
	const char *exact[2] = {"app", "rest"};
	int n = 2;

	CHECK(READ(&o, "app", "--oml-what", "a", "--oml-id", "b", "c") == -1);
	CHECK(count == 3 && strcmp(words[1], "a") == 0 && strcmp(words[2], "c") == 0);
	options_free(&o);
	CHECK(options_read(&o, "app", &n, exact, take_message) == -1);
	CHECK(n == 2);
	options_free(&o);
	CHECK(options_read(&o, "app", NULL, NULL, take_message) == -1);
	options_free(&o);
	said[0] = '\0';
	CHECK(options_read(&o, "my-app", NULL, NULL, take_message) == -1);
	CHECK_TEXT(said, "oml: omlc_init: invalid application name 'my-app': use letters, digits and _\n");
	CHECK(options_read(&o, NULL, NULL, NULL, take_message) == -1);
}

static void environment(void)
{
	struct options o;

	setenv("OML_NAME", "n", 1);
	setenv("OML_EXP_ID", "old", 1);
	setenv("OML_SERVER", "s", 1);
	CHECK(READ(&o, "app") == 0);
	CHECK_TEXT(o.id, "n");
	CHECK_TEXT(o.domain, "old");
	CHECK_TEXT(o.collect, "s");
	options_free(&o);
	setenv("OML_DOMAIN", "new", 1);
	setenv("OML_COLLECT", "c", 1);
	CHECK(READ(&o, "app", "--oml-id", "line") == 0);
	CHECK_TEXT(o.id, "line");
	CHECK_TEXT(o.domain, "new");
	CHECK_TEXT(o.collect, "c");
	options_free(&o);
	setenv("OML_CONFIG", "x", 1);
	CHECK(READ(&o, "app") == 0);
	CHECK_TEXT(o.config, "x");
	options_free(&o);
}

static uint32_t state = 2463534242u;

static uint32_t next(void)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

#ifndef ROUNDS
#define ROUNDS 200000
#endif

/* The remaining words are always a subset of the original ones. */
static void random_words(void)
{
	static const char *const pieces[] = {"--oml-id", "--oml-id=", "--oml-", "--oml-=", "--", "-", "", "=", "--oml-domain", "--oml-collect=x",
					     "--oml-samples", "--oml-bufsize", "--oml-noop", "--oml-text", "--oml-interval=1", "--oml-file", "7", "1e9", "-1",
					     "--oml-ring=", "--oml-close", "--oml-config", "--oml-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

	for (int i = 0; i < ROUNDS; i++) {
		int n = 1 + (int)(next() % 8), before = n;
		const char **line = malloc((size_t)n * sizeof *line);
		struct options o;

		line[0] = "app";
		for (int at = 1; at < n; at++)
			line[at] = pieces[next() % (sizeof pieces / sizeof *pieces)];
		said[0] = '\0';
		options_read(&o, "app", &n, line, take_message);
		CHECK(n >= 1 && n <= before);
		for (int at = 0; at < n; at++)
			CHECK(line[at] != NULL);
		options_free(&o);
		free(line);
	}
}

int main(void)
{
	unsetenv("OML_NAME");
	unsetenv("OML_DOMAIN");
	unsetenv("OML_EXP_ID");
	unsetenv("OML_COLLECT");
	unsetenv("OML_SERVER");
	unsetenv("OML_CONFIG");
	RUN(forms);
	RUN(faults);
	RUN(remaining_arguments);
	RUN(random_words);
	RUN(environment);
	END;
}
