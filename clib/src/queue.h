/* Encoded tuples that wait to be sent, or to be stored by the collector. */
#ifndef PILLION_QUEUE_H
#define PILLION_QUEUE_H

#include <stdint.h>

#include "buffer.h"

#define CHUNK 65536   /* bytes of tuples that are kept and let go together */
#define STREAMS 256   /* that one collector can tell apart */

struct chunk {
	struct chunk *next;
	struct buffer tuples;
	size_t sent;
	int64_t last[STREAMS]; /* seq of the last tuple of each stream; 0: none */
};

struct queue {
	struct chunk *oldest, *sending, *newest;
	size_t bytes, limit;
	struct chunk *spare;
};

/* The chunk that takes the next tuple; NULL when the queue is full or without memory. */
struct chunk *queue_open(struct queue *q);
/* A tuple of the stream was added to the newest chunk, which had so many bytes before. */
void queue_added(struct queue *q, size_t before, int stream, int64_t seq);
/* What is to be sent next: 0 when there is nothing. */
size_t queue_next(struct queue *q, const unsigned char **bytes);
void queue_sent(struct queue *q, size_t bytes);
/* All that is kept is to be sent again. */
void queue_rewind(struct queue *q);
/* Sending goes on after a cut: the tuple that was cut comes again, whole; what was
 * sent whole counts as received. */
void queue_resume(struct queue *q, int text);
/* Lets go of chunks that were sent whole, and of which every tuple is stored:
 * stored holds the last seq of each stream; NULL: what was sent counts as stored. */
void queue_release(struct queue *q, const int64_t *stored);
/* Nothing of it was sent; its binary tuples become those that everybody reads. */
void queue_plain(struct queue *q);
void queue_free(struct queue *q);

#endif
