/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Options of Alternate Marking (RFC 9343). Such a mark has neither a number nor a time. That
 * of our source is counted in the block of its packet.
 */
#ifndef PILLION_DESTINATION_ALTMARK_H
#define PILLION_DESTINATION_ALTMARK_H

#include "../bpf/block.h"
#include "option.h"

/* Length of a block, a multiple of BLOCK_NS; 0: blocks are not counted. Written by the agent. */
volatile __u64 block_ns PER_PACKET = NS_PER_SECOND;

volatile __u64 blocks_missed PER_PACKET; /* packets that are in no block although they were received */

static __always_inline int altmark_read(struct mark *m, const struct option *o)
{
	if (o->length != WIRE_OPTION_ALTMARK_LENGTH)
		return OPTION_MALFORMED;
	if (m->hops || !option_belongs(m, WIRE_ENCODING_ALTMARK))
		return OPTION_OTHER;
	m->sequence = bpf_ntohl(*(const __be32 *)o->data); /* what the tag covers */
	m->kind = WIRE_TAG_ALTMARK;
	m->fields |= WIRE_CARRIES_BLOCK;
	if (m->sequence & (WIRE_ALTMARK_DELAY - 1))
		m->foreign = 1;
	return OPTION_READ;
}

/* Is the mark in a block? */
static __always_inline int has_block(const struct mark *m)
{
	return m->fields & WIRE_CARRIES_BLOCK && !m->foreign;
}

/*
 * Counts the packet in the block of its colour that is nearest to the time of arrival. One
 * that arrives a quarter of a block or more outside of its block may be of another one. The
 * flow is locked.
 */
static __noinline int block_arrive(const struct mark *m, const struct flow_key *key, __u64 now_ns, __u32 packets)
{
	__u64 period = block_ns, number, into;
	struct block_counts *b;
	__u32 doubtful = 0, at;

	if (!period)
		return 0;
	number = now_ns / period;
	into = now_ns - number * period;
	if ((number & 1) != !!(m->sequence & WIRE_ALTMARK_LOSS)) {
		if (into >= period / 4 && into < period - period / 4)
			doubtful = packets;
		number += into < period / 2 ? -1 : 1;
	}
	b = block_counts_of(key, period);
	if (!b || block_enter(b, number, packets, now_ns) == BLOCK_REFUSED) {
		__sync_fetch_and_add(&blocks_missed, packets);
		return 0;
	}
	at = (__u32)number % BLOCKS;
	if (doubtful)
		__sync_fetch_and_add(&b->doubtful[at], doubtful);
	if (m->sequence & WIRE_ALTMARK_DELAY)
		__sync_val_compare_and_swap(&b->marked_ns[at], 0, now_ns);
	return 0;
}

#endif
