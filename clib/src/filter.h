/* One filter of one field: first, last, avg, sum, stddev, delta, or one of the program's. */
#ifndef PILLION_FILTER_H
#define PILLION_FILTER_H

#include "value.h"

#define OUTPUTS PILLION_OUTPUTS /* maximum per filter */
#define OWN_FILTERS 64         /* of the program */

struct filter {
	const struct operation *operation;
	int field;
	OmlValueT type; /* of the field */
	int64_t count;
	/* Sums compensated as by Neumaier; mean and squares as by Welford. */
	double sum, lost, mean, squares, least, most, last;
	double before;     /* last of the window before; 0 in the first one */
	struct value kept; /* of first and last; a copy in room */
	/* The room of a filter of the program has its state. */
	void *room;
	size_t size;
};

/* Finds an operation; NULL if unknown, or not applicable to the type. */
const struct operation *operation_find(const char *name, OmlValueT type);
/* Its outputs: suffixes of the field's name ("" for none) and types. */
int operation_outputs(const struct operation *operation, OmlValueT type, const char *names[OUTPUTS], OmlValueT types[OUTPUTS]);
/* Name of the n-th operation; NULL at the end. */
const char *operation_name(int number);

void filter_add(struct filter *filter, const struct value *value);
/* Writes the values of the window, and starts the next. */
int filter_take(struct filter *filter, struct value *to);
void filter_free(struct filter *filter);

#endif
