/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The source's state of a flow: sequence numbers, and the results of the last checks. */
#ifndef PILLION_SOURCE_NUMBER_H
#define PILLION_SOURCE_NUMBER_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "../../wire/wire.h"
#include "../bpf/tag.h"
#include "outcome.h"

/* Bit by number: encodings that occur in the list. The verifier removes the code of others. */
const volatile __u32 encodings_used;

#define ENCODING_USED(name) (encodings_used & 1u << WIRE_ENCODING_##name)

/* Which packets of a flow are stamped: see stamp.h. */
struct stamping {
	__u16 second; /* start of the current second, in units of 2^stamp_shift ticks */
	__u16 count;  /* packets in the current second, up to STAMP_FAST */
	__u16 left;   /* packets until the next time stamp; 0: every packet has one */
	__u8 hold;    /* slow seconds until every packet has a time stamp again */
	__u8 state;   /* STAMP_SETTLED, STAMP_DONE, STAMP_BEGUN */
};

/* State of the TCP sender of a flow: see retransmit.h. */
struct sending {
	__u32 top;     /* sequence number behind all data */
	__u32 watched; /* sequence number of the watched segment */
	__u16 largest; /* size of the largest packet without its mark, bytes; 0: nothing was sent */
	__u8 when;     /* the watched segment was sent; 0: none is watched */
	__u8 failed;   /* watched segments in a row that were retransmitted */
};

#define STAMP_BEGUN 4 /* of state: packets of the flow have numbers */

/* The bits of a judgement that are the policy. */
#define JUDGEMENT_POLICY(judgement) ((__u32)((judgement) >> 44) & (POLICIES_MAX - 1))

struct numbering {
	__u32 next;	/* modulo 2^31 */
	__u32 used;	/* time of the last packet, kernel ticks; flows expire by it */
	__u64 judgement; /* see verdict.h */
	struct stamping stamping;
	struct mark_key key; /* if key_state is rules_state: see tag.h */
	__u32 key_state;
	__u32 sampled; /* packets that sampling counted, and a random number: see sample.h */
	__u32 first; /* initial value of next */
	struct sending sending;
};

/* Key: flow. Value: its numbers. Written here; the agent only removes. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flow_key);
	__type(value, struct numbering);
} flow_numbers SEC(".maps");

/* An entry of the slots: a flow whose numbers fill one cache line. */
struct slot {
	struct slot_key key; /* last: 0 if the slot is free, SLOT_BUSY while it is taken */
	struct numbering numbers;
};

/*
 * Key: hash of a flow. Value: the first flow with this hash; others are in
 * flow_numbers. A flow stays in the same map until it is idle, since its numbers
 * must come from one counter. Written here and by source_sweep.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

static __always_inline struct slot *slot_of(const struct slot_key *key)
{
	__u32 index = slot_index(key);

	return bpf_map_lookup_elem(&slots, &index);
}

/* key: aligned to 8 bytes */
static __always_inline struct numbering *number_known(const struct flow_key *key)
{
	const struct slot_key *words = (const void *)key;
	struct slot *slot = slot_of(words);

	return slot && slot_has(&slot->key, words) ? &slot->numbers : 0;
}

/*
 * Returns the first number of a flow. Marks with 16 bits of the number (PDM) begin at random, but not so close to a
 * multiple of WIRE_FLOW_STRIDE that a destination would take a later mark for the first one of a restarted flow.
 */
static __always_inline __u32 number_first(void)
{
	__u32 random = bpf_get_prandom_u32();

	if (ENCODING_USED(PDM))
		return (random & (WIRE_FLOW_STRIDE - 1)) | 64;
	return (random * WIRE_FLOW_STRIDE) & WIRE_SEQUENCE_MASK;
}

static __noinline struct numbering *number_start(const struct flow_key *key, struct tally *tally)
{
	const struct slot_key *words = (const void *)key;
	struct numbering fresh = {
		.next = number_first(),
		.used = bpf_jiffies64(),
		.sampled = bpf_get_prandom_u32(),
	};
	struct slot *slot;
	__u64 was;

	fresh.first = fresh.next;
	if (!key || !tally)
		return 0;
	slot = slot_of(words);
	if (!slot)
		return 0;
	was = __sync_val_compare_and_swap(&slot->key.last, 0, SLOT_BUSY);
	if (was == SLOT_BUSY) /* another CPU takes it, maybe for this flow */
		return 0;
	if (was && slot_has(&slot->key, words))
		return &slot->numbers;
	if (was) {
		if (!bpf_map_update_elem(&flow_numbers, key, &fresh, BPF_NOEXIST))
			tally->flows_started++;
		return bpf_map_lookup_elem(&flow_numbers, key);
	}
	slot->numbers = fresh;
	slot_publish(&slot->key, words);
	tally->flows_started++;
	return &slot->numbers;
}

/* A flow that is in no slot. The key is copied: Linux 6.1 rejects a key in memory passed to a global function. */
static __always_inline struct numbering *number_other(const struct flow_key *flow, struct tally *tally)
{
	struct flow_key key = *flow;
	struct numbering *numbers = bpf_map_lookup_elem(&flow_numbers, &key);

	return numbers ? numbers : number_start(&key, tally);
}

static __always_inline struct numbering *number_flow(const struct flow_key *key, struct tally *tally)
{
	struct numbering *numbers = number_known(key);

	return numbers ? numbers : number_other(key, tally);
}

/* Whether only packets with a time carry a mark: see sparse.h. */
const volatile __u32 sparse_marks;

/* The first of count numbers, in network byte order. */
static __always_inline __be32 number_take(struct numbering *numbers, __u32 count)
{
	__u32 first = __sync_fetch_and_add(&numbers->next, count) & WIRE_SEQUENCE_MASK;

	numbers->used = bpf_jiffies64();
	if (sparse_marks && !(numbers->stamping.state & STAMP_BEGUN))
		numbers->stamping.state |= STAMP_BEGUN;
	if (count == 1)
		first |= WIRE_SINGLE;
	return bpf_htonl(first);
}

/* By policy: ticks after which a flow is idle. Written by the agent. */
volatile __u32 sweep_idle[POLICIES_MAX];
volatile __u32 sweep_expired; /* flows that source_sweep removed */
volatile __u32 sweep_present; /* and those that are left */

/* last: of the key of a flow. The key contains an aggregate's policy; the policy of other flows is the one that judged. */
static __always_inline __u32 number_policy(__u64 last, const struct numbering *numbers)
{
	__u32 aggregate = last >> 48;

	return (aggregate ? aggregate - 1 : JUDGEMENT_POLICY(numbers->judgement)) & (POLICIES_MAX - 1);
}

static long sweep_slot(void *map, __u32 *index, struct slot *slot, void *none)
{
	__u64 last = *(volatile __u64 *)&slot->key.last;
	__s32 idle = (__u32)bpf_jiffies64() - slot->numbers.used;

	if (!last || last == SLOT_BUSY)
		return 0;
	if (idle > 0 && (__u32)idle > sweep_idle[number_policy(last, &slot->numbers)] &&
	    __sync_val_compare_and_swap(&slot->key.last, last, 0) == last)
		sweep_expired++;
	else
		sweep_present++;
	return 0;
}

#endif
