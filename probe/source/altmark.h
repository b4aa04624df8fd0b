/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The altmark encoding: an option of Alternate Marking (RFC 9343) in a Destination Options
 * header. A packet is counted in its block when there is room for the mark.
 */
#ifndef PILLION_SOURCE_ALTMARK_H
#define PILLION_SOURCE_ALTMARK_H

#include "../bpf/block.h"
#include "options.h"
#include "tag.h"

const volatile __u64 block_ns = NS_PER_SECOND; /* length of a block; a multiple of BLOCK_NS */

/* The identifier of a flow, random, in its place in the option. */
static __always_inline __u32 altmark_flow(struct block_counts *b)
{
	__u64 flow = *(volatile __u64 *)&b->flow, fresh;

	if (!flow) {
		fresh = bpf_get_prandom_u32() | BLOCK_FLOW_KNOWN;
		flow = __sync_val_compare_and_swap(&b->flow, 0, fresh);
		if (!flow)
			flow = fresh;
	}
	return (__u32)flow << WIRE_ALTMARK_FLOW_SHIFT;
}

/* Path probes are in no block: their destination does not count them. */
static __always_inline int altmark_is_probe(const struct subject *s)
{
	return s->key.dport == bpf_htons(WIRE_PROBE_PORT) && s->key.protocol == IPPROTO_UDP;
}

/* Counts the packet, and returns the data of its option, or -1 if it cannot be counted. */
static __noinline __s64 altmark_count(struct work *w, __u64 now_ns)
{
	__u64 number = now_ns / block_ns;
	__u32 data = number & 1 ? WIRE_ALTMARK_LOSS : 0;
	struct block_counts *b;
	int entered;

	if (altmark_is_probe(&w->subject))
		return data;
	b = block_counts_of(&w->flow, block_ns);
	if (!b)
		return -1;
	entered = block_enter(b, number, w->room.packets, now_ns);
	if (entered == BLOCK_REFUSED)
		return -1;
	if (entered == BLOCK_FIRST && (modules & WIRE_DELAY)) {
		b->marked_ns[(__u32)number % BLOCKS] = now_ns;
		data |= WIRE_ALTMARK_DELAY;
	}
	return data | altmark_flow(b);
}

static __always_inline int altmark_insert(struct __sk_buff *skb, struct work *w, struct numbering *numbers)
{
	__be32 *at = (__be32 *)w->mark;
	__s64 counted;
	__u32 data, tag;
	int outcome = options_room(skb, w, NEXT_OPTIONS);

	if (outcome)
		return outcome;
	counted = altmark_count(w, clock_utc_ns());
	if (counted < 0)
		return options_undo(skb, w);
	if (modules & WIRE_LOSS)
		numbers->used = bpf_jiffies64();
	data = counted;
	*at++ = bpf_htonl(WIRE_OPTION_ALTMARK << 8 | WIRE_OPTION_ALTMARK_LENGTH);
	*at++ = bpf_htonl(data);
	if (tagged_marks) {
		tag = bpf_ntohl(tag_make(&w->room.key, tag_epoch_now(), bpf_htonl(data), WIRE_TAG_ALTMARK));
		*at++ = bpf_htonl(WIRE_OPTION_MODULE << 24 | (1 + WIRE_MODULE_TAG_LENGTH) << 16 | WIRE_MODULE_TAG << 8 | tag >> 24);
		*at = bpf_htonl(tag << 8);
	}
	return options_store(skb, w, NEXT_OPTIONS);
}

#define ALTMARK_INSERT altmark_insert

#endif
