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

static __always_inline __u16 option_checksum(const struct wire_udp_option *option, __u32 area)
{
	__u32 number = option->mark.number, time = option->mark.time;
	__u32 sum = bpf_htons(area) + bpf_htons(WIRE_UDP_OPTION_KIND << 8 | WIRE_EXPERIMENT_LENGTH) +
		    stamp_exid() + (number & 0xffff) + (number >> 16) + (time & 0xffff) +
		    (time >> 16);
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

/* at: where the datagram ended, as an offset in the frame */
static __always_inline int option_write(struct __sk_buff *skb, __u32 at, __u32 area,
					const struct wire_udp_option *option)
{
	__u32 pad = area - WIRE_UDP_OPTION;
	__u8 *to, zero = 0;

	if (at < OPTION_DIRECT) {
		to = packet_start(skb) + at;
		if ((void *)(to + WIRE_UDP_OPTION + 1) <= packet_end(skb) && pad) {
			*to = 0;
			__builtin_memcpy(to + 1, option, sizeof(*option));
			return 0;
		}
		if ((void *)(to + WIRE_UDP_OPTION) <= packet_end(skb) && !pad) {
			__builtin_memcpy(to, option, sizeof(*option));
			return 0;
		}
	}
	if (pad && bpf_skb_store_bytes(skb, at, &zero, 1, 0))
		return -1;
	return bpf_skb_store_bytes(skb, at + pad, option, sizeof(*option), 0);
}

static __always_inline int option_insert(struct __sk_buff *skb, const struct datagram *d, __u32 area,
					 struct numbering *numbers)
{
	int partial = summed_partial(skb, link_length + d->headers.size + __builtin_offsetof(struct udphdr, check));
	struct wire_udp_option option = {
		.mark = { .kind = WIRE_UDP_OPTION_KIND, .length = WIRE_EXPERIMENT_LENGTH,
			  .exid = stamp_exid() },
	};

	/* A buffer of a tunnel is refused before it changes. */
	if (partial < 0 || bpf_skb_change_tail(skb, skb->len + area, 0))
		return OPTION_UNFIT;
	if (stamp_modules(numbers) & WIRE_DELAY)
		option.mark.time = clock_ticks();
	if (modules & WIRE_LOSS)
		option.mark.number = number_take(numbers, 1);
	else
		numbers->used = bpf_jiffies64();
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
	struct udphdr *udp = headers_read(skb, &d.headers);
	__u32 area;
	int outcome;

	if (!udp || d.headers.protocol != IPPROTO_UDP || !datagram_read(&d, udp) ||
	    link_length + d.headers.length != skb->len)
		return OUTCOME_PROBE;
	area = WIRE_UDP_OPTION + (d.udp_length & 1);
	if (d.headers.length + area > LENGTH_MAX)
		return OUTCOME_MTU;
	outcome = option_insert(skb, &d, area, &unnumbered);
	return outcome == OUTCOME_MARKED || outcome >= OUTCOMES ? OUTCOME_PROBE : outcome;
}

#endif
