/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The packet under consideration, once its headers are read. */
#ifndef PILLION_SOURCE_SUBJECT_H
#define PILLION_SOURCE_SUBJECT_H

#include "../bpf/packet.h"
#include "outcome.h"

/* Longest Hop-by-Hop header that is moved out of the way of a mark. */
#define HOP_BY_HOP_MAX 64

#define NEIGHBOUR_FIRST 133 /* ICMPv6 router solicitation ... */
#define NEIGHBOUR_LAST 137  /* ... redirect (RFC 4861) */

/* Offsets count from the start of the frame. */
struct subject {
	struct flow_key key;
	__u32 length;	  /* of the IP packet, and of what follows it in the frame */
	__u32 l4;	  /* where the transport header begins */
	__u32 l4_length;  /* of a TCP or UDP header, otherwise zero */
	__u32 hop_by_hop; /* length of the Hop-by-Hop header, or zero */
	__u32 segments;	  /* packets this buffer is on the wire, unmarked */
	__u32 gso_size;
	__u8 next;	  /* the header that will follow the mark */
	__u8 fragment;
	__u8 neighbour;
	__u8 multicast;
	__u8 blocked;	  /* an outcome that forbids a mark, or zero */
	__u8 syn;
};

/* At least length bytes that can be read directly, if the packet has them. */
static __always_inline int pull(struct __sk_buff *skb, __u32 length)
{
	if ((void *)(long)skb->data + length <= (void *)(long)skb->data_end)
		return 0;
	return bpf_skb_pull_data(skb, length);
}

/* Ports and TCP flags. A later fragment has none. */
static __always_inline int read_transport(struct __sk_buff *skb, struct subject *s)
{
	if (s->fragment || !protocol_has_ports(s->key.protocol))
		return 0;
	if (s->key.protocol == IPPROTO_TCP) {
		struct tcphdr tcp;

		if (bpf_skb_load_bytes(skb, s->l4, &tcp, sizeof(tcp)))
			return OUTCOME_MALFORMED;
		s->key.sport = tcp.source;
		s->key.dport = tcp.dest;
		s->l4_length = tcp.doff * 4;
		s->syn = tcp.syn;
	} else {
		__be16 ports[2];

		if (bpf_skb_load_bytes(skb, s->l4, ports, sizeof(ports)))
			return OUTCOME_MALFORMED;
		s->key.sport = ports[0];
		s->key.dport = ports[1];
		s->l4_length = sizeof(struct udphdr);
	}
	return 0;
}

static __always_inline int read_hop_by_hop(struct __sk_buff *skb, struct subject *s)
{
	__u8 head[2];

	if (bpf_skb_load_bytes(skb, s->l4, head, sizeof(head)))
		return OUTCOME_MALFORMED;
	s->next = head[0];
	s->hop_by_hop = (head[1] + 1) * 8;
	s->l4 += s->hop_by_hop;
	if (s->hop_by_hop > HOP_BY_HOP_MAX)
		s->blocked = OUTCOME_EXTENSION;
	return 0;
}

/* What the header after the mark would be decides whether there may be one. */
static __always_inline void read_next(struct __sk_buff *skb, struct subject *s)
{
	__u8 type;

	s->key.protocol = s->next;
	switch (s->next) {
	case NEXT_OPTIONS:
		s->blocked = OUTCOME_EXISTING_OPTION;
		break;
	case NEXT_FRAGMENT:
		s->fragment = 1;
		break;
	case NEXT_HOP_BY_HOP:
	case NEXT_ROUTING:
	case NEXT_AUTHENTICATION:
	case NEXT_MOBILITY:
	case NEXT_HIP:
	case NEXT_SHIM6:
		s->blocked = OUTCOME_EXTENSION;
		break;
	case IPPROTO_ICMPV6:
		if (!bpf_skb_load_bytes(skb, s->l4, &type, 1))
			s->neighbour = type >= NEIGHBOUR_FIRST && type <= NEIGHBOUR_LAST;
		break;
	}
}

static __always_inline int read_ipv6(struct __sk_buff *skb, struct subject *s)
{
	struct ipv6hdr *ip;

	if (pull(skb, link_length + sizeof(*ip)))
		return OUTCOME_MALFORMED;
	ip = (void *)(long)skb->data + link_length;
	if ((void *)(ip + 1) > (void *)(long)skb->data_end || ip->version != 6)
		return OUTCOME_MALFORMED;
	s->key.family = 6;
	copy_address(s->key.src, &ip->saddr);
	copy_address(s->key.dst, &ip->daddr);
	s->multicast = ip->daddr.s6_addr[0] == 0xff;
	s->length = sizeof(*ip) + bpf_ntohs(ip->payload_len);
	s->next = ip->nexthdr;
	s->l4 = link_length + sizeof(*ip);
	if (!ip->payload_len && s->gso_size) /* a jumbogram: its length is elsewhere */
		s->blocked = OUTCOME_GSO;
	if (s->next == NEXT_HOP_BY_HOP) {
		int outcome = read_hop_by_hop(skb, s);

		if (outcome)
			return outcome;
	}
	read_next(skb, s);
	return read_transport(skb, s);
}

static __always_inline int read_ipv4(struct __sk_buff *skb, struct subject *s)
{
	struct iphdr *ip;

	if (pull(skb, link_length + sizeof(*ip)))
		return OUTCOME_MALFORMED;
	ip = (void *)(long)skb->data + link_length;
	if ((void *)(ip + 1) > (void *)(long)skb->data_end || ip->version != 4 || ip->ihl < 5)
		return OUTCOME_MALFORMED;
	s->key.family = 4;
	s->key.src[0] = ip->saddr;
	s->key.dst[0] = ip->daddr;
	s->key.protocol = s->next = ip->protocol;
	s->multicast = (bpf_ntohl(ip->daddr) >> 28) == 0xe || ip->daddr == 0xffffffff;
	s->fragment = !!(ip->frag_off & IPV4_FRAGMENT);
	s->length = bpf_ntohs(ip->tot_len);
	s->l4 = link_length + ip->ihl * 4;
	if (s->next == WIRE_PROTOCOL)
		s->blocked = OUTCOME_EXISTING_OPTION;
	return read_transport(skb, s);
}

#endif
