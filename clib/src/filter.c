#include "filter.h"

#include <math.h>
#include <stdlib.h>

#include "library.h"

struct operation {
	const char *name;
	int numbers; /* accepts only numbers */
	int count;
	const char *outputs[OUTPUTS];
	OmlValueT types[OUTPUTS];
	void (*take)(const struct filter *filter, struct value *to); /* NULL: of the program */
};

static struct value real(double x)
{
	return (struct value){.type = OML_DOUBLE_VALUE, .real = x};
}

static void take_kept(const struct filter *f, struct value *to)
{
	to[0] = f->kept;
}

/* The compensation is not a number once the sum is infinite. */
static double total(const struct filter *f)
{
	return isinf(f->sum) ? f->sum : f->sum + f->lost;
}

static void take_avg(const struct filter *f, struct value *to)
{
	to[0] = real(total(f) / (double)f->count);
	to[1] = real(f->least);
	to[2] = real(f->most);
}

static void take_sum(const struct filter *f, struct value *to)
{
	to[0] = real(total(f));
}

/* Undefined for one value: NaN, as the protocol has no null. */
static void take_stddev(const struct filter *f, struct value *to)
{
	double variance = f->count > 1 ? f->squares / (double)(f->count - 1) : NAN;

	to[0] = real(sqrt(variance));
	to[1] = real(variance);
}

/* Of a counter: deltas add up to its last value. */
static void take_delta(const struct filter *f, struct value *to)
{
	to[0] = real(f->last - f->before);
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

/* Filters of the program; guarded by the library's lock, and not changed once it runs. */
static struct operation own[OWN_FILTERS];
static PillionFilter own_filters[OWN_FILTERS];
static size_t own_count;

static const PillionFilter *filter_of(const struct operation *o)
{
	return &own_filters[o - own];
}

/* The n-th of all; NULL at the end. */
static const struct operation *operation_at(size_t n)
{
	return n < COUNT ? &operations[n] : n - COUNT < own_count ? &own[n - COUNT] : NULL;
}

static int applies(const struct operation *o, OmlValueT type)
{
	return omlc_is_numeric_type(type) || (!o->numbers && (o->take || !omlc_is_vector_type(type)));
}

const struct operation *operation_find(const char *name, OmlValueT type)
{
	const struct operation *o;

	if (!name)
		name = omlc_is_numeric_type(type) ? "avg" : "first";
	for (size_t i = 0; (o = operation_at(i)); i++)
		if (strcmp(o->name, name) == 0)
			return applies(o, type) ? o : NULL;
	return NULL;
}

static const char *operation_fault(const PillionFilter *f)
{
	int n = 0;

	if (!f || !valid_name(f->name) || !f->add || !f->take || !f->suffixes[0])
		return "name, suffixes, add and take are required";
	for (; n < OUTPUTS && f->suffixes[n]; n++)
		if (f->types[n] != OML_INPUT_VALUE && (!type_name(f->types[n]) || omlc_is_vector_type(f->types[n]) || omlc_is_blob_type(f->types[n])))
			return "outputs are numbers, bool, guid or string";
	for (size_t i = 0; operation_at(i); i++)
		if (strcmp(operation_at(i)->name, f->name) == 0)
			return "the name is taken";
	if (atomic_load(&library.stage) > STAGE_READY)
		return "register it before omlc_start";
	return own_count == OWN_FILTERS ? "too many filters" : NULL;
}

int pillion_register_filter(const PillionFilter *f)
{
	const char *fault;

	library_lock();
	fault = operation_fault(f);
	if (!fault) {
		struct operation *o = &own[own_count];

		own_filters[own_count++] = *f;
		*o = (struct operation){.name = f->name, .numbers = !f->any};
		for (; o->count < OUTPUTS && f->suffixes[o->count]; o->count++) {
			o->outputs[o->count] = f->suffixes[o->count];
			o->types[o->count] = f->types[o->count];
		}
	}
	library_unlock();
	if (fault)
		logerror("oml: filter %s: %s\n", f && f->name ? f->name : "(null)", fault);
	return fault ? -1 : 0;
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
	const struct operation *o = operation_at((size_t)number);

	return o ? o->name : NULL;
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
		f->least = f->most = x;
		f->sum = f->lost = f->mean = f->squares = before = 0;
	}
	sum = f->sum + x;
	f->lost += fabs(f->sum) >= fabs(x) ? (f->sum - sum) + x : (x - sum) + f->sum;
	f->sum = sum;
	f->mean = before + (x - before) / (double)f->count;
	f->squares += (x - before) * (x - f->mean);
	f->least = x < f->least || isnan(f->least) ? x : f->least;
	f->most = x > f->most || isnan(f->most) ? x : f->most;
	f->last = x;
}

/* Passes a value to a filter of the program. */
static void add_own(struct filter *f, const struct value *v)
{
	const PillionFilter *o = filter_of(f->operation);
	OmlValue value = {.type = v->type};

	if (!f->room)
		f->room = calloc(1, o->state > 0 ? o->state : 1);
	if (!f->room)
		abort(); /* out of memory */
	if (f->count == 1 && o->begin)
		o->begin(f->room);
	switch (v->type) {
	case OML_DOUBLE_VALUE:
		omlc_set_double(value.value, v->real);
		break;
	case OML_STRING_VALUE:
		value.value.stringValue = (OmlString){.ptr = (char *)v->bytes, .length = v->length, .is_const = 1};
		break;
	case OML_BLOB_VALUE:
		value.value.blobValue = (OmlBlob){.ptr = (void *)v->bytes, .length = v->length};
		break;
	case OML_LONG_VALUE:
		omlc_set_long(value.value, v->integer);
		break;
	case OML_INT32_VALUE:
		omlc_set_int32(value.value, v->integer);
		break;
	case OML_INT64_VALUE:
		omlc_set_int64(value.value, v->integer);
		break;
	case OML_UINT32_VALUE:
		omlc_set_uint32(value.value, v->natural);
		break;
	case OML_BOOL_VALUE:
		omlc_set_bool(value.value, v->natural);
		break;
	default: /* uint64 and guid */
		omlc_set_uint64(value.value, v->natural);
	}
	o->add(f->room, &value);
}

static void take_own(struct filter *f, struct value *to)
{
	const struct operation *o = f->operation;
	OmlValueU outputs[OUTPUTS];

	memset(outputs, 0, sizeof outputs);
	filter_of(o)->take(f->room, outputs);
	for (int i = 0; i < o->count; i++)
		value_of(&to[i], o->types[i] == OML_INPUT_VALUE ? f->type : o->types[i], &outputs[i]);
	if (!filter_of(o)->begin)
		memset(f->room, 0, filter_of(o)->state);
}

void filter_add(struct filter *f, const struct value *v)
{
	f->count++;
	if (!f->operation->take)
		add_own(f, v);
	else if (f->operation->take != take_kept)
		add_number(f, as_real(v));
	else if (f->count == 1 || f->operation->outputs[0][0] != '\0')
		keep(f, v);
}

int filter_take(struct filter *f, struct value *to)
{
	if (f->operation->take)
		f->operation->take(f, to);
	else
		take_own(f, to);
	f->before = f->last;
	f->count = 0;
	return f->operation->count;
}

void filter_free(struct filter *f)
{
	free(f->room);
}
