/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The udp-option encoding: a mark in the surplus area behind the data of a UDP
 * datagram.
 */
#ifndef PILLION_SOURCE_UDP_OPTION_H
#define PILLION_SOURCE_UDP_OPTION_H

#include "../bpf/summed.h"
#include "headers.h"
#include "sparse.h"
#include "stamp.h"
#include "verdict.h"

/* A datagram that ends where its packet ends. */
struct datagram {
	struct headers headers;
	__u32 udp_length;
};

/* udp: behind the headers. Returns 0 if the datagram ends elsewhere. */
static __always_inline int datagram_read(struct datagram *d, const struct udphdr *udp)
{
	d->udp_length = bpf_ntohs(udp->len);
	return LIKELY(d->udp_length >= sizeof(*udp) && d->headers.size + d->udp_length == d->headers.length);
}

#define UDP_OPTION_LENGTH (tagged_marks ? WIRE_UDP_OPTION_TAGGED : WIRE_UDP_OPTION)
#define EXPERIMENT_LENGTH (tagged_marks ? WIRE_EXPERIMENT_TAGGED_LENGTH : WIRE_EXPERIMENT_LENGTH)

static __always_inline __u16 option_checksum(const struct wire_udp_option_tagged *option, __u32 area)
{
	__u32 number = option->mark.mark.number, time = option->mark.mark.time, tag = option->mark.tag;
	__u32 sum = bpf_htons(area) + bpf_htons(WIRE_UDP_OPTION_KIND << 8 | EXPERIMENT_LENGTH) +
		    stamp_exid() + (number & 0xffff) + (number >> 16) + (time & 0xffff) +
		    (time >> 16) + (tag & 0xffff) + (tag >> 16);
	__u16 check = fold_checksum(sum);

	return check ? check : 0xffff;
}

/* The datagram has grown: the IP header says so, and a checksum that is still to be made. */
static __always_inline int option_lengthen(struct __sk_buff *skb, const struct datagram *d, __u32 area,
					   int partial)
{
	void *l3 = packet_start(skb) + link_length;
	struct udphdr *udp;

	if (d->headers.size == sizeof(struct ipv6hdr)) {
		struct ipv6hdr *ip = l3;

		udp = (void *)(ip + 1);
		if ((void *)(udp + 1) > packet_end(skb))
			return -1;
		ip->payload_len = bpf_htons(d->udp_length + area);
	} else {
		struct iphdr *ip = l3;
		__be16 length = bpf_htons(d->headers.length + area);

		udp = (void *)(ip + 1);
		if ((void *)(udp + 1) > packet_end(skb))
			return -1;
		ip->check = update_checksum(ip->check, ip->tot_len, length);
		ip->tot_len = length;
	}
	if (partial)
		udp->check = ~fold_checksum(udp->check + bpf_htons(area));
	return 0;
}

#define OPTION_DIRECT 0x7fff /* an offset that the verifier accepts in a packet pointer */

/* The option without a tag is the beginning of one that has a tag. */
static __always_inline void option_copy(void *to, const struct wire_udp_option_tagged *option)
{
	if (tagged_marks)
		__builtin_memcpy(to, option, WIRE_UDP_OPTION_TAGGED);
	else
		__builtin_memcpy(to, option, WIRE_UDP_OPTION);
}

/* at: where the datagram ended, as an offset in the frame */
static __always_inline int option_write(struct __sk_buff *skb, __u32 at, __u32 area,
					const struct wire_udp_option_tagged *option)
{
	__u32 length = UDP_OPTION_LENGTH, pad = area - length;
	__u8 *to, zero = 0;

	if (at < OPTION_DIRECT) {
		to = packet_start(skb) + at;
		if (pad && (void *)(to + length + 1) <= packet_end(skb)) {
			*to = 0;
			option_copy(to + 1, option);
			return 0;
		}
		if (!pad && (void *)(to + length) <= packet_end(skb)) {
			option_copy(to, option);
			return 0;
		}
	}
	if (pad && bpf_skb_store_bytes(skb, at, &zero, 1, 0))
		return -1;
	return bpf_skb_store_bytes(skb, at + pad, option, length, 0);
}

/* Whether the checksum is still to be computed; negative if nothing may be inserted. */
static __always_inline int datagram_partial(struct __sk_buff *skb, const struct datagram *d)
{
	return summed_partial(skb, link_length + d->headers.size + __builtin_offsetof(struct udphdr, check));
}

static __always_inline int option_insert(struct __sk_buff *skb, const struct datagram *d, __u32 area,
					 struct numbering *numbers, const struct mark_key *key)
{
	int partial = datagram_partial(skb, d);
	struct wire_udp_option_tagged option = {
		.mark.mark = { .kind = WIRE_UDP_OPTION_KIND, .length = EXPERIMENT_LENGTH,
			       .exid = stamp_exid() },
	};
	__u64 ticks = 0;

	/* A buffer of a tunnel is refused before it changes. */
	if (partial < 0 || bpf_skb_change_tail(skb, skb->len + area, 0))
		return OPTION_UNFIT;
	if (stamp_modules(numbers) & WIRE_DELAY)
		ticks = clock_ticks();
	option.mark.mark.time = bpf_htonl((__u32)ticks);
	if (modules & WIRE_LOSS)
		option.mark.mark.number = number_take(numbers, 1);
	else
		numbers->used = bpf_jiffies64();
	if (tagged_marks)
		option.mark.tag = stamp_tag(key, ticks, option.mark.mark.number);
	option.check = option_checksum(&option, area);
	if (option_lengthen(skb, d, area, partial) ||
	    option_write(skb, link_length + d->headers.length, area, &option))
		return OUTCOME_MALFORMED;
	return OUTCOME_MARKED;
}

/* Global, so that the insertion is verified once for all packets and once for these. */
__noinline int option_probe(struct __sk_buff *skb)
{
	struct datagram d = {};
	struct mark_key key = {};
	struct udphdr *udp = headers_read(skb, &d.headers);
	__u32 area;
	int outcome;

	if (!udp || d.headers.protocol != IPPROTO_UDP || !datagram_read(&d, udp) ||
	    link_length + d.headers.length != skb->len)
		return OUTCOME_PROBE;
	area = UDP_OPTION_LENGTH + (d.udp_length & 1);
	if (d.headers.length + area > LENGTH_MAX)
		return OUTCOME_MTU;
	if (tag_key(&unnumbered, &d.headers.key, 0, &key))
		return OUTCOME_NO_KEY;
	outcome = option_insert(skb, &d, area, &unnumbered, &key);
	return outcome == OUTCOME_MARKED || outcome >= OUTCOMES ? OUTCOME_PROBE : outcome;
}

/* What reaches the general path cannot have the option. */
#define UDP_OPTION_INSERT(skb, w, numbers) OUTCOME_ENCODING

#endif
