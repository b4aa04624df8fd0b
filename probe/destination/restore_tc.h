/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Takes the mark out of a socket buffer. */
#ifndef PILLION_DESTINATION_RESTORE_TC_H
#define PILLION_DESTINATION_RESTORE_TC_H

#include "account.h"

/*
 * The segment size stays: a source that kept it made room elsewhere, and one
 * that lowered it sent segments of that size. A checksum that the device
 * verified stays verified: what it covered is unchanged.
 */
#define RESTORE_FLAGS (BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET)

/* The kernel takes what follows the fixed header: the Hop-by-Hop header is put back. */
static __always_inline int restore_stepped(struct __sk_buff *skb, const struct mark *m)
{
	__u32 at = link_length + sizeof(struct ipv6hdr), length = bounded_length(m->hop_by_hop, HOP_BY_HOP_MAX);
	__u8 header[HOP_BY_HOP_MAX] = {};

	if (!length || bpf_skb_load_bytes(skb, at, header, length))
		return -1;
	/* First what may be refused: the packet is still whole then. */
	if (bpf_skb_adjust_room(skb, -(__s32)m->size, BPF_ADJ_ROOM_NET, RESTORE_FLAGS))
		return -1;
	header[0] = m->next;
	return bpf_skb_store_bytes(skb, at, header, length, BPF_F_RECOMPUTE_CSUM);
}

static __always_inline int restore_native(struct __sk_buff *skb, const struct mark *m)
{
	__u16 *words, before, after;
	struct ipv6hdr *ip;
	__u32 sum;

	if (m->hop_by_hop) {
		if (restore_stepped(skb, m))
			return -1;
	} else if (bpf_skb_adjust_room(skb, -(__s32)m->size, BPF_ADJ_ROOM_NET, RESTORE_FLAGS)) {
		return -1;
	}
	ip = packet_start(skb) + link_length;
	if ((void *)(ip + 1) > packet_end(skb))
		return -1;
	words = (void *)ip + 6; /* next header and hop limit */
	before = *words;
	if (!m->hop_by_hop)
		ip->nexthdr = m->next;
	after = *words;
	sum = (__u16)~before + after + (__u16)~ip->payload_len;
	ip->payload_len = bpf_htons(bpf_ntohs(ip->payload_len) - m->size);
	sum += ip->payload_len;
	/* A device that summed the whole packet summed these words too. */
	bpf_csum_update(skb, sum);
	return 0;
}

static __always_inline int restore_bare(struct __sk_buff *skb, const struct mark *m)
{
	struct iphdr *ip;

	if (bpf_skb_adjust_room(skb, -(__s32)m->size, BPF_ADJ_ROOM_NET, RESTORE_FLAGS))
		return -1;
	ip = packet_start(skb) + link_length;
	if ((void *)(ip + 1) > packet_end(skb))
		return -1;
	ipv4_restore(ip, m->next, m->length);
	return 0;
}

/* The outer header goes; the inner one, restored, moves to where the mark ends. */
static __always_inline int restore_tunnel(struct __sk_buff *skb, const struct mark *m)
{
	__u32 at = link_length + sizeof(struct iphdr);
	struct iphdr inner;

	if (bpf_skb_load_bytes(skb, at, &inner, sizeof(inner)))
		return -1;
	ipv4_restore(&inner, m->next, m->length);
	if (bpf_skb_adjust_room(skb, -(__s32)(sizeof(inner) + m->size), BPF_ADJ_ROOM_MAC,
				RESTORE_FLAGS))
		return -1;
	return bpf_skb_store_bytes(skb, link_length, &inner, sizeof(inner), BPF_F_RECOMPUTE_CSUM);
}

/* The packet is unchanged behind the outer headers and the mark. */
static __always_inline int restore_inner(struct __sk_buff *skb, const struct mark *m)
{
	return bpf_skb_adjust_room(skb, -(__s32)(m->outer + m->size), BPF_ADJ_ROOM_MAC, RESTORE_FLAGS);
}

/* An IPv4 header with its own checksum adds nothing to a sum over the packet. */
static __always_inline int restore_outer(struct __sk_buff *skb, const struct mark *m)
{
	struct iphdr *ip = packet_start(skb) + link_length;
	__u8 tos, ttl;

	if ((void *)(ip + 1) > packet_end(skb))
		return -1;
	tos = ip->tos;
	ttl = ip->ttl;
	if (m->at > m->outer ? restore_tunnel(skb, m) : restore_inner(skb, m))
		return -1;
	ip = packet_start(skb) + link_length;
	if ((void *)(ip + 1) <= packet_end(skb))
		ipv4_follow(ip, tos, ttl);
	return 0;
}

static __always_inline int restore(struct __sk_buff *skb, const struct mark *m)
{
	if (m->key.family == 6)
		return restore_native(skb, m);
	return m->outer ? restore_outer(skb, m) : restore_bare(skb, m);
}

/* Offset of the timestamps in the packet. */
static __always_inline __u32 delay_offset(const struct mark *m)
{
	__u32 at = m->at;

	at += m->key.family == 6 ?
		      __builtin_offsetof(struct wire_native_delay, delay.data) :
		      __builtin_offsetof(struct wire_shim_delay, delay);
	return at;
}

/* Edge to edge: the mark stays, with our time in it. */
static __always_inline int amend(struct __sk_buff *skb, const struct mark *m, __u64 now_ns)
{
	struct wire_timestamp now = clock_to_wire(now_ns);

	if (!can_amend(m))
		return 0;
	return bpf_skb_store_bytes(skb,
				   link_length + delay_offset(m) +
					   __builtin_offsetof(struct wire_delay, received),
				   &now, sizeof(now), BPF_F_RECOMPUTE_CSUM);
}

#endif
