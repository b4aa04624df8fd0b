/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What happens to a packet on its way, for those who keep count of it: queues and
 * coffee breaks. Each gets the packet's record, complete but for what comes later,
 * and the time.
 */
#ifndef PILLION_EVENT_H
#define PILLION_EVENT_H

#include "break.h"
#include "packet.h"
#include "processor.h"
#include "queue.h"

/* t1: it entered by p->in, and waits in the input queue. */
static __always_inline void packet_arrived(struct packet *p, __u64 now)
{
	queue_enter(p->in, QUEUE_INPUT, now);
}

/*
 * t2: it left the input queue; IP begins with it. Until the last segment came that GRO
 * merged into it, it was worked on.
 */
static __always_inline void packet_began(struct packet *p, __u64 now)
{
	struct processor *c = processor_here();

	if (c)
		break_look(c, p->last_t1 ? p->last_t1 : p->t1, now);
	queue_leave(p->in, QUEUE_INPUT, p->t1, now, backlog_length(c));
}

/* First seen at t2: IP begins with it. No input queue is known to have held it. */
static __always_inline void packet_appeared(__u64 now)
{
	struct processor *c = processor_here();

	if (!c)
		return;
	c->touched = now;
	c->since++;
}

/* t3: IP has ended with it; it waits in the output queue of p->out. */
static __always_inline void packet_ended(struct packet *p, __u64 now)
{
	struct processor *c = processor_here();

	if (c)
		c->touched = now;
	queue_enter(p->out, QUEUE_OUTPUT, now);
}

/* t4: it left the output queue; the driver of dev has it, or its first segment. */
static __always_inline void packet_departed(struct packet *p, struct sk_buff *skb, struct net_device *dev, __u64 now)
{
	queue_leave(p->out, QUEUE_OUTPUT, p->t3, now, qdisc_length(skb, dev));
	if (now - p->t3 > PASSING_NS)
		output_waited = now;
}

/*
 * It ended elsewhere: dropped, delivered locally, merged, or forgotten. Where it was
 * p->t2 and p->t3 tell: 0 if it had not come that far.
 */
static __always_inline void packet_vanished(struct packet *p, __u64 now)
{
	struct processor *c;

	if (!p->t2) {
		queue_end(p->in, QUEUE_INPUT, p->t1, now);
		return;
	}
	if (p->t3) {
		queue_end(p->out, QUEUE_OUTPUT, p->t3, now);
		if (now > p->t3 + PASSING_NS)
			output_waited = now;
		return;
	}
	c = processor_here();
	if (c)
		c->touched = now;
}

#endif
