/* Windows: filters applied to groups of samples. */
#ifndef PILLION_WINDOW_H
#define PILLION_WINDOW_H

#include "library.h"

/* Specification of a filter. */
struct filter_spec {
	const char *field;
	const char *operation; /* NULL: avg of numbers, first of other types */
	const char *rename;    /* NULL: the field's name */
};

/* Creates the filters of a point's or a stream's fields, named for messages, and their
 * output fields, which the caller frees with fields_free. A window ends after a number of samples or, if that is 0, after an
 * interval in seconds. 0, or -1 with a message. */
int window_open(const char *name, const struct field *inputs, int input_count, const struct filter_spec *specs, int count,
		int samples, double interval, struct window **window, struct field **fields, int *field_count);
/* The same with the default filters and window of the options. */
int window_default(struct OmlMP *point, struct window **window, struct field **fields, int *count);
void fields_free(struct field *fields, int count);
/* Prints the filters with their outputs. */
void filters_list(void);
/* Adds a sample; sends a tuple when the window is full. */
void window_add(struct stream *stream, int64_t time, const struct value *values);
/* Ends the windows of all streams whose interval is over. */
void windows_expire(int64_t now);
/* Ends all non-empty windows. */
void windows_flush(void);
/* Sets the length of later windows, ns. */
void window_set(struct stream *stream, int64_t interval);
/* Ends the window now, unless it is empty. */
void window_end(struct stream *stream);
void window_free(struct window *window);

#endif
