/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* A packet's data, which clones of its buffer share, as a second way to its record. */
#ifndef PILLION_HEAD_H
#define PILLION_HEAD_H

#include "table.h"

#define HEADS_BITS 14

/* Key of the buffer that last came with this data, by a hash of that. A hint, no more. */
__u64 heads[1 << HEADS_BITS];

/* Place of the hint. */
static __always_inline __u64 *head_hint(__u64 head)
{
	return &heads[(head * GOLDEN) >> (64 - HEADS_BITS)];
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

#endif
