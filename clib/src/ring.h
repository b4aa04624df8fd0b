/*
 * A lock-free ring buffer from injecting threads to the sending thread.
 *
 * Any number of threads add records without blocking; one thread removes them in the
 * order of their reservation.
 */
#ifndef PILLION_RING_H
#define PILLION_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Header of a record; the payload follows. */
struct record {
	_Atomic uint32_t size; /* total, bytes; 0 until it is complete */
	uint32_t point;        /* number of the measurement point */
	int64_t time;          /* ns since 1970 */
};

struct ring {
	unsigned char *bytes;
	size_t capacity; /* a power of two */
	_Alignas(64) _Atomic uint64_t head; /* offset of the next record; monotonic */
	_Alignas(64) _Atomic uint64_t tail; /* offset of the oldest one */
};

/* Creates an empty ring; 0, or -1 if out of memory. */
int ring_open(struct ring *ring, size_t capacity);
void ring_close(struct ring *ring);

/* Reserves a record with length bytes of payload; NULL if the ring is full. It becomes
 * visible with ring_put. */
struct record *ring_reserve(struct ring *ring, size_t length);
void ring_put(struct record *record, size_t length);

/* The oldest record if complete, or NULL. Only for the sending thread. */
struct record *ring_oldest(struct ring *ring);
void ring_release(struct ring *ring, struct record *record);

/* 1 if there is no record, complete or reserved. Only for the sending thread. */
int ring_is_empty(struct ring *ring);

#endif
