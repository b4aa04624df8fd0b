#include "filter.h"

#include <math.h>
#include <stdlib.h>

struct operation {
	const char *name;
	int numbers; /* accepts only numbers */
	int count;
	const char *outputs[OUTPUTS];
	OmlValueT types[OUTPUTS];
	void (*take)(const struct filter *filter, struct value *to);
};

static struct value real(double x)
{
	return (struct value){.type = OML_DOUBLE_VALUE, .real = x};
}

static void take_kept(const struct filter *f, struct value *to)
{
	to[0] = f->kept;
}

static void take_avg(const struct filter *f, struct value *to)
{
	to[0] = real((f->sum + f->lost) / (double)f->count);
	to[1] = real(f->least);
	to[2] = real(f->most);
}

static void take_sum(const struct filter *f, struct value *to)
{
	to[0] = real(f->sum + f->lost);
}

/* Undefined for one value: NaN, as the protocol has no null. */
static void take_stddev(const struct filter *f, struct value *to)
{
	double variance = f->count > 1 ? f->squares / (double)(f->count - 1) : NAN;

	to[0] = real(sqrt(variance));
	to[1] = real(variance);
}

static void take_delta(const struct filter *f, struct value *to)
{
	to[0] = real(f->last - f->first);
	to[1] = real(f->last);
}

static const struct operation operations[] = {
	{"first", 0, 1, {""}, {OML_INPUT_VALUE}, take_kept},
	{"last", 0, 1, {"last"}, {OML_INPUT_VALUE}, take_kept},
	{"avg", 1, 3, {"avg", "min", "max"}, {OML_DOUBLE_VALUE, OML_DOUBLE_VALUE, OML_DOUBLE_VALUE}, take_avg},
	{"sum", 1, 1, {"sum"}, {OML_DOUBLE_VALUE}, take_sum},
	{"stddev", 1, 2, {"stddev", "variance"}, {OML_DOUBLE_VALUE, OML_DOUBLE_VALUE}, take_stddev},
	{"delta", 1, 2, {"delta", "last"}, {OML_DOUBLE_VALUE, OML_DOUBLE_VALUE}, take_delta},
};

#define COUNT (sizeof operations / sizeof *operations)

const struct operation *operation_find(const char *name, OmlValueT type)
{
	if (!name)
		name = omlc_is_numeric_type(type) ? "avg" : "first";
	for (size_t i = 0; i < COUNT; i++)
		if (strcmp(operations[i].name, name) == 0)
			return operations[i].numbers && !omlc_is_numeric_type(type) ? NULL : &operations[i];
	return NULL;
}

int operation_outputs(const struct operation *o, OmlValueT type, const char *names[OUTPUTS], OmlValueT types[OUTPUTS])
{
	for (int i = 0; i < o->count; i++) {
		names[i] = o->outputs[i];
		types[i] = o->types[i] == OML_INPUT_VALUE ? type : o->types[i];
	}
	return o->count;
}

const char *operation_name(int number)
{
	return (size_t)number < COUNT ? operations[number].name : NULL;
}

/* Keeps a copy: the memory of the sample is reused. */
static void keep(struct filter *f, const struct value *v)
{
	size_t length = omlc_is_vector_type(v->type) ? v->length * 8 : v->length;

	f->kept = *v;
	if (!type_is_long(v->type))
		return;
	if (pillion_keep(&f->room, &f->size, v->bytes, length, length) < 0)
		f->kept.length = 0;
	f->kept.bytes = f->room;
}

static double as_real(const struct value *v)
{
	if (v->type == OML_DOUBLE_VALUE)
		return v->real;
	return v->type == OML_UINT32_VALUE || v->type == OML_UINT64_VALUE ? (double)v->natural : (double)v->integer;
}

static void add_number(struct filter *f, double x)
{
	double sum, before = f->mean;

	if (f->count == 1) {
		f->first = f->least = f->most = x;
		f->sum = f->lost = f->mean = f->squares = before = 0;
	}
	sum = f->sum + x;
	f->lost += fabs(f->sum) >= fabs(x) ? (f->sum - sum) + x : (x - sum) + f->sum;
	f->sum = sum;
	f->mean = before + (x - before) / (double)f->count;
	f->squares += (x - before) * (x - f->mean);
	f->least = x < f->least ? x : f->least;
	f->most = x > f->most ? x : f->most;
	f->last = x;
}

void filter_add(struct filter *f, const struct value *v)
{
	f->count++;
	if (f->operation->take != take_kept)
		add_number(f, as_real(v));
	else if (f->count == 1 || f->operation->outputs[0][0] != '\0')
		keep(f, v);
}

int filter_take(struct filter *f, struct value *to)
{
	f->operation->take(f, to);
	f->count = 0;
	return f->operation->count;
}

void filter_free(struct filter *f)
{
	free(f->room);
}
