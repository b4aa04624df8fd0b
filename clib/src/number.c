#include "number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char *decimal(unsigned char *to, uint64_t n, int least)
{
	unsigned char digits[24];
	int i = 0;

	for (; n > 0 || i < least; n /= 10)
		digits[i++] = (unsigned char)('0' + n % 10);
	while (i > 0)
		*to++ = digits[--i];
	return to;
}

unsigned char *number_natural(unsigned char *to, uint64_t n)
{
	return decimal(to, n, 1);
}

unsigned char *number_integer(unsigned char *to, int64_t n)
{
	if (n < 0)
		*to++ = '-';
	return decimal(to, n < 0 ? -(uint64_t)n : (uint64_t)n, 1);
}

#define EXACT 9007199254740992.0 /* 2^53: integers up to it are exact */
#define DECIMALS_MOST 17         /* powers of ten up to it fit 64 bits and are exact */

static const double powers[DECIMALS_MOST + 1] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
						 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17};

/* Fast path for numbers with few decimals. digits / power is one correctly rounded
 * operation on exact operands, as is parsing the text: if it yields x, so does the
 * text. */
static unsigned char *few_decimals(unsigned char *to, double x)
{
	double absolute = fabs(x);

	for (int n = 0; n <= DECIMALS_MOST && absolute * powers[n] < EXACT; n++) {
		double digits = nearbyint(absolute * powers[n]);
		uint64_t whole = (uint64_t)digits, power = (uint64_t)powers[n];

		if (digits / powers[n] != absolute)
			continue;
		if (signbit(x))
			*to++ = '-';
		to = decimal(to, whole / power, 1);
		if (n > 0) {
			*to++ = '.';
			to = decimal(to, whole % power, n);
		}
		return to;
	}
	return NULL;
}

unsigned char *number_real(unsigned char *to, double x)
{
	char text[NUMBER_MAX];
	unsigned char *end = isfinite(x) ? few_decimals(to, x) : NULL;

	if (end)
		return end;
	if (isnan(x)) {
		memcpy(to, "nan", 3);
		return to + 3;
	}
	snprintf(text, sizeof text, "%.17g", x);
	for (const char *from = text; *from; from++) {
		if (strchr("+-0123456789einf", *from))
			*to++ = (unsigned char)*from;
		else if (to[-1] != '.') /* a decimal point may have several bytes */
			*to++ = '.';
	}
	return to;
}

static locale_t plain;

static void plain_open(void)
{
	plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

int number_read(const char *text, double *to)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char *end;
	double x;

	pthread_once(&once, plain_open);
	x = plain ? strtod_l(text, &end, plain) : strtod(text, &end);
	if (end == text || *end != '\0')
		return -1;
	*to = x;
	return 0;
}
