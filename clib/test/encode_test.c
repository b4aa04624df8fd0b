/* Both forms, byte by byte. */
#include <locale.h>
#include <math.h>

#include "check.h"
#include "encode.h"
#include "number.h"

static struct buffer out;

static const char *hex(void)
{
	static char text[2048];

	for (size_t i = 0; i < out.used && 2 * i + 2 < sizeof text; i++)
		sprintf(text + 2 * i, "%02x", out.bytes[i]);
	text[2 * out.used] = '\0';
	return text;
}

static const char *text(void)
{
	buffer_add(&out, "", 1);
	return (const char *)out.bytes;
}

static struct value integer(OmlValueT type, int64_t n)
{
	return (struct value){.type = type, .integer = n};
}

static struct value natural(OmlValueT type, uint64_t n)
{
	return (struct value){.type = type, .natural = n};
}

static struct value real(double x)
{
	return (struct value){.type = OML_DOUBLE_VALUE, .real = x};
}

static struct value bytes(OmlValueT type, const void *from, size_t length)
{
	return (struct value){.type = type, .bytes = from, .length = length};
}

static struct value word(const char *from)
{
	return bytes(OML_STRING_VALUE, from, strlen(from));
}

/* One value in a form, without what is before and behind it. */
static const char *one(enum content content, struct value v)
{
	static char got[2048];

	out.used = 0;
	CHECK(encode_tuple(&out, content, 1, 1, 0, &v, 1) == 0);
	if (content == CONTENT_TEXT) {
		const char *line = text();

		CHECK(strncmp(line, "0.000000\t1\t1\t", 13) == 0);
		snprintf(got, sizeof got, "%.*s", (int)strlen(line) - 14, line + 13);
	} else {
		snprintf(got, sizeof got, "%s", hex() + 2 * (content == CONTENT_IEEE ? 7 + 5 + 9 : 7 + 5 + 6));
	}
	return got;
}

static const uint64_t doubles[] = {0x3ff8000000000000, 0xbfb999999999999a}; /* 1.5, -0.1 */
static const uint64_t truths[] = {1, 0, 1};

/* The example of the protocol's description. */
static void example(void)
{
	struct value values[] = {
		integer(OML_INT64_VALUE, -5), real(3.141593), word("a\tb\\c\nd"), natural(OML_UINT32_VALUE, 4000000000),
		natural(OML_BOOL_VALUE, 0), natural(OML_GUID_VALUE, 0x1122334455667788), bytes(OML_BLOB_VALUE, "\x00\x01\xff", 3),
		bytes(OML_VECTOR_DOUBLE_VALUE, doubles, 2), bytes(OML_VECTOR_BOOL_VALUE, truths, 3)};

	out.used = 0;
	CHECK(encode_tuple(&out, CONTENT_TEXT, 2, 1, 556765000, values, 9) == 0);
	CHECK_TEXT(text(), "0.556765\t2\t1\t-5\t3.141593\ta\\tb\\\\c\\nd\t4000000000\tF\t1234605616436508552\tAAH/\t2 1.5 -0.1\t3 True False True\n");
	values[1] = real(3.14159265358979);
	out.used = 0;
	CHECK(encode_tuple(&out, CONTENT_BINARY, 2, 1, 0, values, 9) == 0);
	memcpy(out.bytes + 12, "\x02\x24\x08\x91\x9e", 5); /* its time does not come out of whole ns */
	CHECK_TEXT(hex(), "aaaa010057" "0902" "0500000001" "022408919e00" "07fffffffffffffffb" "023243f6a802" "04076109625c630a64"
			  "06ee6b2800" "0b" "0a1122334455667788" "09000000030001ff" "0d0f00023ff8000000000000bfb999999999999a" "0d0e00030c0b0c");
}

static void text_values(void)
{
	static const struct {
		double x;
		const char *want;
	} reals[] = {
		{0, "0"}, {1, "1"}, {-1.5, "-1.5"}, {0.1, "0.1"}, {1e15, "1000000000000000"}, {123456.789, "123456.789"}, {1e-7, "0.0000001"},
		{-0.0, "-0"}, {0.1 + 0.2, "0.30000000000000004"}, {1e300, "1.0000000000000001e+300"}, {5e-324, "4.9406564584124654e-324"},
		{INFINITY, "inf"}, {-INFINITY, "-inf"}, {NAN, "nan"}, {-NAN, "nan"}, {100, "100"}, {0.05, "0.05"},
	};
	static const uint64_t numbers[] = {(uint64_t)-1, 0, UINT64_MAX};

	for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
		CHECK_TEXT(one(CONTENT_TEXT, real(reals[i].x)), reals[i].want);
	CHECK_TEXT(one(CONTENT_TEXT, integer(OML_INT32_VALUE, INT32_MIN)), "-2147483648");
	CHECK_TEXT(one(CONTENT_TEXT, integer(OML_LONG_VALUE, -7)), "-7");
	CHECK_TEXT(one(CONTENT_TEXT, integer(OML_INT64_VALUE, INT64_MIN)), "-9223372036854775808");
	CHECK_TEXT(one(CONTENT_TEXT, natural(OML_UINT32_VALUE, UINT32_MAX)), "4294967295");
	CHECK_TEXT(one(CONTENT_TEXT, natural(OML_UINT64_VALUE, UINT64_MAX)), "18446744073709551615");
	CHECK_TEXT(one(CONTENT_TEXT, natural(OML_BOOL_VALUE, 1)), "T");
	CHECK_TEXT(one(CONTENT_TEXT, word("")), "");
	CHECK_TEXT(one(CONTENT_TEXT, bytes(OML_STRING_VALUE, NULL, 0)), "");
	CHECK_TEXT(one(CONTENT_TEXT, word("\r\xc3\xa4")), "\\r\xc3\xa4");
	CHECK_TEXT(one(CONTENT_TEXT, bytes(OML_BLOB_VALUE, NULL, 0)), "");
	CHECK_TEXT(one(CONTENT_TEXT, bytes(OML_BLOB_VALUE, "a", 1)), "YQ==");
	CHECK_TEXT(one(CONTENT_TEXT, bytes(OML_BLOB_VALUE, "ab", 2)), "YWI=");
	CHECK_TEXT(one(CONTENT_TEXT, bytes(OML_BLOB_VALUE, "abcd", 4)), "YWJjZA==");
	CHECK_TEXT(one(CONTENT_TEXT, bytes(OML_VECTOR_INT32_VALUE, numbers, 2)), "2 -1 0");
	CHECK_TEXT(one(CONTENT_TEXT, bytes(OML_VECTOR_INT64_VALUE, numbers, 1)), "1 -1");
	CHECK_TEXT(one(CONTENT_TEXT, bytes(OML_VECTOR_UINT64_VALUE, numbers + 1, 2)), "2 0 18446744073709551615");
	CHECK_TEXT(one(CONTENT_TEXT, bytes(OML_VECTOR_UINT32_VALUE, numbers, 0)), "0");
}

static void binary_values(void)
{
	static const uint64_t numbers[] = {(uint64_t)-2, 5};

	CHECK_TEXT(one(CONTENT_BINARY, real(0)), "020000000000");
	CHECK_TEXT(one(CONTENT_BINARY, real(-1.5)), "02d000000001");
	CHECK_TEXT(one(CONTENT_BINARY, real(NAN)), "030000000000");
	CHECK_TEXT(one(CONTENT_BINARY, real(INFINITY)), "030000000000");
	CHECK_TEXT(one(CONTENT_BINARY, real(1e-300)), "020000000000");
	CHECK_TEXT(one(CONTENT_IEEE, real(0.1)), "0f3fb999999999999a");
	CHECK_TEXT(one(CONTENT_BINARY, integer(OML_INT32_VALUE, -2)), "05fffffffe");
	CHECK_TEXT(one(CONTENT_BINARY, integer(OML_LONG_VALUE, 3)), "0500000003");
	CHECK_TEXT(one(CONTENT_BINARY, natural(OML_UINT32_VALUE, 1)), "0600000001");
	CHECK_TEXT(one(CONTENT_BINARY, integer(OML_INT64_VALUE, -1)), "07ffffffffffffffff");
	CHECK_TEXT(one(CONTENT_BINARY, natural(OML_UINT64_VALUE, 1)), "080000000000000001");
	CHECK_TEXT(one(CONTENT_BINARY, natural(OML_GUID_VALUE, 2)), "0a0000000000000002");
	CHECK_TEXT(one(CONTENT_BINARY, natural(OML_BOOL_VALUE, 0)), "0b");
	CHECK_TEXT(one(CONTENT_BINARY, natural(OML_BOOL_VALUE, 1)), "0c");
	CHECK_TEXT(one(CONTENT_BINARY, word("hi")), "04026869");
	CHECK_TEXT(one(CONTENT_BINARY, bytes(OML_STRING_VALUE, NULL, 0)), "0400");
	CHECK_TEXT(one(CONTENT_BINARY, bytes(OML_BLOB_VALUE, NULL, 0)), "0900000000");
	CHECK_TEXT(one(CONTENT_BINARY, bytes(OML_VECTOR_INT32_VALUE, numbers, 2)), "0d050002fffffffe00000005");
	CHECK_TEXT(one(CONTENT_BINARY, bytes(OML_VECTOR_UINT64_VALUE, numbers + 1, 1)), "0d0800010000000000000005");
	CHECK_TEXT(one(CONTENT_BINARY, bytes(OML_VECTOR_BOOL_VALUE, numbers, 0)), "0d0e0000");
}

/* Strings beyond what the form has room for are cut between letters; packets beyond
 * 64 KiB have the other head. */
static void long_values(void)
{
	char letters[300], many[70000];
	struct value v = bytes(OML_BLOB_VALUE, many, sizeof many);

	memset(letters, 'x', sizeof letters);
	CHECK(strncmp(one(CONTENT_BINARY, bytes(OML_STRING_VALUE, letters, 255)), "04ff", 4) == 0);
	CHECK(strlen(one(CONTENT_BINARY, bytes(OML_STRING_VALUE, letters, 300))) == 2 * (2 + 255));
	memcpy(letters + 254, "\xc3\xa4", 2);
	CHECK(strncmp(one(CONTENT_BINARY, bytes(OML_STRING_VALUE, letters, 300)), "04fe", 4) == 0);
	memset(letters, 0x80, sizeof letters); /* no text */
	CHECK(strncmp(one(CONTENT_BINARY, bytes(OML_STRING_VALUE, letters, 300)), "04ff", 4) == 0);
	memset(letters, 'x', sizeof letters);
	CHECK(strlen(one(CONTENT_TEXT, bytes(OML_STRING_VALUE, letters, 300))) == 300);
	memset(many, 'y', sizeof many);
	out.used = 0;
	CHECK(encode_tuple(&out, CONTENT_BINARY, 3, 1, 0, &v, 1) == 0);
	CHECK(out.used == 7 + 2 + 5 + 6 + 5 + sizeof many);
	CHECK(memcmp(out.bytes, "\xaa\xaa\x02\x00\x01\x11\x82\x01\x03\x05", 10) == 0);
	v = bytes(OML_VECTOR_BOOL_VALUE, many, 70000);
	CHECK(encode_tuple(&out, CONTENT_BINARY, 3, 1, 0, &v, 1) < 0);
	CHECK(out.used == 7 + 2 + 5 + 6 + 5 + sizeof many); /* nothing was appended */
}

/* What was encoded with whole doubles becomes, byte by byte, what would have been
 * encoded without. */
static void plain(void)
{
	struct value values[] = {
		integer(OML_INT64_VALUE, -5), real(0.1), word("a"), natural(OML_UINT32_VALUE, 4000000000), natural(OML_BOOL_VALUE, 0),
		natural(OML_GUID_VALUE, 1), bytes(OML_BLOB_VALUE, "\x0f\x0f\x0f", 3), bytes(OML_VECTOR_DOUBLE_VALUE, doubles, 2),
		bytes(OML_VECTOR_BOOL_VALUE, truths, 3), bytes(OML_VECTOR_INT32_VALUE, truths, 3), real(NAN), integer(OML_INT32_VALUE, 1),
		natural(OML_UINT64_VALUE, 7), natural(OML_BOOL_VALUE, 1), real(-1e6)};
	char many[70000] = {0};
	struct value large[] = {bytes(OML_BLOB_VALUE, many, sizeof many), real(2)};
	struct buffer want = {0};

	out.used = 0;
	for (int i = 0; i < 3; i++) {
		CHECK(encode_tuple(&out, CONTENT_IEEE, 2, i, 123456789, values, 15) == 0);
		CHECK(encode_tuple(&want, CONTENT_BINARY, 2, i, 123456789, values, 15) == 0);
		CHECK(encode_tuple(&out, CONTENT_IEEE, 1, i, 0, large, 2) == 0);
		CHECK(encode_tuple(&want, CONTENT_BINARY, 1, i, 0, large, 2) == 0);
	}
	encode_plain(&out);
	CHECK(out.used == want.used && memcmp(out.bytes, want.bytes, want.used) == 0);
	buffer_free(&want);
}

static void times(void)
{
	static const struct {
		int64_t time;
		const char *want;
	} all[] = {{0, "0.000000\t0\t7\n"}, {1, "0.000000001\t0\t7\n"}, {1000, "0.000001\t0\t7\n"},
		   {-1500000000, "-1.500000\t0\t7\n"}, {86400000000123, "86400.000000123\t0\t7\n"}};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		out.used = 0;
		CHECK(encode_tuple(&out, CONTENT_TEXT, 0, 7, all[i].time, NULL, 0) == 0);
		CHECK_TEXT(text(), all[i].want);
	}
}

static uint64_t state = 88172645463325252;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

#ifndef ROUNDS
#define ROUNDS 1000000
#endif

/* Numbers of all kinds read back as the same. */
static void round_trip(void)
{
	int wrong = 0;

	for (int i = 0; i < ROUNDS && wrong < 5; i++) {
		unsigned char to[NUMBER_MAX + 1];
		uint64_t bits = next();
		double x, again;

		if (i % 3 == 0) {
			memcpy(&x, &bits, sizeof x);
		} else {
			x = (double)(int64_t)(bits >> next() % 60) / (i % 3 == 1 ? pow(10, (double)(next() % 20)) : 1024);
		}
		if (isnan(x))
			continue;
		*number_real(to, x) = '\0';
		again = strtod((char *)to, NULL);
		if (strlen((char *)to) >= NUMBER_MAX || memcmp(&x, &again, sizeof x) != 0) {
			fprintf(stderr, "%.17g is written as %s\n", x, to);
			wrong++;
		}
	}
	CHECK(wrong == 0);
}

/* A comma in the locale changes nothing. */
static void locale(void)
{
	static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR"};
	double x = 0;
	size_t i = 0;

	while (i < 5 && !setlocale(LC_ALL, names[i]))
		i++;
	if (i == 5) {
		printf("     no locale with a comma is installed (de_DE, fr_FR): left out\n");
		return;
	}
	CHECK_TEXT(one(CONTENT_TEXT, real(0.1 + 0.2)), "0.30000000000000004");
	CHECK_TEXT(one(CONTENT_TEXT, real(1.5)), "1.5");
	CHECK(number_read("0.5", &x) == 0 && x == 0.5);
	setlocale(LC_ALL, "C");
}

static void reading(void)
{
	double x;

	CHECK(number_read("1e3", &x) == 0 && x == 1000);
	CHECK(number_read("", &x) < 0);
	CHECK(number_read("1x", &x) < 0);
	CHECK(number_read("1,5", &x) < 0);
}

int main(void)
{
	RUN(example);
	RUN(text_values);
	RUN(binary_values);
	RUN(long_values);
	RUN(plain);
	RUN(times);
	RUN(round_trip);
	RUN(reading);
	RUN(locale);
	buffer_free(&out);
	END;
}
