/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Packets for which the table has no room. They are counted, as lost, but not followed.
 * Their addresses are remembered until IP has ended with them, so that no later hook
 * counts them again.
 */
#ifndef PILLION_REFUSAL_H
#define PILLION_REFUSAL_H

#include "account.h"
#include "head.h"

/* More than the kernel's queues before t3 hold; output queues may be longer. */
#define REFUSALS_MAX 16384

struct refusal {
	__u64 head; /* address of its data */
	__u32 in;   /* index of the interface */
	__u32 unused;
};

/* Key: the buffer's; value: how it arrived. Written by the hooks of t1 and t2. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, REFUSALS_MAX);
	__type(key, __u64);
	__type(value, struct refusal);
} refusals SEC(".maps");

__u64 refused; /* entries: where there are none, nothing is searched */

/* Counts a packet that came in by that interface, at t1 or t2. */
static __noinline void refuse(struct sk_buff *skb, __u64 key, __u32 in, struct tally *tally)
{
	struct refusal r = {.in = in};

	r.head = head_of(skb, &tally->scratch);
	*head_hint(r.head) = key;
	tally->lost[LOST_FULL]++;
	if (!bpf_map_update_elem(&refusals, &key, &r, BPF_NOEXIST))
		__sync_fetch_and_add(&refused, 1);
}

/* IP has ended with the packet, or it ended before. 0: it was not refused. */
static __always_inline int refusal_end(__u64 key)
{
	if (!refused || bpf_map_delete_elem(&refusals, &key))
		return 0;
	__sync_fetch_and_add(&refused, -1);
	return 1;
}

/*
 * At t1 of a packet without a record: 1 if a bridge, a VLAN or their like receive it once
 * more. Otherwise the one that was refused at this address has ended, unseen.
 */
static __noinline int refusal_returns(struct sk_buff *skb, __u64 key, __u32 in, struct tally *tally)
{
	struct refusal *r = bpf_map_lookup_elem(&refusals, &key);

	if (r && r->in != in && r->head == head_of(skb, &tally->scratch))
		return 1;
	refusal_end(key);
	return 0;
}

/* At t2 of a packet without a record: 1 if it was refused, or the buffer that this is a clone of. */
static __noinline int refusal_begins(struct sk_buff *skb, __u64 key, struct tally *tally)
{
	struct refusal clone = {};
	struct refusal *r;
	__u64 original;

	if (bpf_map_lookup_elem(&refusals, &key))
		return 1;
	clone.head = head_of(skb, &tally->scratch);
	original = *head_hint(clone.head);
	r = bpf_map_lookup_elem(&refusals, &original);
	if (!r || r->head != clone.head)
		return 0;
	clone.in = r->in;
	if (!bpf_map_update_elem(&refusals, &key, &clone, BPF_NOEXIST))
		bpf_map_delete_elem(&refusals, &original);
	return 1;
}

#endif
