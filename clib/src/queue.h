/* Encoded tuples to be sent, or not yet acknowledged by the collector. */
#ifndef PILLION_QUEUE_H
#define PILLION_QUEUE_H

#include <stdint.h>

#include "buffer.h"

#define CHUNK 65536   /* bytes of tuples released together */
#define STREAMS 256   /* limit per collector */

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

/* The chunk for the next tuple; NULL if the queue is full or out of memory. */
struct chunk *queue_open(struct queue *q);
/* Records a tuple added to the newest chunk, which had `before` bytes before it. */
void queue_added(struct queue *q, size_t before, int stream, int64_t seq);
/* The bytes to send next; 0 if none. */
size_t queue_next(struct queue *q, const unsigned char **bytes);
void queue_sent(struct queue *q, size_t bytes);
/* Marks all queued tuples to be retransmitted. */
void queue_rewind(struct queue *q);
/* Resumes after a lost connection: a partially sent tuple is sent again from its
 * start; completely sent ones count as received. */
void queue_resume(struct queue *q, int text);
/* Releases completely sent chunks of which every tuple is stored: stored has the last
 * seq of each stream; NULL: sent tuples count as stored. */
void queue_release(struct queue *q, const int64_t *stored);
/* Converts tuples to the standard binary form; none may have been sent yet. */
void queue_plain(struct queue *q);
void queue_free(struct queue *q);

#endif
