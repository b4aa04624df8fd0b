/* Tuples in the text and in the binary encoding of the protocol (OMSP). */
#ifndef PILLION_ENCODE_H
#define PILLION_ENCODE_H

#include "buffer.h"
#include "value.h"

enum content {
	CONTENT_TEXT,
	CONTENT_BINARY,
	CONTENT_IEEE /* binary with IEEE doubles, for a collector that supports them */
};

/* Appends a tuple. time: ns since the start time in the header. Returns 0, or -1 if out of memory or
 * a value exceeds a limit of the encoding. */
int encode_tuple(struct buffer *to, enum content content, int index, int64_t seq, int64_t time,
		 const struct value *values, int count);

/* Returns the size of the binary tuple at packet, and in *head the size of its header, bytes. */
size_t packet_size(const unsigned char *packet, size_t *head);

/* Converts binary tuples with IEEE doubles (CONTENT_IEEE) to the standard encoding (CONTENT_BINARY). */
void encode_plain(struct buffer *tuples);

/* Appends a number or bool as text. */
int encode_scalar(struct buffer *to, const struct value *v);

#endif
