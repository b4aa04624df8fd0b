/* The ring under threads: what is put in comes out once, whole and in order. */
#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "ring.h"

#define THREADS 8
#ifndef EACH
#define EACH 20000
#endif

static struct ring ring;
static _Atomic uint64_t refused;

static size_t length_of(uint64_t n)
{
	return 16 + n * 7 % 113;
}

static void *fill(void *number)
{
	uint32_t me = (uint32_t)(uintptr_t)number;

	for (uint64_t n = 0; n < EACH;) {
		struct record *r = ring_reserve(&ring, length_of(n));
		unsigned char *to;

		if (!r) {
			atomic_fetch_add(&refused, 1);
			sched_yield();
			continue;
		}
		r->point = me;
		r->time = (int64_t)n;
		to = (unsigned char *)(r + 1);
		memset(to, (int)(n & 0xFF), length_of(n));
		ring_put(r, length_of(n));
		n++;
	}
	return NULL;
}

static int is_whole(const struct record *r)
{
	const unsigned char *from = (const unsigned char *)(r + 1);

	for (size_t i = 0; i < length_of((uint64_t)r->time); i++)
		if (from[i] != (unsigned char)r->time)
			return 0;
	return 1;
}

static void threads(void)
{
	pthread_t all[THREADS];
	int64_t next[THREADS] = {0};
	uint64_t taken = 0, wrong = 0;

	CHECK(ring_open(&ring, 8192) == 0); /* so small that it is full and wraps all the time */
	for (int i = 0; i < THREADS; i++)
		pthread_create(&all[i], NULL, fill, (void *)(uintptr_t)i);
	while (taken < (uint64_t)THREADS * EACH) {
		struct record *r = ring_oldest(&ring);

		if (!r) {
			sched_yield();
			continue;
		}
		wrong += r->point >= THREADS || r->time != next[r->point]++ || !is_whole(r);
		ring_release(&ring, r);
		taken++;
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(all[i], NULL);
	CHECK(wrong == 0);
	CHECK(ring_oldest(&ring) == NULL);
	CHECK(ring_is_empty(&ring));
	CHECK(refused > 0);
	ring_close(&ring);
}

static void full(void)
{
	int n = 0;
	struct record *r;

	CHECK(ring_open(&ring, 1) == 0);
	CHECK(ring.capacity == 4096);
	CHECK(ring_reserve(&ring, 2049) == NULL); /* never fits */
	while ((r = ring_reserve(&ring, 48))) {
		ring_put(r, 48);
		n++;
	}
	CHECK(n == 64);
	ring_release(&ring, ring_oldest(&ring));
	CHECK((r = ring_reserve(&ring, 48)) != NULL);
	CHECK(ring_reserve(&ring, 0) == NULL);
	ring_close(&ring);
}

/* A record that is not whole hides those behind it. */
static void order(void)
{
	struct record *first, *second;

	CHECK(ring_open(&ring, 4096) == 0);
	first = ring_reserve(&ring, 8);
	second = ring_reserve(&ring, 8);
	ring_put(second, 8);
	CHECK(ring_oldest(&ring) == NULL);
	CHECK(!ring_is_empty(&ring));
	ring_put(first, 8);
	CHECK(ring_oldest(&ring) == first);
	ring_release(&ring, first);
	CHECK(ring_oldest(&ring) == second);
	ring_close(&ring);
}

int main(void)
{
	RUN(full);
	RUN(order);
	RUN(threads);
	END;
}
