/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Headers of most packets: UDP or TCP right behind an IP header without options. */
#ifndef PILLION_SOURCE_HEADERS_H
#define PILLION_SOURCE_HEADERS_H

#include "../bpf/packet.h"
#include "../bpf/slot.h"

struct headers {
	struct flow_key key __attribute__((aligned(8)));
	__u32 length; /* of the IP packet, as its header says */
	__u32 size;   /* of the IP header */
	__u8 protocol;
};

#define PORTS_LENGTH 8 /* of any transport header that has ports: in reach once headers are read */

static __always_inline int headers_begin(struct headers *h, __u8 family, __u8 protocol, const __be16 *ports)
{
	h->protocol = protocol;
	key_end(&h->key, family, protocol, ports[0], ports[1]);
	return protocol == IPPROTO_UDP || protocol == IPPROTO_TCP;
}

/* Returns the transport header, or 0 for every other packet. */
static __always_inline void *headers_read(struct __sk_buff *skb, struct headers *h)
{
	void *l3 = packet_start(skb) + link_length, *end = packet_end(skb);
	struct slot_key *words = (void *)&h->key;

	if (LIKELY(skb->protocol == PROTOCOL_IPV6)) {
		struct ipv6hdr *ip = l3;
		void *l4 = ip + 1;

		if (UNLIKELY(l4 + PORTS_LENGTH > end || ip->version != 6))
			return 0;
		copy_address_aligned(h->key.src, &ip->saddr);
		copy_address_aligned(h->key.dst, &ip->daddr);
		h->size = sizeof(*ip);
		h->length = sizeof(*ip) + bpf_ntohs(ip->payload_len);
		return LIKELY(headers_begin(h, 6, ip->nexthdr, l4)) ? l4 : 0;
	}
	if (LIKELY(skb->protocol == PROTOCOL_IPV4)) {
		struct iphdr *ip = l3;
		void *l4 = ip + 1;

		if (UNLIKELY(l4 + PORTS_LENGTH > end || *(__u8 *)l3 != 0x45 || (ip->frag_off & IPV4_FRAGMENT)))
			return 0;
		words->words[0] = ip->saddr;
		words->words[1] = words->words[3] = 0;
		words->words[2] = ip->daddr;
		h->size = sizeof(*ip);
		h->length = bpf_ntohs(ip->tot_len);
		return LIKELY(headers_begin(h, 4, ip->protocol, l4)) ? l4 : 0;
	}
	return 0;
}

#endif
