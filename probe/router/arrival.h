/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* How a packet enters the router. */
#ifndef PILLION_ARRIVAL_H
#define PILLION_ARRIVAL_H

#include "account.h"
#include "clone.h"
#include "departure.h"
#include "event.h"
#include "match.h"
#include "refusal.h"
#include "table.h"

volatile __u32 paused; /* nothing new is taken */

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

/* A record left behind by a packet whose end no hook saw, at an address that another has now. */
static __always_inline void reused(struct packet *p, __u64 key, struct tally *tally)
{
	tally->lost[LOST_REUSED]++;
	packet_vanished(p, bpf_ktime_get_ns());
	let_go(p, key);
}

static __always_inline void remember(struct packet *p, __u64 now, __u32 in, __u16 flags)
{
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
}

/* t1, at the first hook that sees the packet. */
static __always_inline struct packet *arrive(struct sk_buff *skb)
{
	struct net_device *dev = device_of(skb);
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
		/*
		 * A bridge, a VLAN and their like receive a packet once more, a bridge that
		 * asks netfilter after t2.
		 */
		if (!p->t3 && p->head == (__u64)skb->head && p->in != in)
			return 0;
		reused(p, key, tally);
	} else if (refused && refusal_returns(skb, key, in, tally)) {
		return 0;
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
		refuse(skb, key, in, tally);
		return 0;
	}
	clone_expect(p, skb, key);
	now = bpf_ktime_get_ns();
	remember(p, now, in, flags);
	packet_arrived(p, now);
	return p;
}

/*
 * A packet that reaches t2 without a record: it was inside at the start, or the hook of
 * t1 did not run, as some kernels do not run tracing programs on top of some processes.
 * It has no input queuing. One that was refused at t1 was counted there, and so was one
 * that was not asked for; after sampling the latter cannot be distinguished.
 */
static __noinline void appear(struct sk_buff *skb, __u64 key, struct net_device *in)
{
	struct tally *tally;
	struct packet *p;
	__u64 now;

	if (sampling > 1 || paused || !in || in->ifindex == LOOPBACK || !is_input(in->ifindex))
		return;
	if (match_wanted) {
		struct tuple t = {};

		if (!read_front(&t, skb) || !matches(&t))
			return;
	}
	tally = tally_here();
	if (!tally || (refused && refusal_begins(skb, key, tally)))
		return;
	tally->seen++;
	tally->late++;
	p = table_claim(key);
	if (!p) {
		refuse(skb, key, in->ifindex, tally);
		return;
	}
	now = bpf_ktime_get_ns();
	remember(p, now, in->ifindex, PACKET_LATE);
	p->t2 = now;
	packet_appeared(now);
}

#endif
