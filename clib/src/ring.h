/*
 * A ring of records between the threads that inject and the one that sends.
 *
 * Any number of threads puts records in without locks and without waiting; one
 * thread takes them out in the order in which their room was taken.
 */
#ifndef PILLION_RING_H
#define PILLION_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Head of a record; what was put in follows. */
struct record {
	_Atomic uint32_t size; /* of all of it, bytes; 0 until it is whole */
	uint32_t point;        /* number of the measurement point */
	int64_t time;          /* ns since 1970 */
};

struct ring {
	unsigned char *bytes;
	size_t capacity; /* a power of two */
	_Alignas(64) _Atomic uint64_t head; /* where the next record begins; grows for ever */
	_Alignas(64) _Atomic uint64_t tail; /* where the oldest one does */
};

/* Makes an empty ring; 0, or -1 without memory. */
int ring_open(struct ring *ring, size_t capacity);
void ring_close(struct ring *ring);

/* Takes room for a record with so many bytes behind its head; NULL when the ring is
 * full. The record is seen once ring_put has been called. */
struct record *ring_reserve(struct ring *ring, size_t length);
void ring_put(struct record *record, size_t length);

/* The oldest record if it is whole, or NULL. Only the sending thread calls these. */
struct record *ring_oldest(struct ring *ring);
void ring_release(struct ring *ring, struct record *record);

/* 1 where no thread has, or is about to put, a record. Only the sending thread. */
int ring_is_empty(struct ring *ring);

#endif
