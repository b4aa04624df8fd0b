/* Filters: what becomes of the samples of a window. */
#ifndef PILLION_WINDOW_H
#define PILLION_WINDOW_H

#include "library.h"

/* The filters of a point for which the user named only a length of the window: avg
 * of numbers, first of the rest. The fields are the caller's to free. 0 or -1. */
int window_default(struct OmlMP *point, struct window **window, struct field **fields, int *count);
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
