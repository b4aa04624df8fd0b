/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Which packets are asked for: interfaces, five-tuple, sampling. */
#ifndef PILLION_MATCH_H
#define PILLION_MATCH_H

#include "kernel.h"

#define PROTOCOL_IPV4 bpf_htons(0x0800)
#define PROTOCOL_IPV6 bpf_htons(0x86dd)
#define IPV4_OFFSET bpf_htons(0x1fff)
#define IPV4_FRAGMENT bpf_htons(0x3fff) /* more fragments, or an offset */
#define DEVICES_MAX 16

struct tuple {
	__be32 src[4]; /* IPv4 in the first word, zero behind it */
	__be32 dst[4];
	__be32 ports; /* source port first */
	__u8 protocol;
	__u8 family; /* 4 or 6 */
	__u16 zero;
};

/* Set by the loader. The verifier removes what is not asked for. */
const volatile __u32 inputs[DEVICES_MAX]; /* indexes of interfaces */
const volatile __u32 input_count;         /* 0: all */
const volatile __u32 outputs[DEVICES_MAX];
const volatile __u32 output_count;
const volatile __u32 sampling = 1;
const volatile __u32 match_wanted;
const volatile __be32 match_src[4], match_src_mask[4];
const volatile __be32 match_dst[4], match_dst_mask[4];
const volatile __be32 match_ports, match_ports_mask;
const volatile __u8 match_protocol, match_family;

const volatile __u32 namespace; /* number of the router's */

__u64 router_net; /* address of the router's namespace, known from the first packet */

static __always_inline int is_router(struct net_device *dev)
{
	struct net *net = dev->nd_net.net;

	if ((__u64)net == router_net)
		return 1;
	if (net->ns.inum != namespace)
		return 0;
	router_net = (__u64)net;
	return 1;
}

static __always_inline int has_ports(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE ||
	       protocol == IPPROTO_SCTP || protocol == IPPROTO_DCCP;
}

/*
 * Reads the tuple of the packet whose IP header begins at base, of which linear bytes
 * are in reach. 0: they do not suffice.
 */
static __always_inline int read_tuple(struct tuple *t, const void *base, __s64 linear, __be16 protocol)
{
	__u32 header = sizeof(struct ipv6hdr);
	int first = 1;

	if (protocol == PROTOCOL_IPV4) {
		const struct iphdr *ip = AT(struct iphdr, base);

		if (linear < (__s64)sizeof(*ip))
			return 0;
		t->family = 4;
		t->src[0] = ip->saddr;
		t->dst[0] = ip->daddr;
		t->protocol = ip->protocol;
		header = (*(const __u8 *)ip & 15) * 4;
		first = !(ip->frag_off & IPV4_OFFSET);
	} else {
		const struct ipv6hdr *ip = AT(struct ipv6hdr, base);

		if (linear < (__s64)sizeof(*ip))
			return 0;
		t->family = 6;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			t->src[i] = ip->saddr.in6_u.u6_addr32[i];
			t->dst[i] = ip->daddr.in6_u.u6_addr32[i];
		}
		t->protocol = ip->nexthdr;
	}
	if (!first || !has_ports(t->protocol))
		return 1;
	if (linear < (__s64)header + 4)
		return 0;
	t->ports = word_at(base, header);
	return 1;
}

/* The same of a packet whose IP header is what it begins with. */
static __always_inline int read_front(struct tuple *t, struct sk_buff *skb)
{
	return read_tuple(t, skb->data, (__s64)skb->len - skb->data_len, skb->protocol);
}

static __always_inline int matches(const struct tuple *t)
{
	__be32 apart = (t->ports ^ match_ports) & match_ports_mask;

#pragma unroll
	for (int i = 0; i < 4; i++) {
		apart |= (t->src[i] ^ match_src[i]) & match_src_mask[i];
		apart |= (t->dst[i] ^ match_dst[i]) & match_dst_mask[i];
	}
	if (match_protocol && t->protocol != match_protocol)
		return 0;
	if (match_family && t->family != match_family)
		return 0;
	return !apart;
}

static __always_inline int is_refused(struct sk_buff *skb)
{
	struct tuple t = {};

	return !read_front(&t, skb) || !matches(&t);
}

static __always_inline int is_input(__u32 device)
{
	if (!input_count)
		return 1;
#pragma unroll
	for (__u32 i = 0; i < DEVICES_MAX; i++)
		if (i < input_count && inputs[i] == device)
			return 1;
	return 0;
}

static __always_inline int is_output(__u32 device)
{
	if (!output_count)
		return 1;
#pragma unroll
	for (__u32 i = 0; i < DEVICES_MAX; i++)
		if (i < output_count && outputs[i] == device)
			return 1;
	return 0;
}

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

static __always_inline __u64 tuple_hash(const struct tuple *t)
{
	__u64 hash = mix(t->protocol, (__u64)t->src[0] << 32 | t->dst[0]);

	hash = mix(hash, t->ports);
	if (t->family == 6) {
		hash = mix(hash, (__u64)t->src[1] << 32 | t->dst[1]);
		hash = mix(hash, (__u64)t->src[2] << 32 | t->dst[2]);
		hash = mix(hash, (__u64)t->src[3] << 32 | t->dst[3]);
	}
	return hash;
}

#endif
