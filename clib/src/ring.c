#include "ring.h"

#include <stdlib.h>
#include <string.h>

#define UNIT 16u             /* alignment of records */
#define PADDING 0x80000000u  /* in size: padding up to the end of the ring */

static size_t whole(size_t length)
{
	return (sizeof(struct record) + length + UNIT - 1) & ~(size_t)(UNIT - 1);
}

int ring_open(struct ring *ring, size_t capacity)
{
	size_t size = 4096;

	while (size < capacity)
		size *= 2;
	ring->bytes = aligned_alloc(64, size);
	if (!ring->bytes)
		return -1;
	memset(ring->bytes, 0, size); /* also faults the pages in, so that omlc_inject does not */
	ring->capacity = size;
	atomic_init(&ring->head, 0);
	atomic_init(&ring->tail, 0);
	return 0;
}

void ring_close(struct ring *ring)
{
	free(ring->bytes);
	ring->bytes = NULL;
}

struct record *ring_reserve(struct ring *ring, size_t length)
{
	size_t need = whole(length);

	if (length > ring->capacity / 2)
		return NULL;
	for (;;) {
		/* The tail first: a head loaded later is never behind it. */
		uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
		uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
		size_t at = head & (ring->capacity - 1);
		size_t padding = ring->capacity - at < need ? ring->capacity - at : 0;

		if (head + padding + need - tail > ring->capacity) {
			if (tail != atomic_load_explicit(&ring->tail, memory_order_acquire))
				continue; /* there is room now */
			return NULL;
		}
		if (!atomic_compare_exchange_weak_explicit(&ring->head, &head, head + padding + need,
							   memory_order_relaxed, memory_order_relaxed))
			continue;
		if (padding == 0)
			return (struct record *)(ring->bytes + at);
		atomic_store_explicit(&((struct record *)(ring->bytes + at))->size, PADDING | (uint32_t)padding,
				      memory_order_release);
		return (struct record *)ring->bytes;
	}
}

void ring_put(struct record *record, size_t length)
{
	atomic_store_explicit(&record->size, (uint32_t)whole(length), memory_order_release);
}

int ring_is_empty(struct ring *ring)
{
	return atomic_load(&ring->head) == atomic_load(&ring->tail);
}

struct record *ring_oldest(struct ring *ring)
{
	for (;;) {
		uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
		struct record *record = (struct record *)(ring->bytes + (tail & (ring->capacity - 1)));
		uint32_t size = atomic_load_explicit(&record->size, memory_order_acquire);

		if (size == 0)
			return NULL;
		if (!(size & PADDING))
			return record;
		atomic_store_explicit(&record->size, 0, memory_order_relaxed);
		atomic_store_explicit(&ring->tail, tail + (size & ~PADDING), memory_order_release);
	}
}

/* Cleared, because the next record may start anywhere in this memory, and its size must
 * be 0 until it is complete. */
void ring_release(struct ring *ring, struct record *record)
{
	uint32_t size = atomic_load_explicit(&record->size, memory_order_relaxed);
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	memset(record, 0, size);
	atomic_store_explicit(&ring->tail, tail + size, memory_order_release);
}
