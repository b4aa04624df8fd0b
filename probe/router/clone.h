/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Where two receive a packet, the later of them gets the buffer and IP a clone of it,
 * with the same data. So the data, too, leads to the packet, until t2.
 */
#ifndef PILLION_CLONE_H
#define PILLION_CLONE_H

#include "account.h"
#include "event.h"
#include "head.h"
#include "refusal.h"
#include "table.h"

static __always_inline void clone_expect(struct packet *p, struct sk_buff *skb, __u64 key)
{
	*head_hint(head_of(skb, &p->head)) = key;
}

/* The packet whose buffer skb is a clone of; it is skb's from now on. */
static __always_inline struct packet *clone_find(struct sk_buff *skb, __u64 key)
{
	struct tally *tally = tally_here();
	struct packet *p, *next;
	__u64 head, original;

	if (!tally)
		return 0;
	head = head_of(skb, &tally->scratch);
	original = *head_hint(head);
	if (!original)
		return 0;
	p = table_find(original);
	if (!p || p->t2 || p->head != head)
		return 0;
	next = table_move(p, original, key);
	if (!next) {
		packet_vanished(p, bpf_ktime_get_ns());
		refuse(skb, key, p->in, tally);
	}
	return next;
}

#endif
