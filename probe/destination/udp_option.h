/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The udp-option encoding: a mark in the surplus area behind the data of a UDP
 * datagram. A socket never sees that area, so a mark for this host is read and
 * left where it is. It is cut off only where the packet is forwarded.
 */
#ifndef PILLION_DESTINATION_UDP_OPTION_H
#define PILLION_DESTINATION_UDP_OPTION_H

#include "../bpf/summed.h"
#include "account.h"
#include "find.h"

/* Where the datagram and its surplus area are, as offsets in the IP packet. */
struct surplus {
	__u32 at;   /* of the surplus area */
	__u32 area; /* its length */
};

/* struct wire_udp_option, as its words are summed. */
struct option_words {
	__u16 check;
	__be32 head; /* of struct wire_experiment: kind, length, ExID */
	__be32 number;
	__be32 time;
	__be32 tag; /* zero without one */
};

/* Packed fields would be read byte by byte. */
static __always_inline struct option_words option_at(const void *from, int tagged)
{
	return (struct option_words){
		.check = *(const volatile __u16 *)from,
		.head = *(const volatile __be32 *)(from + 2),
		.number = *(const volatile __be32 *)(from + 6),
		.time = *(const volatile __be32 *)(from + 10),
		.tag = tagged ? *(const volatile __be32 *)(from + 14) : 0,
	};
}

/* The head of our option, and its length field alone. */
#define HEAD_LENGTH bpf_htonl(0xff << 16)
#define HEAD(length) bpf_htonl((__u32)WIRE_UDP_OPTION_KIND << 24 | (length) << 16 | WIRE_EXID)

/* By what the head of an aggregate's option differs, but for the fields. */
#define HEAD_AGGREGATE bpf_htonl((WIRE_EXID ^ WIRE_EXID_AGGREGATE) & ~WIRE_AGGREGATE_FIELDS)

/* The checksum of the area with its length is right, and not zero. */
static __always_inline int is_summed(const struct option_words *o, __u32 area)
{
	__u64 sum = (__u64)bpf_htons(area) + o->check + o->head + o->number + o->time + o->tag;

	return o->check && !fold_checksum((sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32));
}

static __always_inline int is_tagged_area(const struct surplus *where)
{
	return where->area >= WIRE_UDP_OPTION_TAGGED;
}

/* pad: the byte before the option, if the area begins with one */
static __always_inline int take_option(struct mark *m, const struct option_words *option,
				       const struct surplus *where, __u8 pad)
{
	int tagged = is_tagged_area(where);
	__be32 other = option->head ^ HEAD(tagged ? WIRE_EXPERIMENT_TAGGED_LENGTH : WIRE_EXPERIMENT_LENGTH);

	if ((other & ~(HEAD_LENGTH | EXID_DIFFERENCE)) && ((other ^ HEAD_AGGREGATE) & ~(HEAD_LENGTH | EXID_FIELDS)))
		return VERDICT_UNMARKED;
	if ((other & HEAD_LENGTH) || pad || !is_summed(option, where->area))
		return VERDICT_MALFORMED;
	if (read_experiment(m, option->number, option->time, read_exid(m, bpf_htons((__u16)bpf_ntohl(option->head)))))
		return VERDICT_MALFORMED;
	if (tagged) {
		if (!(m->modules & WIRE_LOSS))
			return VERDICT_MALFORMED;
		m->tag = bpf_ntohl(option->tag);
		m->tagged = 1;
	}
	m->encoding = WIRE_ENCODING_UDP_OPTION;
	m->at = where->at;
	m->size = where->area;
	m->length = where->at;
	return VERDICT_MARKED;
}

static __always_inline int find_surplus(struct mark *m, __u8 family, const struct udphdr *udp,
					__u32 headers, __u32 length, struct surplus *where)
{
	__u32 udp_length = bpf_ntohs(udp->len);

	where->at = headers + udp_length;
	where->area = length - where->at;
	key_end(&m->key, family, IPPROTO_UDP, udp->source, udp->dest);
	return udp_length >= sizeof(*udp) && (where->area == WIRE_UDP_OPTION + (udp_length & 1) ||
					      where->area == WIRE_UDP_OPTION_TAGGED + (udp_length & 1));
}

/*
 * Looks for a surplus area of the right size. length: as in read_ipv6. Returns
 * 0 for every other packet, and for those that are in the encoding udp.
 */
static __always_inline int locate_option(struct mark *m, __be16 protocol, void *l3, void *end,
					 __u32 length, struct surplus *where)
{
	if (protocol == PROTOCOL_IPV6) {
		struct ipv6hdr *ip = l3;
		struct udphdr *udp = (void *)(ip + 1);
		__u32 total;

		if ((void *)(udp + 1) > end || ip->version != 6 || ip->nexthdr != IPPROTO_UDP)
			return 0;
		total = sizeof(*ip) + bpf_ntohs(ip->payload_len);
		if (total > length || !find_surplus(m, 6, udp, sizeof(*ip), total, where))
			return 0;
		copy_address_aligned(m->key.src, &ip->saddr);
		copy_address_aligned(m->key.dst, &ip->daddr);
		copy_address_aligned(m->peer, &ip->saddr);
		return 1;
	}
	if (protocol == PROTOCOL_IPV4) {
		struct iphdr *ip = l3;
		struct udphdr *udp = (void *)(ip + 1);
		struct slot_key *words;
		__u32 total;

		if ((void *)(udp + 1) > end || *(__u8 *)l3 != 0x45 || ip->protocol != IPPROTO_UDP ||
		    (ip->frag_off & IPV4_FRAGMENT) || (udp->dest == bpf_htons(udp_port) && !udp->check))
			return 0;
		total = bpf_ntohs(ip->tot_len);
		if (total > length || !find_surplus(m, 4, udp, sizeof(*ip), total, where))
			return 0;
		words = (void *)&m->key;
		words->words[0] = m->peer[0] = ip->saddr;
		words->words[2] = ip->daddr;
		return 1;
	}
	return 0;
}

#define DIRECT 0x7fff /* an offset that the verifier accepts in a packet pointer */

/* Reads an option that lies in direct reach. Returns 0 if it does not. */
static __always_inline int option_direct(void *l3, void *end, const struct surplus *where,
					 struct option_words *option, __u8 *pad)
{
	__u32 at = where->at;
	__u8 *from;

	asm volatile("" : "+r"(at));
	if (at > DIRECT)
		return 0;
	from = l3 + at;
	if (where->area & 1) {
		if ((void *)(from + 1) > end)
			return 0;
		*pad = *from++;
	}
	if (!is_tagged_area(where)) {
		if ((void *)(from + WIRE_UDP_OPTION) > end)
			return 0;
		*option = option_at(from, 0);
		return 1;
	}
	if ((void *)(from + WIRE_UDP_OPTION_TAGGED) > end)
		return 0;
	*option = option_at(from, 1);
	return 1;
}

static __always_inline int read_option_skb(struct __sk_buff *skb, struct mark *m)
{
	void *l3 = packet_start(skb) + link_length;
	struct option_words option;
	struct surplus where;
	__u8 pad = 0;

	if (skb->gso_size || !locate_option(m, skb->protocol, l3, packet_end(skb), skb->len - link_length, &where))
		return VERDICT_UNMARKED;
	if (!option_direct(l3, packet_end(skb), &where, &option, &pad)) {
		__u8 bytes[WIRE_UDP_OPTION_TAGGED + 2] __attribute__((aligned(8))) = {};
		__u32 at = link_length + where.at;
		int tagged = is_tagged_area(&where);

		if ((where.area & 1) && bpf_skb_load_bytes(skb, at++, &pad, 1))
			return VERDICT_UNMARKED;
		if (bpf_skb_load_bytes(skb, at, bytes + 2, tagged ? WIRE_UDP_OPTION_TAGGED : WIRE_UDP_OPTION))
			return VERDICT_UNMARKED;
		option = option_at(bytes + 2, tagged);
	}
	return take_option(m, &option, &where, pad);
}

static __always_inline int read_option_frame(struct xdp_md *ctx, struct mark *m, __be16 protocol,
					     __u32 l3, __u32 length)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct option_words option;
	struct surplus where;
	__u8 pad = 0;

	if (!locate_option(m, protocol, data + l3, end, length, &where) ||
	    !option_direct(data + l3, end, &where, &option, &pad))
		return VERDICT_UNMARKED;
	return take_option(m, &option, &where, pad);
}

static __always_inline int is_stripped(int route)
{
	if (strip_options != STRIP_AUTO)
		return strip_options == STRIP_ALWAYS;
	return route == ROUTE_FORWARD;
}

/* The header of the packet without its surplus area. sum: what a checksum of the packet changes by. */
static __always_inline int strip_header(void *l3, void *end, const struct mark *m, int partial, __u32 *sum)
{
	struct udphdr *udp;

	*sum = 0;
	if (m->key.family == 6) {
		struct ipv6hdr *ip = l3;

		udp = (void *)(ip + 1);
		if ((void *)(udp + 1) > end)
			return -1;
		*sum = (__u16)~ip->payload_len;
		ip->payload_len = bpf_htons(m->length - sizeof(*ip));
		*sum += ip->payload_len;
	} else {
		struct iphdr *ip = l3;

		udp = (void *)(ip + 1);
		if ((void *)(udp + 1) > end)
			return -1;
		ipv4_restore(ip, IPPROTO_UDP, m->length);
	}
	if (partial)
		udp->check = ~fold_checksum(udp->check + (__u16)~bpf_htons(m->size));
	return 0;
}

static __always_inline int strip_skb(struct __sk_buff *skb, const struct mark *m)
{
	__u32 check = link_length + (m->key.family == 6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) +
		      __builtin_offsetof(struct udphdr, check);
	int partial = summed_partial(skb, check);
	__u32 sum;

	if (partial < 0 || bpf_skb_change_tail(skb, link_length + m->length, 0) ||
	    strip_header(packet_start(skb) + link_length, packet_end(skb), m, partial, &sum))
		return -1;
	if (sum)
		bpf_csum_update(skb, sum);
	return 0;
}

/*
 * A frame has no note of whether its checksum is complete, so only a setting
 * strips here. length: of the frame.
 */
static __always_inline int strip_frame(struct xdp_md *ctx, const struct mark *m, __u32 l3, __u32 length)
{
	void *data;
	__u32 sum;

	if (bpf_xdp_adjust_tail(ctx, (int)(l3 + m->length - length)))
		return -1;
	data = (void *)(long)ctx->data;
	return strip_header(data + (l3 & 0x1f), (void *)(long)ctx->data_end, m, 0, &sum);
}

#endif
