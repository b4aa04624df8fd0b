/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Room for a mark: how many bytes, whether every packet still fits the path,
 * and how many packets a segmentation buffer becomes.
 */
#ifndef PILLION_SOURCE_ROOM_H
#define PILLION_SOURCE_ROOM_H

#include "path.h"

#define LENGTH_MAX 0xffff /* what an IP length field can say */

struct room {
	__u32 add;	/* bytes per packet */
	__u32 packets;	/* on the wire, once marked */
	__u64 flags;	/* for bpf_skb_adjust_room */
};

/*
 * A TCP buffer keeps its segment size if the marked segments fit (the MSS was
 * clamped); otherwise the kernel lowers it by what was added and the buffer
 * becomes more packets. UDP segments are datagrams: their size is not ours.
 */
static __always_inline int room_segmented(const struct subject *s, struct room *room, __u32 limit)
{
	__u32 headers = s->l4 - link_length + s->l4_length;
	__u32 payload = s->length - headers;
	__u32 size = s->gso_size;

	if (s->length < headers || size <= room->add)
		return OUTCOME_GSO;
	/*
	 * Where such a buffer arrives whole, as on veth, taking the mark out does
	 * not take the kernel's note of a UDP tunnel out: it would be dropped when
	 * the socket segments it. TCP is not segmented there.
	 */
	if (s->key.family == 4 && s->key.protocol != IPPROTO_TCP)
		return OUTCOME_GSO;
	if (headers + size + room->add <= limit) {
		room->flags |= BPF_F_ADJ_ROOM_FIXED_GSO;
	} else {
		if (s->key.protocol != IPPROTO_TCP)
			return OUTCOME_MTU;
		size -= room->add;
	}
	room->packets = (payload + size - 1) / size;
	return 0;
}

/* The kernel made room already while it built the packet. */
static __always_inline int room_reserved(const struct subject *s, struct room *room)
{
	room->packets = s->segments ? s->segments : 1;
	return 0;
}

static __always_inline int room_plan(const struct subject *s, struct room *room)
{
	__u32 limit = path_limit(&s->key);

	room->packets = 1;
	if (s->length + room->add > LENGTH_MAX)
		return OUTCOME_MTU;
	if (s->gso_size)
		return room_segmented(s, room, limit);
	if (s->length + room->add > limit)
		return OUTCOME_MTU;
	return 0;
}

#endif
