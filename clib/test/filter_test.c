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
}

/* The vectors of the agent's TestDeltaOverWindows: the last value minus the last one of the window before, as in OML. */
static void deltas(void)
{
	open_filter("delta", OML_DOUBLE_VALUE);
	for (int i = 0; i < 4; i++) {
		add(i * 0.5), add(i * 0.5 + 0.25);
		expect(2, i == 0 ? 0.25 : 0.5, i * 0.5 + 0.25, 0);
	}
	open_filter("delta", OML_DOUBLE_VALUE);
	add(3);
	expect(2, 3, 3, 0);
	add(7);
	expect(2, 4, 7, 0);
	add(7);
	expect(2, 0, 7, 0);
	add(6.5);
	expect(2, -0.5, 6.5, 0);
	open_filter("delta", OML_INT64_VALUE);
	filter_add(&filter, &(struct value){.type = OML_INT64_VALUE, .integer = 10});
	filter_add(&filter, &(struct value){.type = OML_INT64_VALUE, .integer = 3});
	filter_add(&filter, &(struct value){.type = OML_INT64_VALUE, .integer = 14});
	expect(2, 14, 14, 0);
	filter_add(&filter, &(struct value){.type = OML_INT64_VALUE, .integer = 2});
	expect(2, -12, 2, 0);
}

/* As in OML: an infinite sum is infinite, and a minimum does not depend on where a NaN stands. */
static void not_finite(void)
{
	open_filter("sum", OML_DOUBLE_VALUE);
	add(1), add(INFINITY), add(1);
	expect(1, INFINITY, 0, 0);
	add(1e308), add(1e308);
	expect(1, INFINITY, 0, 0);
	add(INFINITY), add(-INFINITY);
	expect(1, NAN, 0, 0);
	open_filter("avg", OML_DOUBLE_VALUE);
	add(-INFINITY), add(4);
	expect(3, -INFINITY, -INFINITY, 4);
	add(NAN), add(2), add(1);
	expect(3, NAN, 1, 2);
	add(2), add(NAN), add(1);
	expect(3, NAN, 1, 2);
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

struct range {
	double least, most;
	int64_t count;
};

static void range_add(void *state, const OmlValue *value)
{
	struct range *r = state;
	double x = value->type == OML_DOUBLE_VALUE ? value->value.doubleValue : (double)value->value.int32Value;

	r->least = r->count == 0 || x < r->least ? x : r->least;
	r->most = r->count == 0 || x > r->most ? x : r->most;
	r->count++;
}

static void range_take(void *state, OmlValueU *outputs)
{
	const struct range *r = state;

	omlc_set_double(outputs[0], r->most - r->least);
	omlc_set_int64(outputs[1], r->count);
}

static const PillionFilter range = {
	.name = "range", .suffixes = {"range", "n"}, .types = {OML_DOUBLE_VALUE, OML_INT64_VALUE},
	.state = sizeof(struct range), .add = range_add, .take = range_take,
};

struct letters {
	char text[8];
	int count;
};

static void letters_begin(void *state)
{
	((struct letters *)state)->count = 1; /* the text is kept */
}

static void letters_add(void *state, const OmlValue *value)
{
	struct letters *l = state;

	if (value->value.stringValue.length > 0)
		l->text[l->count++] = value->value.stringValue.ptr[0];
}

static void letters_take(void *state, OmlValueU *outputs)
{
	struct letters *l = state;

	l->text[0] = '-';
	l->text[l->count] = '\0';
	omlc_set_string(outputs[0], l->text);
}

/* Filters of the program. */
static void own_filters(void)
{
	const PillionFilter letters = {.name = "letters", .any = 1, .suffixes = {""}, .types = {OML_STRING_VALUE},
				       .state = sizeof(struct letters), .begin = letters_begin, .add = letters_add, .take = letters_take};
	PillionFilter bad = range;
	struct value got[OUTPUTS];

	CHECK(pillion_register_filter(&range) == 0 && pillion_register_filter(&letters) == 0);
	CHECK(pillion_register_filter(&range) == -1); /* taken */
	bad.name = "two words";
	CHECK(pillion_register_filter(&bad) == -1);
	bad.name = "vector", bad.types[1] = OML_VECTOR_DOUBLE_VALUE;
	CHECK(pillion_register_filter(&bad) == -1 && pillion_register_filter(NULL) == -1);
	bad.types[1] = OML_INT64_VALUE, bad.add = NULL;
	CHECK(pillion_register_filter(&bad) == -1);
	CHECK(operation_find("range", OML_STRING_VALUE) == NULL && operation_find("letters", OML_VECTOR_BOOL_VALUE) == NULL);
	open_filter("range", OML_DOUBLE_VALUE);
	add(4), add(-1), add(2);
	CHECK(filter_take(&filter, got) == 2 && same(got[0].real, 5) && got[1].integer == 3 && got[1].type == OML_INT64_VALUE);
	add(7);
	CHECK(filter_take(&filter, got) == 2 && same(got[0].real, 0) && got[1].integer == 1);
	filter_free(&filter);
	open_filter("letters", OML_STRING_VALUE);
	for (int window = 0; window < 2; window++) {
		filter_add(&filter, &(struct value){.type = OML_STRING_VALUE, .bytes = "one", .length = 3});
		filter_add(&filter, &(struct value){.type = OML_STRING_VALUE, .bytes = "two", .length = 3});
		CHECK(filter_take(&filter, got) == 1 && got[0].length == 3 && memcmp(got[0].bytes, "-ot", 3) == 0);
	}
	filter_free(&filter);
}

int main(void)
{
	RUN(numbers);
	RUN(deltas);
	RUN(not_finite);
	RUN(whole_numbers);
	RUN(texts);
	RUN(finding);
	RUN(own_filters);
	END;
}
