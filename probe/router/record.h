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
	__be32 train, number; /* of a packet of the sender */
	__u32 tagged;	      /* it is one */
	__u32 zero;
};

/* The tag with which payloads of the sender begin (send/frame/tag.go). */
struct tag {
	__be32 magic;
	__be32 train;
	__be32 number;
};

#define TAG_MAGIC bpf_htonl(0x504c534e) /* PLSN */

/* Set by the loader. */
const volatile __u32 records_wanted;
const volatile __u32 records_batch; /* bytes that wait before the reader is woken */
const volatile __u32 records_tagged; /* only packets of the sender */

/* Written by the programs, read by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} records SEC(".maps");

/*
 * Offset of the payload from the IP header: behind UDP, TCP or ICMP echo, and behind the
 * Destination Options header with which a native mark begins. Other extension headers and
 * encapsulations hide it.
 */
static __always_inline __u32 payload_offset(const void *base, __u8 family, __u8 protocol)
{
	__u32 at = sizeof(struct ipv6hdr);

	if (family == 4)
		at = (*(const __u8 *)AT(struct iphdr, base) & 15) * 4;
	else if (protocol == IPPROTO_DSTOPTS) {
		__u32 head = bpf_ntohl(word_at(base, at));

		protocol = head >> 24;
		at += ((head >> 16 & 0xff) + 1) * 8;
	}
	switch (protocol) {
	case IPPROTO_UDP:
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return at + 8;
	case IPPROTO_TCP:
		return at + (bpf_ntohl(word_at(base, at + 12)) >> 28) * 4;
	}
	return at;
}

/* Reads the tag of a packet of the sender. 0: it is none. */
static __always_inline int read_tag(struct tag *tag, const void *base, __s64 linear, const struct tuple *t)
{
	__u32 at;

	if (linear < (__s64)(sizeof(struct ipv6hdr) + sizeof(*tag)))
		return 0;
	at = payload_offset(base, t->family, t->protocol);
	if (linear < (__s64)at + (__s64)sizeof(*tag) || word_at(base, at) != TAG_MAGIC)
		return 0;
	tag->train = word_at(base, at + 4);
	tag->number = word_at(base, at + 8);
	return 1;
}

static __always_inline void record_packet(struct packet *p, struct sk_buff *skb, __u64 t4, struct tally *tally)
{
	const void *base = address(skb->head, skb->network_header);
	__s64 linear = linear_from(skb, base);
	struct tuple t = {};
	struct tag tag = {};
	struct record *r;
	int tagged;

	tagged = read_tuple(&t, base, linear, skb->protocol) && read_tag(&tag, base, linear, &t);
	if (records_tagged && !tagged)
		return;
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		tally->records_lost++;
		return;
	}
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
	r->train = tag.train;
	r->number = tag.number;
	r->tagged = tagged;
	r->zero = 0;
	/*
	 * To wake the reader is to interrupt this processor, which costs the packets behind
	 * this one more than all else here. The reader looks by itself now and then.
	 */
	bpf_ringbuf_submit(r, bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) < records_batch ? BPF_RB_NO_WAKEUP :
											      BPF_RB_FORCE_WAKEUP);
}

#endif
