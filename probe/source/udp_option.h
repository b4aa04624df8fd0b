/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The udp-option encoding: a mark in the surplus area behind the data of a UDP
 * datagram. Most packets of a known flow end here, so what was decided for the
 * flow is remembered in its slot, and the general path begins where this one
 * leaves a packet to it.
 */
#ifndef PILLION_SOURCE_UDP_OPTION_H
#define PILLION_SOURCE_UDP_OPTION_H

#include "../bpf/summed.h"
#include "lease.h"
#include "sample.h"
#include "sparse.h"
#include "stamp.h"
#include "verdict.h"

/* A datagram, and where it lies. */
struct datagram {
	struct flow_key key;
	__u32 length;  /* of the IP packet */
	__u32 headers; /* of IP */
	__u16 udp_length;
};

static __always_inline void datagram_ports(struct datagram *d, __u8 family, const struct udphdr *udp)
{
	key_end(&d->key, family, IPPROTO_UDP, udp->source, udp->dest);
	d->udp_length = bpf_ntohs(udp->len);
}

/* Returns 0 unless the packet is UDP right behind an IP header without options. */
static __always_inline int datagram_read(struct __sk_buff *skb, struct datagram *d)
{
	void *l3 = packet_start(skb) + link_length, *end = packet_end(skb);
	struct slot_key *words = (void *)&d->key;

	if (skb->protocol == PROTOCOL_IPV6) {
		struct ipv6hdr *ip = l3;
		struct udphdr *udp = (void *)(ip + 1);

		if ((void *)(udp + 1) > end || ip->version != 6 || ip->nexthdr != IPPROTO_UDP)
			return 0;
		copy_address_aligned(d->key.src, &ip->saddr);
		copy_address_aligned(d->key.dst, &ip->daddr);
		d->headers = sizeof(*ip);
		d->length = sizeof(*ip) + bpf_ntohs(ip->payload_len);
		datagram_ports(d, 6, udp);
	} else if (skb->protocol == PROTOCOL_IPV4) {
		struct iphdr *ip = l3;
		struct udphdr *udp = (void *)(ip + 1);

		if ((void *)(udp + 1) > end || *(__u8 *)l3 != 0x45 || ip->protocol != IPPROTO_UDP ||
		    (ip->frag_off & IPV4_FRAGMENT))
			return 0;
		words->words[0] = ip->saddr;
		words->words[1] = words->words[3] = 0;
		words->words[2] = ip->daddr;
		d->headers = sizeof(*ip);
		d->length = bpf_ntohs(ip->tot_len);
		datagram_ports(d, 4, udp);
	} else {
		return 0;
	}
	return d->udp_length >= sizeof(struct udphdr) && d->headers + d->udp_length == d->length &&
	       link_length + d->length == skb->len;
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

	if (d->key.family == 6) {
		struct ipv6hdr *ip = l3;

		udp = (void *)(ip + 1);
		if ((void *)(udp + 1) > packet_end(skb))
			return -1;
		ip->payload_len = bpf_htons(d->udp_length + area);
	} else {
		struct iphdr *ip = l3;
		__be16 length = bpf_htons(d->length + area);

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
	int partial = summed_partial(skb, link_length + d->headers + __builtin_offsetof(struct udphdr, check));
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
	    option_write(skb, link_length + d->length, area, &option))
		return OUTCOME_MALFORMED;
	return OUTCOME_MARKED;
}

/* Global, so that the insertion is verified once for all packets and once for these. */
__noinline int option_probe(struct __sk_buff *skb)
{
	struct datagram d __attribute__((aligned(8))) = {};
	__u32 area;
	int outcome;

	if (!datagram_read(skb, &d))
		return OUTCOME_PROBE;
	area = WIRE_UDP_OPTION + (d.udp_length & 1);
	if (d.length + area > LENGTH_MAX)
		return OUTCOME_MTU;
	outcome = option_insert(skb, &d, area, &unnumbered);
	return outcome == OUTCOME_MARKED || outcome >= OUTCOMES ? OUTCOME_PROBE : outcome;
}

/* Returns an outcome, or one of OPTION_PASS, OPTION_UNFIT and OPTION_FAILED. */
static __always_inline int option_mark(struct __sk_buff *skb, struct tally *tally)
{
	struct flow_key aggregate __attribute__((aligned(8)));
	struct datagram d __attribute__((aligned(8)));
	const struct flow_key *flow = &d.key;
	struct numbering *numbers;
	__u64 judgement;
	__u32 area, probed = probed_encoding(skb);
	int verdict, outcome;

	if (probed < WIRE_ENCODINGS_MAX)
		return probed == WIRE_ENCODING_UDP_OPTION ? option_probe(skb) : OPTION_PASS;
	if (skb->gso_size || skb->ingress_ifindex || !datagram_read(skb, &d))
		return OPTION_PASS;
	if (flow_fields != FLOW_ALL) {
		aggregate = d.key;
		flow_aggregate(&aggregate);
		flow = &aggregate;
	}
	numbers = number_known(flow);
	judgement = flow_judgement(&d.key, numbers);
	verdict = JUDGEMENT_VERDICT(judgement);
	if (verdict == OUTCOME_NO_MATCH || verdict >= OUTCOMES)
		return verdict;
	if (probed == PROBE_UNMARKED)
		return OUTCOME_PROBE;
	if (bpf_jiffies64() >= lease_until)
		return OUTCOME_NO_LEASE;
	if (!sample())
		return OUTCOME_NOT_SAMPLED;
	if (verdict)
		return sparse_refused(numbers, 1, verdict);
	area = WIRE_UDP_OPTION + (d.udp_length & 1);
	if (d.length + area > JUDGEMENT_LIMIT(judgement))
		return sparse_refused(numbers, 1, OUTCOME_MTU);
	if (!numbers)
		numbers = number_other(flow, tally);
	if (!numbers)
		return OUTCOME_FLOWS;
	if (sparse_marks && sparse_spares(numbers))
		return sparse_take(numbers, 1, OUTCOME_COUNTED);
	outcome = option_insert(skb, &d, area, numbers);
	if (outcome == OUTCOME_MARKED)
		tally->bytes_added += area;
	else if (sparse_marks)
		stamp_again(&numbers->stamping);
	return outcome;
}

#endif
