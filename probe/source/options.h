/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Inserts an extension header with options into an IPv6 packet: Destination Options behind
 * the fixed header, or behind a Hop-by-Hop header that is there; or a Hop-by-Hop header. Room
 * comes first and the mark second, so that a packet without room takes no number. w->room.add
 * is the length of the header, a multiple of 8.
 */
#ifndef PILLION_SOURCE_OPTIONS_H
#define PILLION_SOURCE_OPTIONS_H

#include "module.h"
#include "number.h"
#include "work.h"

/* Where the header begins. */
static __always_inline __u32 options_at(const struct work *w)
{
	return link_length + sizeof(struct ipv6hdr) + (w->subject.hop_by_hop & 0x7f);
}

/* Room appears behind the fixed header: bring a Hop-by-Hop header before it. */
static __always_inline int options_step_over(struct __sk_buff *skb, const struct subject *s, __u32 add)
{
	__u32 at = link_length + sizeof(struct ipv6hdr);
	__u32 length = bounded_length(s->hop_by_hop, HOP_BY_HOP_MAX);
	__u8 header[HOP_BY_HOP_MAX] = {};

	if (!length || bpf_skb_load_bytes(skb, at + add, header, length))
		return -1;
	header[0] = NEXT_OPTIONS;
	return bpf_skb_store_bytes(skb, at, header, length, 0);
}

/* The packet is sent unchanged. Returns an outcome. */
static __always_inline int options_undo(struct __sk_buff *skb, const struct work *w)
{
	bpf_skb_adjust_room(skb, -(int)w->room.add, BPF_ADJ_ROOM_NET, w->room.flags);
	return OUTCOME_NO_ROOM;
}

/* Makes room. header: NEXT_OPTIONS or NEXT_HOP_BY_HOP. Returns an outcome, or 0. */
static __always_inline int options_room(struct __sk_buff *skb, const struct work *w, __u8 header)
{
	const struct subject *s = &w->subject;

	if (header == NEXT_HOP_BY_HOP && s->hop_by_hop)
		return OUTCOME_EXTENSION;
	if (bpf_skb_adjust_room(skb, w->room.add, BPF_ADJ_ROOM_NET, w->room.flags))
		return s->gso_size ? OUTCOME_GSO : OUTCOME_NO_ROOM;
	if (s->hop_by_hop && options_step_over(skb, s, w->room.add))
		return options_undo(skb, w);
	return 0;
}

/* Makes the header, which is in its place, part of the packet. Returns an outcome. */
static __always_inline int options_chain(struct __sk_buff *skb, const struct work *w, __u8 header)
{
	struct ipv6hdr *ip = packet_start(skb) + link_length;

	if ((void *)(ip + 1) > packet_end(skb))
		return options_undo(skb, w);
	if (!w->subject.hop_by_hop)
		ip->nexthdr = header;
	ip->payload_len = bpf_htons(bpf_ntohs(ip->payload_len) + w->room.add);
	return OUTCOME_MARKED;
}

/* The option that names the agent takes the place of the padding, and padding follows it. */
static __always_inline int options_name_ingress(struct work *w, __u32 length)
{
	__u32 padding = w->padding & 7, at = length - WIRE_INGRESS_PADDED - padding;
	__u8 *option;

	if (at > sizeof(w->mark) - 2 * WIRE_INGRESS_PADDED)
		return -1;
	asm volatile("" : "+r"(at)); /* or its range is forgotten */
	if (at > sizeof(w->mark) - 2 * WIRE_INGRESS_PADDED)
		return -1;
	option = w->mark + at;
	ingress_write(option);
	for (__u32 i = INGRESS_BYTES; i < 2 * WIRE_INGRESS_PADDED; i++)
		option[i] = 0;
	if (padding) {
		option[INGRESS_BYTES] = WIRE_OPTION_PADN;
		option[INGRESS_BYTES + 1] = padding - 1;
	}
	return 0;
}

/*
 * Completes the header in w->mark, whose options the caller wrote behind its first two
 * bytes, and stores it in the room that options_room made. Returns an outcome.
 */
static __always_inline int options_store(struct __sk_buff *skb, struct work *w, __u8 header)
{
	__u32 length = w->room.add;

	if (length < 8 || length > WIRE_MARK_MAX)
		return options_undo(skb, w);
	if (ingress_number && options_name_ingress(w, length))
		return options_undo(skb, w);
	w->mark[0] = w->subject.next;
	w->mark[1] = length / 8 - 1;
	length = bounded_length(length, WIRE_MARK_MAX);
	if (!length || bpf_skb_store_bytes(skb, options_at(w), w->mark, length, 0))
		return options_undo(skb, w);
	return options_chain(skb, w, header);
}

/* Both, for marks without a sequence number. Returns an outcome. */
static __always_inline int options_insert(struct __sk_buff *skb, struct work *w, __u8 header)
{
	int outcome = options_room(skb, w, header);

	return outcome ? outcome : options_store(skb, w, header);
}

#endif
