#include "buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned char *buffer_room(struct buffer *b, size_t more)
{
	if (!b->bytes || b->size - b->used < more) {
		size_t size = b->size ? b->size : 256;
		unsigned char *bytes;

		while (size - b->used < more)
			size *= 2;
		bytes = realloc(b->bytes, size);
		if (!bytes)
			return NULL;
		b->bytes = bytes;
		b->size = size;
	}
	return b->bytes + b->used;
}

int buffer_add(struct buffer *b, const void *bytes, size_t length)
{
	unsigned char *to = buffer_room(b, length);

	if (!to)
		return -1;
	if (length > 0)
		memcpy(to, bytes, length);
	b->used += length;
	return 0;
}

int buffer_print(struct buffer *b, const char *format, ...)
{
	va_list values;
	int length;
	unsigned char *to;

	va_start(values, format);
	length = vsnprintf(NULL, 0, format, values);
	va_end(values);
	to = length < 0 ? NULL : buffer_room(b, (size_t)length + 1);
	if (!to)
		return -1;
	va_start(values, format);
	vsnprintf((char *)to, (size_t)length + 1, format, values);
	va_end(values);
	b->used += (size_t)length;
	return 0;
}

void buffer_free(struct buffer *b)
{
	free(b->bytes);
	memset(b, 0, sizeof *b);
}
