/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Blocks of Alternate Marking (RFC 9341): how many packets of a flow have the colour of a
 * period of time. Source and destination count alike; the agent reads the counts of blocks
 * that are over, and compares them.
 *
 * Blocks are numbered from 1970 on, UTC, and the lowest bit is the colour. There is room for
 * four periods, so that one that is over stays for longer than a period.
 */
#ifndef PILLION_BLOCK_H
#define PILLION_BLOCK_H

#include "../module/module.h"
#include "clock.h"

#define BLOCKS 4
#define BLOCK_TRIES 16 /* as many times other processors may count a packet at the same moment */

/* What a struct module_state keeps of the blocks of a flow. */
struct block_counts {
	__u64 counts[BLOCKS];	 /* by number modulo BLOCKS: lower half of the number, and packets */
	__u64 marked_ns[BLOCKS]; /* UTC: when the packet with D left or arrived; zero: none did */
	__u64 doubtful[BLOCKS];	 /* packets that may be in another block */
	__u64 flow;		 /* source: FlowMonID, and BLOCK_FLOW_KNOWN */
	__u64 zero[MODULE_WORDS - 3 * BLOCKS - 1];
	__u64 last_ns; /* when the last block began to be counted */
};

_Static_assert(sizeof(struct block_counts) == sizeof(struct module_state), "what the map has room for");

#define BLOCK_FLOW_KNOWN (1ull << 32)
#define BLOCK_NS 1000000ull /* periods are a multiple of this */

/* The counts of a flow by blocks of one length: another length has counts of its own. */
static __always_inline struct block_counts *block_counts_of(const struct flow_key *flow, __u64 period_ns)
{
	return (void *)module_state_of(flow, MODULE_BLOCKS | (__u32)(period_ns / BLOCK_NS) << 8);
}

#define BLOCK_BEHIND (-2 * BLOCKS) /* a clock that is further behind was set back */

#define BLOCK_REFUSED -1 /* not counted: it is over, or other processors keep this one from it */
#define BLOCK_FIRST 0	 /* of the block */
#define BLOCK_NEXT 1

/* Counts packets in one step, so that none is in a block that the agent has read. */
static __always_inline int block_enter(struct block_counts *b, __u32 number, __u32 packets, __u64 now_ns)
{
	__u64 *count = &b->counts[number % BLOCKS];

	for (__u32 i = 0; i < BLOCK_TRIES; i++) {
		__u64 was = *(volatile __u64 *)count, now = was + packets;
		__s32 ahead = number - (__u32)(was >> 32);

		if (was && ahead < 0 && ahead >= BLOCK_BEHIND)
			return BLOCK_REFUSED;
		if (ahead || !was)
			now = (__u64)number << 32 | packets;
		if (__sync_val_compare_and_swap(count, was, now) != was)
			continue;
		if (was && !ahead)
			return BLOCK_NEXT;
		b->marked_ns[number % BLOCKS] = b->doubtful[number % BLOCKS] = 0;
		b->last_ns = now_ns;
		return BLOCK_FIRST;
	}
	return BLOCK_REFUSED;
}

#endif
