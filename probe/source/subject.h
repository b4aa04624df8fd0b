/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The packet under consideration, once its headers are read. */
#ifndef PILLION_SOURCE_SUBJECT_H
#define PILLION_SOURCE_SUBJECT_H

#include "../../wire/wire.h"
#include "../bpf/packet.h"
#include "../bpf/tcp.h"
#include "outcome.h"

/*
 * The number of the agent, which its marks name. Then only packets that this host forwards are
 * marked. 0: marks name nobody; the source address says who wrote them. Written by the loader.
 */
const volatile __u32 ingress_number;

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
	__be32 sequence;  /* of TCP */
	__u8 next;	  /* the header that will follow the mark */
	__u8 fragment;
	__u8 neighbour;
	__u8 multicast;
	__u8 blocked;	  /* an outcome that forbids a mark, or zero */
	__u8 syn;
	__u8 forwarded;	  /* not sent by this host */
	__u8 unfit;	  /* for an option of the transport */
	__u8 unvalidated; /* why the path takes no mark: an outcome, or zero */
	__u8 traced;	  /* routers are to write into it */
	__u8 room;	  /* the kernel reserved room for a mark among the TCP options */
	__u16 option;	  /* where that room lies */
};

/* The rules are about packets that leave: look at one that comes from the other side. */
static __always_inline void flow_reverse(struct flow_key *key)
{
	struct flow_key other = *key;

	copy_address(key->src, other.dst);
	copy_address(key->dst, other.src);
	key->sport = other.dport;
	key->dport = other.sport;
}

/* Where the packet ends, or the first one of a segmentation buffer. */
static __always_inline __u32 subject_end(const struct subject *s)
{
	__u32 first = s->l4 + s->l4_length + s->gso_size;

	return s->gso_size && first < link_length + s->length ? first : link_length + s->length;
}

/* At least length bytes that can be read directly, if the packet has them. */
static __always_inline int pull(struct __sk_buff *skb, __u32 length)
{
	if (packet_start(skb) + length <= packet_end(skb))
		return 0;
	return bpf_skb_pull_data(skb, length);
}

/* The first bytes of any transport header with ports, and of a TCP header. */
struct transport {
	__be16 sport, dport;
	union {
		__be32 sequence;
		__be16 udp_length;
	};
	__be32 acknowledged;
	__u8 offset; /* in the upper half, in words */
	__u8 flags;
};

#define TCP_READ 14 /* of struct transport */
#define PORTS_READ 4

/*
 * A datagram that ends before its packet has a surplus area (RFC 9868). What is in it is of the
 * hosts: the mark of a router is outside of it.
 */
static __always_inline void take_udp_length(struct subject *s, __u32 length)
{
	__u32 ends = s->l4 + length;

	if (ends != link_length + s->length)
		s->unfit = 1;
	if (length >= sizeof(struct udphdr) && ends < link_length + s->length && !ingress_number)
		s->blocked = OUTCOME_EXISTING_OPTION;
}

/*
 * Ports and TCP flags. A later fragment has none. plain: the header lies at
 * this constant offset, as it nearly always does, and is read without a call.
 */
static __always_inline void take_transport(struct subject *s, const struct transport *t)
{
	s->key.sport = t->sport;
	s->key.dport = t->dport;
	s->l4_length = sizeof(struct udphdr);
	if (s->key.protocol == IPPROTO_UDP && !s->gso_size)
		take_udp_length(s, bpf_ntohs(t->udp_length));
	if (s->key.protocol == IPPROTO_TCP) {
		s->l4_length = (t->offset >> 4) * 4;
		s->syn = !!(t->flags & TCP_SYN);
		s->sequence = t->sequence;
	}
}

static __always_inline int read_transport(struct __sk_buff *skb, struct subject *s, __u32 plain)
{
	struct transport copy = {}, *t = packet_start(skb) + plain;

	if (s->fragment || !protocol_has_ports(s->key.protocol))
		return 0;
	if (s->l4 == plain && (void *)(t + 1) <= packet_end(skb)) {
		take_transport(s, t);
		return 0;
	}
	if (bpf_skb_load_bytes(skb, s->l4, &copy,
			       s->key.protocol == IPPROTO_TCP ? TCP_READ : PORTS_READ))
		return OUTCOME_MALFORMED;
	if (s->key.protocol == IPPROTO_UDP)
		bpf_skb_load_bytes(skb, s->l4 + PORTS_READ, &copy.udp_length, sizeof(copy.udp_length));
	take_transport(s, &copy);
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
	ip = packet_start(skb) + link_length;
	if ((void *)(ip + 1) > packet_end(skb) || ip->version != 6)
		return OUTCOME_MALFORMED;
	s->key.family = 6;
	copy_address(s->key.src, &ip->saddr);
	copy_address(s->key.dst, &ip->daddr);
	s->multicast = is_multicast(&s->key);
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
	return read_transport(skb, s, link_length + sizeof(*ip));
}

/* Another router put the packet into a second IPv4 header, with its mark. */
static __always_inline int is_marked_inside(struct __sk_buff *skb, const struct subject *s)
{
	__u8 protocol;

	return s->next == IPPROTO_IPIP && !s->fragment &&
	       !bpf_skb_load_bytes(skb, s->l4 + __builtin_offsetof(struct iphdr, protocol), &protocol, 1) &&
	       protocol == WIRE_PROTOCOL;
}

static __always_inline int read_ipv4(struct __sk_buff *skb, struct subject *s)
{
	struct iphdr *ip;

	if (pull(skb, link_length + sizeof(*ip)))
		return OUTCOME_MALFORMED;
	ip = packet_start(skb) + link_length;
	if ((void *)(ip + 1) > packet_end(skb) || ip->version != 4 || ip->ihl < 5)
		return OUTCOME_MALFORMED;
	s->key.family = 4;
	s->key.src[0] = ip->saddr;
	s->key.dst[0] = ip->daddr;
	s->key.protocol = s->next = ip->protocol;
	s->multicast = is_multicast(&s->key);
	s->fragment = !!(ip->frag_off & IPV4_FRAGMENT);
	s->length = bpf_ntohs(ip->tot_len);
	s->l4 = link_length + ip->ihl * 4;
	if (s->next == WIRE_PROTOCOL || (ingress_number && is_marked_inside(skb, s)))
		s->blocked = OUTCOME_EXISTING_OPTION;
	return read_transport(skb, s, link_length + sizeof(*ip));
}

static __always_inline int read_packet(struct __sk_buff *skb, struct subject *s)
{
	int outcome = OUTCOME_NOT_IP;

	s->gso_size = skb->gso_size;
	s->forwarded = !!skb->ingress_ifindex;
	if (skb->protocol == PROTOCOL_IPV6)
		outcome = read_ipv6(skb, s);
	else if (skb->protocol == PROTOCOL_IPV4)
		outcome = read_ipv4(skb, s);
	else if (skb->protocol == PROTOCOL_VLAN || skb->protocol == PROTOCOL_QINQ)
		outcome = OUTCOME_VLAN;
	if (outcome)
		return outcome;
	/* A destination would not take such a mark out. */
	if (link_length + s->length > skb->len || (link_length + s->length < s->l4 && !s->gso_size))
		return OUTCOME_MALFORMED;
	if (!s->gso_size) { /* padding travels along */
		if (s->length != skb->len - link_length)
			s->unfit = 1;
		s->length = skb->len - link_length;
	}
	return 0;
}

#endif
