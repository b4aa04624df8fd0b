/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Packets without a mark that count nevertheless: packets of a sparse flow (WIRE_SPARSE),
 * of which the source numbers every packet and marks only some.
 */
#ifndef PILLION_DESTINATION_SPARSE_H
#define PILLION_DESTINATION_SPARSE_H

#include "account.h"

#define TCP_FLAGS_END 14 /* a source reads no less of a TCP header */

static __always_inline int sparse_transport(struct mark *m, __u8 family, __u8 protocol, __be16 *ports,
					    void *end)
{
	if ((protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) || (void *)(ports + 2) > end ||
	    (protocol == IPPROTO_TCP && (void *)ports + TCP_FLAGS_END > end))
		return 0;
	key_end(&m->key, family, protocol, ports[0], ports[1]);
	return 1;
}

/*
 * Reads a packet as its source read it. length: as in read_ipv6. Returns 0 for packets
 * that no source counts.
 */
static __always_inline int sparse_read(struct mark *m, __be16 protocol, void *l3, void *end, __u32 length)
{
	m->length = length;
	if (protocol == PROTOCOL_IPV6) {
		struct ipv6hdr *ip = l3;
		__u32 total;

		if ((void *)(ip + 1) > end || ip->version != 6)
			return 0;
		total = sizeof(*ip) + bpf_ntohs(ip->payload_len);
		if (total > length)
			return 0;
		if (ip->payload_len) /* none in a buffer beyond 64 KiB */
			m->length = total;
		copy_address_aligned(m->key.src, &ip->saddr);
		copy_address_aligned(m->key.dst, &ip->daddr);
		copy_address_aligned(m->peer, &ip->saddr);
		return sparse_transport(m, 6, ip->nexthdr, (void *)(ip + 1), end);
	}
	if (protocol == PROTOCOL_IPV4) {
		struct iphdr *ip = l3;
		struct slot_key *words = (void *)&m->key;
		__u32 total;

		if ((void *)(ip + 1) > end || *(__u8 *)l3 != 0x45 || (ip->frag_off & IPV4_FRAGMENT))
			return 0;
		total = bpf_ntohs(ip->tot_len);
		if (total > length)
			return 0;
		if (total)
			m->length = total;
		words->words[0] = m->peer[0] = ip->saddr;
		words->words[2] = ip->daddr;
		return sparse_transport(m, 4, ip->protocol, (void *)(ip + 1), end);
	}
	return 0;
}

/* A datagram that ends where its packet ends, so that nothing in it can be a mark. */
static __always_inline int sparse_datagram(const struct mark *m, void *l3, void *end)
{
	__u32 headers = m->key.family == 6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	struct udphdr *udp = l3 + headers;

	return m->key.protocol == IPPROTO_UDP && (void *)(udp + 1) <= end &&
	       headers + bpf_ntohs(udp->len) == m->length && udp->dest != bpf_htons(udp_port);
}

/* The flow has no slot, or the slot is in use. Returns 0 if there is no such flow. */
static __always_inline int sparse_account(const struct mark *m, struct tally *tally, __u32 packets)
{
	struct flow_key key = m->key;
	struct flow *flow = bpf_map_lookup_elem(&flows, &key);
	__u32 state = peers_state;
	struct held held;

	if (!flow || !flow->window.sparse || (flow->peers != state && !is_wanted(m)))
		return 0;
	if (!flow_lock(&held, flow, &key, 0)) {
		tally->contended += packets;
		return 1;
	}
	window_unmarked(&flow->window, packets, m->length);
	flow->touched = 1;
	flow_unlock(&held);
	return 1;
}

/*
 * Counts packets without a mark. Returns 0 if they are of no sparse flow. A global
 * function: the verifier proves it once, apart from its callers.
 */
__noinline int sparse_count(const struct mark *m, struct tally *tally, __u32 packets)
{
	int counted;

	if (!m || !tally)
		return 0;
	counted = run_unmarked(m, packets);
	if (counted == RUN_OTHER && sparse_flows < SPARSE_FLOWS)
		return 0;
	if (counted != RUN_COUNTED && !sparse_account(m, tally, packets))
		return 0;
	tally->bytes += m->length;
	return 1;
}

/* The same for packets in which no mark was found. m: as that search left it */
static __always_inline int sparse_take(struct mark *m, struct tally *tally, __be16 protocol, void *l3, void *end,
				       __u32 length, __u32 packets)
{
	__u32 room = m->size; /* for a mark, in a TCP header */

	__builtin_memset(m, 0, sizeof(*m));
	if (!sparse_read(m, protocol, l3, end, length))
		return 0;
	m->length -= room;
	return sparse_count(m, tally, packets);
}

/* Where source and destination see the same flows. */
static __always_inline int is_sparse(void)
{
	return flow_fields == FLOW_ALL && sparse_flows;
}

#endif
