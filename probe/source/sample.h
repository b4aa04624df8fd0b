/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which of the matching packets to mark (PSAMP, RFC 5475): systematic
 * count-based, uniform random, systematic time-based. The agent changes the
 * three while traffic flows; a packet must pass all that are set. A
 * segmentation buffer is one unit.
 */
#ifndef PILLION_SOURCE_SAMPLE_H
#define PILLION_SOURCE_SAMPLE_H

#include "../bpf/packet.h"

volatile __u32 sample_every PER_PACKET = 1; /* 1-in-N; 0 and 1: all */
volatile __u32 sample_random PER_PACKET;	 /* probability in 2^-32; 0: all */
volatile __u64 sample_gap_ns PER_PACKET;	 /* at most one in this time; 0: no limit */

/* When the time-based sampler may choose again; CLOCK_MONOTONIC ns. */
__u64 sample_next_ns;

/* Per CPU, so that senders on many cores do not wait for each other. */
struct sample_count {
	__u32 since; /* matching packets since the last one that was chosen */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample_count);
} sample_counts SEC(".maps");

static __always_inline int sample_by_count(__u32 every)
{
	__u32 zero = 0;
	struct sample_count *count = bpf_map_lookup_elem(&sample_counts, &zero);

	if (!count)
		return 0;
	if (++count->since < every)
		return 0;
	count->since = 0;
	return 1;
}

static __always_inline int sample_by_time(__u64 gap_ns)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 next = *(volatile __u64 *)&sample_next_ns;

	return now >= next && __sync_val_compare_and_swap(&sample_next_ns, next, now + gap_ns) == next;
}

static __always_inline int sample(void)
{
	__u32 every = sample_every;
	__u32 random = sample_random;
	__u64 gap_ns = sample_gap_ns;

	if (every > 1 && !sample_by_count(every))
		return 0;
	if (random && bpf_get_prandom_u32() >= random)
		return 0;
	return !gap_ns || sample_by_time(gap_ns);
}

#endif
