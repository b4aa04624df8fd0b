/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What happens to a packet on its way, for those who keep count of it: queues and
 * coffee breaks. Each gets the packet's record, complete but for what comes later,
 * and the time.
 */
#ifndef PILLION_EVENT_H
#define PILLION_EVENT_H

#include "packet.h"

/* t1: it entered by p->in, and waits in the input queue. */
static __always_inline void packet_arrived(struct packet *p, __u64 now)
{
}

/* t2: it left the input queue; IP begins with it. */
static __always_inline void packet_began(struct packet *p, __u64 now)
{
}

/* t3: IP has ended with it; it waits in the output queue of p->out. */
static __always_inline void packet_ended(struct packet *p, __u64 now)
{
}

/* t4: it left the output queue; the driver has it. */
static __always_inline void packet_departed(struct packet *p, __u64 now)
{
}

/*
 * It ended elsewhere: dropped, delivered locally, merged, or forgotten. Where it was
 * p->t2 and p->t3 tell: 0 if it had not come that far.
 */
static __always_inline void packet_vanished(struct packet *p, __u64 now)
{
}

#endif
