/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Finds the mark in a packet, whichever hook the packet came by. */
#ifndef PILLION_DESTINATION_FIND_H
#define PILLION_DESTINATION_FIND_H

#include "../bpf/tcp.h"
#include "layout.h"

/* Ports of what the mark stands before; none if the packet ends too soon. */
static __always_inline void read_ports(struct mark *m, void *l4, void *end)
{
	__be16 *ports = l4;

	if (!protocol_has_ports(m->key.protocol) || (void *)(ports + 2) > end)
		return;
	m->key.sport = ports[0];
	m->key.dport = ports[1];
}

/*
 * What an option of a transport carries; zero stands for nothing. Nothing at all is no
 * mark. sparse: not zero with the ExID for such flows, whose marks carry both.
 */
static __always_inline int read_experiment(struct mark *m, __be32 number, __be32 time, __u32 sparse)
{
	if (number) {
		m->sequence = bpf_ntohl(number);
		m->modules |= WIRE_LOSS;
	}
	m->ticks = bpf_ntohl(time);
	if (m->ticks)
		m->modules |= WIRE_DELAY;
	if (!sparse)
		return m->modules ? 0 : -1;
	if (m->modules != (WIRE_DELAY | WIRE_LOSS))
		return -1;
	m->modules |= WIRE_SPARSE;
	return 0;
}

/*
 * The option of a TCP segment, whose addresses are known. It stays in the packet: no
 * host is disturbed by it, and its end knows how long the header is.
 */
static __always_inline int read_tcp(struct mark *m, struct tcphdr *tcp, void *end)
{
	struct wire_experiment_tagged *tagged;
	struct wire_experiment *option;
	__u32 at = tcp_find(tcp, end);

	if (!at)
		return VERDICT_UNMARKED;
	option = (void *)tcp + (at & TCP_HEADER_MASK);
	if ((void *)(option + 1) > end)
		return VERDICT_UNMARKED;
	m->size = option->length;
	if (option->kind != WIRE_TCP_OPTION_KIND) /* room for a mark that was not written */
		return VERDICT_UNMARKED;
	if (read_experiment(m, option->number, option->time, option->exid != bpf_htons(WIRE_EXID)))
		return VERDICT_MALFORMED;
	tagged = (void *)option;
	if (option->length == WIRE_TCP_OPTION_TAGGED) {
		if ((void *)(tagged + 1) > end)
			return VERDICT_UNMARKED;
		if (!(m->modules & WIRE_LOSS))
			return VERDICT_MALFORMED;
		read_tag(m, FIELD(tagged, tag));
	}
	m->added = option->length;
	m->encoding = WIRE_ENCODING_TCP_OPTION;
	m->next = m->key.protocol = IPPROTO_TCP;
	m->size = at + option->length;
	m->key.sport = tcp->source;
	m->key.dport = tcp->dest;
	return VERDICT_MARKED;
}

static __always_inline int read_tcp6(struct mark *m, struct ipv6hdr *ip, __u32 at, void *end,
				     __u32 length)
{
	struct tcphdr *tcp = (void *)ip + (at & 0x7f);
	int verdict;

	asm volatile("" : "+r"(tcp)); /* or it is computed again after its checks */
	verdict = read_tcp(m, tcp, end);
	if (verdict != VERDICT_MARKED)
		return verdict;
	m->length = sizeof(*ip) + bpf_ntohs(ip->payload_len);
	if (ip->version != 6 || m->length > length || m->length < at + m->size)
		return VERDICT_MALFORMED;
	m->length -= m->added;
	m->key.family = 6;
	copy_address_aligned(m->key.src, &ip->saddr);
	copy_address_aligned(m->key.dst, &ip->daddr);
	copy_address_aligned(m->peer, &ip->saddr);
	return VERDICT_MARKED;
}

/* length: of what the device took for the IP packet, padding included */
static __always_inline int read_ipv6(struct mark *m, void *l3, void *end, __u32 length)
{
	struct ipv6hdr *ip = l3;
	__u32 at = sizeof(*ip);
	__u8 next;
	int verdict;

	if ((void *)(ip + 1) > end)
		return VERDICT_UNMARKED;
	next = ip->nexthdr;
	if (next == NEXT_HOP_BY_HOP) {
		__u8 *header = l3 + at;

		if ((void *)(header + 2) > end)
			return VERDICT_UNMARKED;
		m->hop_by_hop = (header[1] + 1) * 8;
		if (header[1] >= HOP_BY_HOP_MAX / 8)
			return VERDICT_UNMARKED;
		next = header[0];
		at += m->hop_by_hop & 0x7f;
	}
	if (next == IPPROTO_TCP)
		return read_tcp6(m, ip, at, end, length);
	if (next != NEXT_OPTIONS)
		return VERDICT_UNMARKED;
	m->at = at;
	m->encoding = WIRE_ENCODING_NATIVE;
	verdict = read_options(m, l3 + at, end);
	if (verdict != VERDICT_MARKED)
		return verdict;
	if (ip->version != 6 || m->next == NEXT_HOP_BY_HOP ||
	    bpf_ntohs(ip->payload_len) < m->hop_by_hop + m->size ||
	    bpf_ntohs(ip->payload_len) + sizeof(*ip) > length)
		return VERDICT_MALFORMED;
	m->length = sizeof(*ip) + bpf_ntohs(ip->payload_len) - m->size;
	m->key.family = 6;
	m->key.protocol = m->next;
	copy_address_aligned(m->key.src, &ip->saddr);
	copy_address_aligned(m->key.dst, &ip->daddr);
	copy_address_aligned(m->peer, &ip->saddr);
	read_ports(m, l3 + at + (m->size & 0x3f), end);
	return VERDICT_MARKED;
}

/* The header of the packet as it was, or will be, once restored. */
static __always_inline void read_inner(struct mark *m, const struct iphdr *ip, __u8 protocol)
{
	m->key.family = 4;
	m->key.protocol = protocol;
	m->key.src[0] = ip->saddr;
	m->key.dst[0] = ip->daddr;
}

/* ip: a header with protocol 253; at: its offset in the packet. */
static __always_inline int read_bare(struct mark *m, struct iphdr *ip, __u32 at, void *end)
{
	int verdict;

	if (ip->ihl != 5 || (ip->frag_off & IPV4_FRAGMENT))
		return VERDICT_MALFORMED;
	m->at = at + sizeof(*ip);
	verdict = read_shim(m, ip + 1, end);
	if (verdict != VERDICT_MARKED)
		return verdict;
	if (bpf_ntohs(ip->tot_len) < sizeof(*ip) + m->size)
		return VERDICT_MALFORMED;
	m->length = bpf_ntohs(ip->tot_len) - m->size;
	read_inner(m, ip, m->next);
	read_ports(m, (void *)(ip + 1) + (m->size & 0x3f), end);
	return VERDICT_MARKED;
}

static __always_inline int read_ipip(struct mark *m, struct iphdr *outer, void *end)
{
	struct iphdr *inner = outer + 1;

	if ((void *)(inner + 1) > end || inner->protocol != WIRE_PROTOCOL)
		return VERDICT_UNMARKED;
	if (outer->ihl != 5 || (outer->frag_off & IPV4_FRAGMENT) || inner->version != 4)
		return VERDICT_MALFORMED;
	if (inner->saddr != outer->saddr || inner->daddr != outer->daddr ||
	    bpf_ntohs(inner->tot_len) + sizeof(*outer) != bpf_ntohs(outer->tot_len))
		return VERDICT_INNER;
	m->encoding = WIRE_ENCODING_IPIP;
	m->outer = sizeof(*outer);
	return read_bare(m, inner, sizeof(*outer), end);
}

static __always_inline int read_udp(struct mark *m, struct iphdr *outer, void *end)
{
	struct udphdr *udp = (void *)(outer + 1);
	struct iphdr *inner;
	int verdict;

	if ((void *)(udp + 1) > end || udp->dest != bpf_htons(udp_port) || udp->check)
		return VERDICT_UNMARKED;
	if (outer->ihl != 5 || (outer->frag_off & IPV4_FRAGMENT) ||
	    bpf_ntohs(udp->len) + sizeof(*outer) != bpf_ntohs(outer->tot_len))
		return VERDICT_MALFORMED;
	m->encoding = WIRE_ENCODING_UDP;
	m->outer = sizeof(*outer) + sizeof(*udp);
	m->at = m->outer;
	verdict = read_shim(m, udp + 1, end);
	if (verdict != VERDICT_MARKED)
		return verdict;
	inner = (void *)(udp + 1) + (m->size & 0x3f);
	if (m->next != IPPROTO_IPIP || (void *)(inner + 1) > end || inner->version != 4 || inner->ihl < 5)
		return VERDICT_MALFORMED;
	m->length = bpf_ntohs(inner->tot_len);
	if (m->length < inner->ihl * 4)
		return VERDICT_MALFORMED;
	if (inner->saddr != outer->saddr || inner->daddr != outer->daddr ||
	    m->length + sizeof(*outer) + sizeof(*udp) + m->size != bpf_ntohs(outer->tot_len))
		return VERDICT_INNER;
	m->next = inner->protocol;
	read_inner(m, inner, inner->protocol);
	read_ports(m, (void *)inner + inner->ihl * 4, end);
	return VERDICT_MARKED;
}

static __always_inline int read_tcp4(struct mark *m, struct iphdr *ip, void *end)
{
	struct tcphdr *tcp = (void *)ip + ip->ihl * 4;
	int verdict;

	if (ip->ihl < 5 || (ip->frag_off & IPV4_FRAGMENT))
		return VERDICT_UNMARKED;
	asm volatile("" : "+r"(tcp)); /* or it is computed again after its checks */
	verdict = read_tcp(m, tcp, end);
	if (verdict != VERDICT_MARKED)
		return verdict;
	if (bpf_ntohs(ip->tot_len) < ip->ihl * 4 + m->size)
		return VERDICT_MALFORMED;
	m->length = bpf_ntohs(ip->tot_len) - m->added;
	read_inner(m, ip, IPPROTO_TCP);
	return VERDICT_MARKED;
}

static __always_inline int read_ipv4(struct mark *m, void *l3, void *end, __u32 length)
{
	struct iphdr *ip = l3;
	int verdict = VERDICT_UNMARKED;

	if ((void *)(ip + 1) > end)
		return VERDICT_UNMARKED;
	m->peer[0] = ip->saddr;
	switch (ip->protocol) {
	case IPPROTO_TCP:
		verdict = read_tcp4(m, ip, end);
		break;
	case IPPROTO_UDP:
		verdict = read_udp(m, ip, end);
		break;
	case WIRE_PROTOCOL:
		m->encoding = WIRE_ENCODING_SHIM;
		verdict = read_bare(m, ip, 0, end);
		break;
	case IPPROTO_IPIP:
		verdict = read_ipip(m, ip, end);
		break;
	}
	if (verdict == VERDICT_MARKED && (ip->version != 4 || bpf_ntohs(ip->tot_len) > length))
		return VERDICT_MALFORMED;
	return verdict;
}

#endif
