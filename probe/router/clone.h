/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Where two receive a packet, the later of them gets the buffer and IP a clone of it,
 * with the same data. So the data, too, leads to the packet, until t2.
 */
#ifndef PILLION_CLONE_H
#define PILLION_CLONE_H

#include "account.h"
#include "table.h"

#define HEADS_BITS 14

/* Key of the buffer that last came with this data, by a hash of that. A hint, no more. */
__u64 heads[1 << HEADS_BITS];

static __always_inline __u32 head_place(__u64 head)
{
	return (head * GOLDEN) >> (64 - HEADS_BITS);
}

/*
 * Address of the data, stored and loaded again: so it is a number to all verifiers, the
 * newer of which would treat it as a pointer that cannot be hashed.
 */
static __always_inline __u64 head_of(struct sk_buff *skb, volatile __u64 *place)
{
	*place = (__u64)skb->head;
	return *place;
}

static __always_inline void clone_expect(struct packet *p, struct sk_buff *skb, __u64 key)
{
	heads[head_place(head_of(skb, &p->head))] = key;
}

/* The packet whose buffer skb is a clone of; it is skb's from now on. */
static __always_inline struct packet *clone_find(struct sk_buff *skb, __u64 key)
{
	struct tally *tally = tally_here();
	__u64 head, original;
	struct packet *p;

	if (!tally)
		return 0;
	head = head_of(skb, &tally->scratch);
	original = heads[head_place(head)];
	if (!original)
		return 0;
	p = table_find(original);
	if (!p || p->t2 || p->head != head)
		return 0;
	return table_move(p, original, key);
}

#endif
