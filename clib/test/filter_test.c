/* Filters against numbers made by hand. */
#include <math.h>

#include "check.h"
#include "filter.h"

static struct filter filter;

static void open_filter(const char *name, OmlValueT type)
{
	filter = (struct filter){.operation = operation_find(name, type), .type = type};
	CHECK_SAYING(filter.operation != NULL, "%s", name ? name : "default");
}

static void add(double x)
{
	filter_add(&filter, &(struct value){.type = OML_DOUBLE_VALUE, .real = x});
}

static int same(double a, double b)
{
	return a == b || fabs(a - b) <= 1e-12 * fabs(b) || (isnan(a) && isnan(b));
}

static void expect(int count, double first, double second, double third)
{
	struct value got[OUTPUTS];
	double want[] = {first, second, third};

	CHECK(filter_take(&filter, got) == count);
	for (int i = 0; i < count; i++)
		CHECK_SAYING(same(got[i].real, want[i]), "%d: %.17g, not %.17g", i, got[i].real, want[i]);
}

static void numbers(void)
{
	open_filter("avg", OML_DOUBLE_VALUE);
	add(1), add(2), add(6);
	expect(3, 3, 1, 6);
	add(-4); /* the next window knows nothing of the last */
	expect(3, -4, -4, -4);
	open_filter("sum", OML_DOUBLE_VALUE);
	add(1e100), add(1), add(-1e100), add(0.5); /* a plain sum gives 0.5 */
	expect(1, 1.5, 0, 0);
	open_filter("stddev", OML_DOUBLE_VALUE);
	add(2), add(4), add(4), add(4), add(5), add(5), add(7), add(9);
	expect(2, sqrt(32.0 / 7), 32.0 / 7, 0);
	add(1e9 + 4), add(1e9 + 7), add(1e9 + 13), add(1e9 + 16); /* the naive formula fails here */
	expect(2, sqrt(30), 30, 0);
	add(5);
	expect(2, NAN, NAN, 0);
	open_filter("delta", OML_DOUBLE_VALUE);
	add(10), add(3), add(14.5);
	expect(2, 4.5, 14.5, 0);
	add(2);
	expect(2, 0, 2, 0);
}

static void whole_numbers(void)
{
	struct value got[OUTPUTS];

	open_filter("avg", OML_UINT64_VALUE);
	filter_add(&filter, &(struct value){.type = OML_UINT64_VALUE, .natural = UINT64_MAX});
	expect(3, 18446744073709551616.0, 18446744073709551616.0, 18446744073709551616.0);
	open_filter("sum", OML_INT32_VALUE);
	filter_add(&filter, &(struct value){.type = OML_INT32_VALUE, .integer = -3});
	filter_add(&filter, &(struct value){.type = OML_INT32_VALUE, .integer = 1});
	expect(1, -2, 0, 0);
	open_filter("first", OML_INT64_VALUE);
	filter_add(&filter, &(struct value){.type = OML_INT64_VALUE, .integer = INT64_MIN});
	filter_add(&filter, &(struct value){.type = OML_INT64_VALUE, .integer = 1});
	CHECK(filter_take(&filter, got) == 1 && got[0].integer == INT64_MIN && got[0].type == OML_INT64_VALUE);
	open_filter("last", OML_INT64_VALUE);
	filter_add(&filter, &(struct value){.type = OML_INT64_VALUE, .integer = 2});
	filter_add(&filter, &(struct value){.type = OML_INT64_VALUE, .integer = 1});
	CHECK(filter_take(&filter, got) == 1 && got[0].integer == 1);
}

/* What is kept of a text is a copy. */
static void texts(void)
{
	char memory[] = "one";
	struct value got[OUTPUTS], v = {.type = OML_STRING_VALUE, .bytes = memory, .length = 3};

	open_filter(NULL, OML_STRING_VALUE);
	filter_add(&filter, &v);
	memcpy(memory, "two", 3);
	filter_add(&filter, &v);
	CHECK(filter_take(&filter, got) == 1 && got[0].length == 3 && memcmp(got[0].bytes, "one", 3) == 0);
	filter_free(&filter);
	open_filter("last", OML_STRING_VALUE);
	filter_add(&filter, &v);
	memcpy(memory, "six", 3);
	filter_add(&filter, &v);
	memcpy(memory, "???", 3);
	CHECK(filter_take(&filter, got) == 1 && memcmp(got[0].bytes, "six", 3) == 0);
	filter_free(&filter);
}

static void finding(void)
{
	CHECK(operation_find("avg", OML_STRING_VALUE) == NULL);
	CHECK(operation_find("sum", OML_BOOL_VALUE) == NULL);
	CHECK(operation_find("delta", OML_VECTOR_DOUBLE_VALUE) == NULL);
	CHECK(operation_find("median", OML_DOUBLE_VALUE) == NULL);
	CHECK(operation_find("first", OML_VECTOR_DOUBLE_VALUE) != NULL);
	CHECK(operation_find(NULL, OML_GUID_VALUE) == operation_find("first", OML_GUID_VALUE));
	CHECK(operation_find(NULL, OML_INT32_VALUE) == operation_find("avg", OML_INT32_VALUE));
}

int main(void)
{
	RUN(numbers);
	RUN(whole_numbers);
	RUN(texts);
	RUN(finding);
	END;
}
