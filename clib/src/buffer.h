/* A growing byte buffer. */
#ifndef PILLION_BUFFER_H
#define PILLION_BUFFER_H

#include <stddef.h>

struct buffer {
	unsigned char *bytes;
	size_t used, size;
};

/* Reserves more bytes; NULL if out of memory. */
unsigned char *buffer_room(struct buffer *b, size_t more);
/* Appends; 0, or -1 if out of memory. */
int buffer_add(struct buffer *b, const void *bytes, size_t length);
/* Appends formatted text. */
int buffer_print(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_free(struct buffer *b);

#endif
