/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* How a packet leaves the router, or ends inside it. */
#ifndef PILLION_DEPARTURE_H
#define PILLION_DEPARTURE_H

#include "account.h"
#include "content.h"
#include "event.h"
#include "match.h"
#include "stage.h"
#include "table.h"

/* At an interface on top of others, one of which the driver passes the packet to. */
static __always_inline int descends(struct packet *p, struct net_device *dev)
{
	if (!is_upper(dev))
		return 0;
	p->flags |= PACKET_STACKED;
	return 1;
}

/*
 * Routed packets leave by an interface of the router, or one below it. Elsewhere, a packet
 * of another namespace is at the address of one whose end no hook saw.
 */
static __always_inline int is_elsewhere(const struct packet *p, struct net_device *dev)
{
	return p->t3 && !(p->flags & PACKET_STACKED) && !is_router(dev);
}

/* A record by address, or by content if there are such. */
static __always_inline struct packet *find(struct sk_buff *skb, __u64 *key)
{
	struct packet *p;

	*key = key_of(skb);
	p = table_find(*key);
	return p ? p : content_find(skb, key);
}

static __always_inline void let_go(struct packet *p, __u64 key)
{
	if (p->flags & PACKET_CONTENT)
		__sync_fetch_and_add(&contents, -1);
	table_remove(p, key);
}

static __always_inline void account_stage(struct pair *pair, __u32 stage, __u64 ns)
{
	observe(&pair->extremes[stage], pair->buckets[stage], ns);
}

static __always_inline void account_stages(struct packet *p, __u64 t4)
{
	struct pair *pair = pair_of(p->in, p->out);

	if (!pair)
		return;
	sum_up(&pair->bytes, p->length);
	account_stage(pair, STAGE_PROCESSING, p->t3 - p->t2);
	account_stage(pair, STAGE_OUTPUT, t4 - p->t3);
	if (p->flags & PACKET_LATE)
		return;
	account_stage(pair, STAGE_INPUT, p->t2 - p->t1);
	account_stage(pair, STAGE_TRANSIT, t4 - p->t1);
	if (!p->merged)
		return;
	sum_up(&pair->merged, p->merged);
	account_stage(pair, STAGE_HOLD, p->last_t1 - p->t1);
}

/* Uncounts a packet that turns out not to match. */
static __always_inline void forget(struct packet *p, __u64 key, __u64 now)
{
	struct tally *tally = tally_here();

	if (tally) {
		tally->seen--;
		if (p->flags & PACKET_LATE)
			tally->late--;
		tally->skipped[SKIP_FILTER]++;
	}
	packet_vanished(p, now);
	table_remove(p, key);
}

/* The end of a packet that is not t4. Softirqs may be on. */
static __always_inline void end(struct packet *p, __u64 key, __u64 where, __u32 reason, __u32 consumed)
{
	struct tally *tally = tally_here();

	if (tally)
		tally_add(&tally->dropped, 1);
	account_drop(where, reason, consumed);
	packet_vanished(p, bpf_ktime_get_ns());
	let_go(p, key);
}

/*
 * Consumed behind t3. Drivers consume what they have sent: t4 was missed. That happens
 * where a kernel does not run tracing programs on top of some processes.
 */
static __always_inline void miss(struct packet *p, __u64 key)
{
	struct tally *tally = tally_here();

	if (tally)
		tally_add(&tally->lost[LOST_UNSEEN], 1);
	packet_vanished(p, bpf_ktime_get_ns());
	let_go(p, key);
}

/*
 * Behind t3: it left the router, unseen. Other hosts' namespaces may be on the same kernel,
 * and what has no device is another buffer, at the address of one whose free was missed too.
 */
static __always_inline int has_left(struct sk_buff *skb)
{
	struct net_device *dev = device_of(skb);

	return !dev || !is_router(dev);
}

/* A fragment that the router reassembled for itself. */
static __always_inline void gather(struct packet *p, __u64 key)
{
	struct tally *tally = tally_here();

	if (tally)
		tally_add(&tally->local, 1);
	packet_vanished(p, bpf_ktime_get_ns());
	let_go(p, key);
}

/* A clone for a packet socket whose buffer was full. */
static __always_inline int is_tap(__u32 reason)
{
	return bpf_core_enum_value_exists(enum skb_drop_reason, SKB_DROP_REASON_PACKET_SOCK_ERROR) &&
	       reason == bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_PACKET_SOCK_ERROR);
}

#endif
