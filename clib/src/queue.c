#include "queue.h"

#include <stdlib.h>
#include <string.h>

#include "encode.h"

struct chunk *queue_open(struct queue *q)
{
	struct chunk *c = q->newest;

	if (c && c->tuples.used < CHUNK)
		return c;
	if (q->bytes >= q->limit)
		return NULL;
	c = q->spare;
	q->spare = NULL;
	if (!c)
		c = calloc(1, sizeof *c);
	if (!c || !buffer_room(&c->tuples, CHUNK + CHUNK / 4)) {
		free(c);
		return NULL;
	}
	if (q->newest)
		q->newest->next = c;
	else
		q->oldest = c;
	q->newest = c;
	if (!q->sending)
		q->sending = c;
	return c;
}

void queue_added(struct queue *q, size_t before, int stream, int64_t seq)
{
	q->bytes += q->newest->tuples.used - before;
	q->newest->last[stream] = seq;
}

size_t queue_next(struct queue *q, const unsigned char **bytes)
{
	while (q->sending && q->sending->sent == q->sending->tuples.used && q->sending->next)
		q->sending = q->sending->next;
	if (!q->sending)
		return 0;
	*bytes = q->sending->tuples.bytes + q->sending->sent;
	return q->sending->tuples.used - q->sending->sent;
}

void queue_sent(struct queue *q, size_t bytes)
{
	q->sending->sent += bytes;
}

void queue_rewind(struct queue *q)
{
	for (struct chunk *c = q->oldest; c; c = c->next)
		c->sent = 0;
	q->sending = q->oldest;
}

/* The start of the tuple that contains the byte at an offset. */
static size_t tuple_at(const struct chunk *c, size_t at, int text)
{
	size_t begin = 0, end = 0, head;
	const unsigned char *b = c->tuples.bytes;

	while (end < c->tuples.used) {
		begin = end;
		if (text) {
			const unsigned char *line = memchr(b + begin, '\n', c->tuples.used - begin);

			end = line ? (size_t)(line + 1 - b) : c->tuples.used;
		} else {
			end = begin + packet_size(b + begin, &head);
		}
		if (end > at)
			return begin;
	}
	return end;
}

void queue_resume(struct queue *q, int text)
{
	if (q->sending)
		q->sending->sent = tuple_at(q->sending, q->sending->sent, text);
}

void queue_plain(struct queue *q)
{
	for (struct chunk *c = q->oldest; c; c = c->next) {
		size_t before = c->tuples.used;

		encode_plain(&c->tuples);
		q->bytes -= before - c->tuples.used;
	}
}

static int all_stored(const struct chunk *c, const int64_t *stored)
{
	/* Stored tuples need not be sent again, but a partially sent chunk must be completed. */
	if (c->sent < c->tuples.used && (!stored || c->sent > 0))
		return 0;
	for (int i = 0; stored && i < STREAMS; i++)
		if (c->last[i] > stored[i])
			return 0;
	return 1;
}

static void chunk_free(struct chunk *c)
{
	if (c)
		buffer_free(&c->tuples);
	free(c);
}

void queue_release(struct queue *q, const int64_t *stored)
{
	while (q->oldest && all_stored(q->oldest, stored)) {
		struct chunk *c = q->oldest;

		q->oldest = c->next;
		q->bytes -= c->tuples.used;
		if (q->sending == c)
			q->sending = c->next;
		if (q->newest == c)
			q->newest = NULL;
		chunk_free(q->spare);
		c->tuples.used = c->sent = 0;
		c->next = NULL;
		memset(c->last, 0, sizeof c->last);
		q->spare = c;
	}
}

void queue_free(struct queue *q)
{
	while (q->oldest) {
		struct chunk *c = q->oldest;

		q->oldest = c->next;
		chunk_free(c);
	}
	chunk_free(q->spare);
	memset(q, 0, sizeof *q);
}
