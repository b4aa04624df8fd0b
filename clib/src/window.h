/* Filters: what becomes of the samples of a window. */
#ifndef PILLION_WINDOW_H
#define PILLION_WINDOW_H

#include "library.h"

/* How a filter is asked for. */
struct filter_spec {
	const char *field;
	const char *operation; /* NULL: avg of numbers, first of the rest */
	const char *rename;    /* NULL: the field's name */
};

/* Makes the filters of a point, with the fields that they give, which are the
 * caller's to free with fields_free. Windows end after so many samples or, without
 * them, after so many seconds. 0, or -1 with a message. */
int window_open(struct OmlMP *point, const struct filter_spec *specs, int count, int samples, double interval,
		struct window **window, struct field **fields, int *field_count);
/* The same for a point for which the user named only a length of the window. */
int window_default(struct OmlMP *point, struct window **window, struct field **fields, int *count);
void fields_free(struct field *fields, int count);
/* Prints the filters with what they give. */
void filters_list(void);
/* Takes a sample; sends a tuple when the window is full. */
void window_add(struct stream *stream, int64_t time, const struct value *values);
/* Ends the windows whose time is over, of all streams. */
void windows_turn(int64_t now);
/* Ends all windows that hold something. */
void windows_flush(void);
void window_free(struct window *window);

#endif
