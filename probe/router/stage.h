/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Histograms of the stages, for each pair of input and output. */
#ifndef PILLION_STAGE_H
#define PILLION_STAGE_H

#include "../bpf/histogram.h"
#include "kernel.h"
#include "packet.h"

/* As in profile.go. */
#define STAGE_INPUT 0
#define STAGE_PROCESSING 1
#define STAGE_OUTPUT 2
#define STAGE_TRANSIT 3
#define STAGE_HOLD 4
#define STAGES 5

struct extremes {
	__u64 low; /* complement of the least time: 0 is none */
	__u64 high;
};

struct bucket {
	__u64 count;
	__u64 offsets; /* sum of time minus the bucket's lower bound */
};

/* The extremes of all stages, which each packet reads, share two cache lines. */
struct pair {
	__u64 bytes;
	__u64 merged;
	struct extremes extremes[STAGES];
	struct bucket buckets[STAGES][HISTOGRAM_SIDE];
};

#define PAIRS_MAX 256
#define PAIR_PROBES 16

/* Set by the loader. */
const volatile __u32 pair_places = 16; /* power of two */
const volatile __u32 shards = 1;       /* copies of each pair, by processor */
const volatile __u32 shared;           /* more processors than copies: sums are atomic */

__u64 pair_keys[PAIRS_MAX]; /* input << 32 | output; 0: free */

/* Key: place of the pair times shards plus shard; the first place is for pairs that found none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pair);
} pairs SEC(".maps");

/*
 * Place of the pair, from 1; 0: no room. A function by itself: the verifier follows the
 * search once, not with everything that comes after it.
 */
__noinline int pair_place(__u32 in, __u32 out)
{
	__u64 key = (__u64)in << 32 | out;
	__u32 first = in * 31 + out;

	for (__u32 i = 0; i < PAIR_PROBES; i++) {
		__u32 place = (first + i) & (pair_places - 1) & (PAIRS_MAX - 1);
		__u64 there = pair_keys[place];

		if (!there)
			there = __sync_val_compare_and_swap(&pair_keys[place], 0, key);
		if (!there || there == key)
			return place + 1;
	}
	return 0;
}

static __always_inline struct pair *pair_of(__u32 in, __u32 out)
{
	__u32 place = (in * 31 + out) & (pair_places - 1) & (PAIRS_MAX - 1);
	__u32 at;

	if (pair_keys[place] == ((__u64)in << 32 | out))
		at = (place + 1) * shards;
	else
		at = pair_place(in, out) * shards;
	if (shards > 1)
		at += bpf_get_smp_processor_id() & (shards - 1);
	return bpf_map_lookup_elem(&pairs, &at);
}

static __always_inline void sum_up(__u64 *counter, __u64 n)
{
	if (shared)
		__sync_fetch_and_add(counter, n);
	else
		*counter += n;
}

/* An extreme gets past others that are set at the same time, unless there are many. */
static __always_inline void raise(__u64 *extreme, __u64 ns)
{
	__u64 there = *extreme;

	for (int i = 0; ns > there && i < 8; i++) {
		__u64 found;

		if (!shared) {
			*extreme = ns;
			return;
		}
		found = __sync_val_compare_and_swap(extreme, there, ns);
		if (found == there)
			return;
		there = found;
	}
}

static __always_inline void observe(struct extremes *extremes, struct bucket *buckets, __u64 ns)
{
	__u64 inside;
	__u32 bucket = histogram_side(ns, &inside);

	if (bucket < HISTOGRAM_SIDE) {
		sum_up(&buckets[bucket].count, 1);
		sum_up(&buckets[bucket].offsets, ns & inside);
	}
	raise(&extremes->low, ~ns);
	raise(&extremes->high, ns);
}

#endif
