/* A harness that is no more than needed: CHECK in functions, RUN in main. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_failures;

#define CHECK(what) CHECK_SAYING(what, "%s", "")

#define CHECK_SAYING(what, ...)                                                \
	do {                                                                   \
		if (!(what)) {                                                 \
			fprintf(stderr, "%s:%d: %s ", __FILE__, __LINE__, #what); \
			fprintf(stderr, __VA_ARGS__);                          \
			fputc('\n', stderr);                                   \
			check_failures++;                                      \
		}                                                              \
	} while (0)

#define CHECK_TEXT(got, want)                                                  \
	do {                                                                   \
		const char *got_ = (got), *want_ = (want);                     \
		CHECK_SAYING(strcmp(got_, want_) == 0, "\n got  %s\n want %s", got_, want_); \
	} while (0)

#define RUN(test)                                                              \
	do {                                                                   \
		int before_ = check_failures;                                  \
		test();                                                        \
		printf("%s %s\n", check_failures == before_ ? "ok  " : "FAIL", #test); \
	} while (0)

#define END return check_failures ? EXIT_FAILURE : EXIT_SUCCESS

#endif
