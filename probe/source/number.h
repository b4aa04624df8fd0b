/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Sequence numbers per flow, for loss, duplication and reordering. */
#ifndef PILLION_SOURCE_NUMBER_H
#define PILLION_SOURCE_NUMBER_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "../../wire/wire.h"
#include "../bpf/flow.h"
#include "outcome.h"

struct numbering {
	__u32 next;   /* modulo 2^31 */
	__u32 zero;
	__u64 used; /* kernel ticks; the agent removes idle flows by it */
};

/* Key: flow. Value: its numbers. Written here; the agent only removes. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flow_key);
	__type(value, struct numbering);
} flow_numbers SEC(".maps");

static __noinline struct numbering *number_start(const struct flow_key *key, struct tally *tally)
{
	struct numbering fresh = {
		.next = (bpf_get_prandom_u32() * WIRE_FLOW_STRIDE) & WIRE_SEQUENCE_MASK,
	};

	if (!key || !tally)
		return 0;
	if (!bpf_map_update_elem(&flow_numbers, key, &fresh, BPF_NOEXIST))
		tally->flows_started++;
	return bpf_map_lookup_elem(&flow_numbers, key);
}

static __always_inline struct numbering *number_flow(const struct flow_key *key, struct tally *tally)
{
	struct numbering *numbers = bpf_map_lookup_elem(&flow_numbers, key);

	return numbers ? numbers : number_start(key, tally);
}

/* The first of count numbers, as it goes on the wire. */
static __always_inline __be32 number_take(struct numbering *numbers, __u32 count)
{
	__u32 first = __sync_fetch_and_add(&numbers->next, count) & WIRE_SEQUENCE_MASK;

	numbers->used = bpf_jiffies64();
	if (count == 1)
		first |= WIRE_SINGLE;
	return bpf_htonl(first);
}

#endif
