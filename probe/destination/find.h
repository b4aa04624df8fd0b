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

/* An ExID without the fields of an aggregate. */
#define EXID_IS_AGGREGATE(exid) (((exid) & ~bpf_htons(WIRE_AGGREGATE_FIELDS)) == bpf_htons(WIRE_EXID_AGGREGATE))

enum exid {
	EXID_NUMBERED,
	EXID_SPARSE,
	EXID_INVALID,
};

/* Of an option of a transport, which is one of ours. An aggregate has some of the fields, not all. */
static __always_inline enum exid read_exid(struct mark *m, __be16 exid)
{
	if (EXID_IS_AGGREGATE(exid)) {
		m->aggregate = bpf_ntohs(exid) & WIRE_AGGREGATE_FIELDS;
		return m->aggregate && m->aggregate != WIRE_AGGREGATE_FIELDS ? EXID_NUMBERED : EXID_INVALID;
	}
	return exid == bpf_htons(WIRE_EXID) ? EXID_NUMBERED : EXID_SPARSE;
}

/*
 * What an option of a transport carries; zero stands for nothing. Nothing at all is no
 * mark. With the ExID for sparse flows it carries both.
 */
static __always_inline int read_experiment(struct mark *m, __be32 number, __be32 time, enum exid exid)
{
	if (number) {
		m->sequence = bpf_ntohl(number);
		m->modules |= WIRE_LOSS;
	}
	m->ticks = bpf_ntohl(time);
	if (m->ticks)
		m->modules |= WIRE_DELAY;
	if (exid == EXID_NUMBERED)
		return m->modules ? 0 : -1;
	if (exid == EXID_INVALID || m->modules != (WIRE_DELAY | WIRE_LOSS))
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
	if (read_experiment(m, option->number, option->time, read_exid(m, option->exid)))
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

/* Addresses and length of a packet of which the mark is read. length: as in read_ipv6 */
static __always_inline int read_addresses(struct mark *m, struct ipv6hdr *ip, __u32 length)
{
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
	return VERDICT_MARKED;
}

/* A Hop-by-Hop header that routers write into: its first option, at 4n, is a trace. */
static __always_inline int is_trace(const __u8 *header, void *end)
{
	return (void *)(header + 5) <= end && header[2] <= WIRE_OPTION_PADN && !header[3] &&
	       header[4] == WIRE_OPTION_IOAM_HOPS;
}

static __always_inline int read_native(struct mark *m, struct ipv6hdr *ip, __u32 at, void *end, __u32 length)
{
	void *l3 = ip;
	int verdict;

	m->at = at;
	m->encoding = WIRE_ENCODING_NATIVE;
	verdict = read_options(m, l3 + at, end);
	if (verdict == VERDICT_MARKED)
		verdict = read_addresses(m, ip, length);
	if (verdict == VERDICT_MARKED)
		read_ports(m, l3 + at + (m->size & 0x3f), end);
	return verdict;
}

/* length: of what the device took for the IP packet, padding included. Returns a verdict, or READ_OPTIONS_SINGLY. */
static __always_inline int read_ipv6(struct mark *m, void *l3, void *end, __u32 length)
{
	struct ipv6hdr *ip = l3;
	__u32 at = sizeof(*ip), traced = 0;
	int verdict = VERDICT_UNMARKED;
	__u8 next;

	if ((void *)(ip + 1) > end)
		return VERDICT_UNMARKED;
	if (MODULE_COUNT) {
		m->hop_limit = ip->hop_limit;
		m->traffic_class = ip->priority << 4 | ip->flow_lbl[0] >> 4;
	}
	next = ip->nexthdr;
	if (next == NEXT_HOP_BY_HOP) {
		__u8 *header = l3 + at;

		if ((void *)(header + 2) > end)
			return VERDICT_UNMARKED;
		if (is_trace(header, end))
			traced = (header[1] + 1) * 8;
		m->hop_by_hop = (header[1] + 1) * 8;
		next = header[0];
		at += m->hop_by_hop & 0x7f;
		if (header[1] >= HOP_BY_HOP_MAX / 8)
			next = NEXT_NONE;
	}
	if (next == IPPROTO_TCP)
		verdict = read_tcp6(m, ip, at, end, length);
	else if (next == NEXT_OPTIONS)
		verdict = read_native(m, ip, at, end, length);
	if (verdict != VERDICT_UNMARKED || !traced || traced > WALK_LENGTH)
		return verdict;
	m->at = sizeof(*ip);
	m->size = traced;
	m->hops = 1;
	m->hop_by_hop = 0;
	return READ_OPTIONS_SINGLY;
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
	if (MODULE_COUNT) {
		m->hop_limit = ip->ttl;
		m->traffic_class = ip->tos;
	}
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
