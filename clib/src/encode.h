/* Tuples in the two forms of the protocol. */
#ifndef PILLION_ENCODE_H
#define PILLION_ENCODE_H

#include "buffer.h"
#include "value.h"

enum content {
	CONTENT_TEXT,
	CONTENT_BINARY,
	CONTENT_IEEE /* binary, with whole doubles: for a collector that said it reads them */
};

/* Appends a tuple. time: ns since the start that the header gave. 0, or -1 where
 * there is no memory or the form has no room for a value. */
int encode_tuple(struct buffer *to, enum content content, int index, int64_t seq, int64_t time,
		 const struct value *values, int count);

/* Turns binary tuples with whole doubles into those that everybody reads. */
void encode_plain(struct buffer *tuples);

/* Appends a number or truth value as text. */
int encode_scalar(struct buffer *to, const struct value *v);

#endif
