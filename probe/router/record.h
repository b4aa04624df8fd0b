/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* One record per forwarded packet, if requested. */
#ifndef PILLION_ROUTER_RECORD_H
#define PILLION_ROUTER_RECORD_H

#include "account.h"
#include "match.h"
#include "packet.h"

struct record {
	__u64 t1, t2, t3, t4;
	__u64 last_t1;
	__u32 in, out;
	__u32 length;
	__u16 merged;
	__u16 segments;
	struct tuple tuple;
};

/* Set by the loader. */
const volatile __u32 records_wanted;
const volatile __u32 records_batch; /* bytes that wait before the reader is woken */

/* Written by the programs, read by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} records SEC(".maps");

static __always_inline void record_packet(struct packet *p, struct sk_buff *skb, __u64 t4, struct tally *tally)
{
	const void *base = address(skb->head, skb->network_header);
	struct tuple t = {};
	struct record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);

	if (!r) {
		tally->records_lost++;
		return;
	}
	read_tuple(&t, base, linear_from(skb, base), skb->protocol);
	r->t1 = p->flags & PACKET_LATE ? 0 : p->t1;
	r->t2 = p->t2;
	r->t3 = p->t3;
	r->t4 = t4;
	r->last_t1 = p->last_t1;
	r->in = p->in;
	r->out = p->out;
	r->length = p->length;
	r->merged = p->merged;
	r->segments = p->segments;
	r->tuple = t;
	/*
	 * To wake the reader is to interrupt this processor, which costs the packets behind
	 * this one more than all else here. The reader looks by itself now and then.
	 */
	bpf_ringbuf_submit(r, bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) < records_batch ? BPF_RB_NO_WAKEUP :
											      BPF_RB_FORCE_WAKEUP);
}

#endif
