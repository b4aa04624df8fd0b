/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* How a packet enters the router. */
#ifndef PILLION_ARRIVAL_H
#define PILLION_ARRIVAL_H

#include "account.h"
#include "clone.h"
#include "event.h"
#include "match.h"
#include "table.h"

const volatile __u32 namespace; /* number of the router's */

__u64 router_net;      /* address of the router's namespace, known from the first packet */
volatile __u32 paused; /* nothing new is taken */

static __always_inline int is_router(struct net_device *dev)
{
	struct net *net = dev->nd_net.net;

	if ((__u64)net == router_net)
		return 1;
	if (net->ns.inum != namespace)
		return 0;
	router_net = (__u64)net;
	return 1;
}

/* Wanted: 1; not: 0, and counted why. */
static __always_inline int is_wanted(struct sk_buff *skb, __u32 in, struct tally *tally, __u16 *flags)
{
	if (in == LOOPBACK) {
		tally->skipped[SKIP_LOOPBACK]++;
		return 0;
	}
	if (!is_input(in)) {
		tally->skipped[SKIP_FILTER]++;
		return 0;
	}
	if (match_wanted) {
		struct tuple t = {};

		if (!read_front(&t, skb)) {
			*flags |= PACKET_UNDECIDED;
		} else if (!matches(&t)) {
			tally->skipped[SKIP_FILTER]++;
			return 0;
		}
	}
	if (sampling > 1 && bpf_get_prandom_u32() % sampling) {
		tally->skipped[SKIP_SAMPLING]++;
		return 0;
	}
	return 1;
}

/* t1, at the first hook that sees the packet. */
static __always_inline struct packet *arrive(struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	__u64 now, key = key_of(skb);
	__u32 in = dev->ifindex;
	__u16 flags = 0;
	struct packet *p;
	struct tally *tally;

	if (!is_router(dev))
		return 0;
	tally = tally_here();
	if (!tally)
		return 0;
	p = table_find(key);
	if (p) {
		/* A bridge, a VLAN and their like receive a packet once more. */
		if (!p->t2 && p->head == (__u64)skb->head && p->in != in)
			return 0;
		tally->lost[LOST_REUSED]++;
		packet_vanished(p, bpf_ktime_get_ns());
		table_remove(p, key);
	}
	if (paused)
		return 0;
	if (skb->protocol != PROTOCOL_IPV4 && skb->protocol != PROTOCOL_IPV6) {
		tally->skipped[SKIP_PROTOCOL]++;
		return 0;
	}
	if (!is_wanted(skb, in, tally, &flags))
		return 0;
	tally->seen++;
	p = table_claim(key);
	if (!p) {
		tally->lost[LOST_FULL]++;
		return 0;
	}
	clone_expect(p, skb, key);
	now = bpf_ktime_get_ns();
	p->t1 = now;
	p->t2 = 0;
	p->t3 = 0;
	p->last_t1 = 0;
	p->in = in;
	p->out = 0;
	p->length = 0;
	p->merged = 0;
	p->wire = 1;
	p->segments = 0;
	p->flags = flags;
	packet_arrived(p, now);
	return p;
}

#endif
