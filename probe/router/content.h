/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Packets that other buffers than their own may carry to the driver: GSO cuts them
 * into segments, IP into fragments. From t3 on they are known by what is in their
 * headers, and the first segment or fragment, which has the same there, is theirs.
 */
#ifndef PILLION_CONTENT_H
#define PILLION_CONTENT_H

#include "match.h"
#include "table.h"

__u64 contents; /* packets in the table that are known so */

/*
 * Key of what is in the packet, odd, unlike the key of an address, which is even; 0: none. Two
 * packets with the same key (UDP GSO over IPv6) may be confused; both end.
 */
static __always_inline __u64 content_key(struct sk_buff *skb)
{
	const void *base = address(skb->head, skb->network_header);
	struct tuple t = {};
	__u64 hash, header = sizeof(struct ipv6hdr);

	if (skb->protocol != PROTOCOL_IPV4 && skb->protocol != PROTOCOL_IPV6)
		return 0;
	if (!read_tuple(&t, base, linear_from(skb, base), skb->protocol))
		return 0;
	hash = tuple_hash(&t);
	if (t.family == 4) {
		const struct iphdr *ip = AT(struct iphdr, base);

		if (ip->frag_off & IPV4_OFFSET)
			return 0;
		hash = mix(hash, ip->id);
		header = (*(const __u8 *)ip & 15) * 4;
	}
	if (t.protocol == IPPROTO_TCP)
		hash = mix(hash, word_at(base, header + 4));
	return hash | 1;
}

static __always_inline int is_fragment(struct sk_buff *skb)
{
	return skb->protocol == PROTOCOL_IPV4 &&
	       AT(struct iphdr, address(skb->head, skb->network_header))->frag_off & IPV4_FRAGMENT;
}

static __always_inline struct packet *content_find(struct sk_buff *skb, __u64 *key)
{
	struct packet *p = 0;

	if (!contents)
		return p;
	*key = content_key(skb);
	if (*key)
		p = table_find(*key);
	return p;
}

#endif
