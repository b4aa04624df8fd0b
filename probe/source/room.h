/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Room for a mark: how many bytes, whether every packet still fits the path,
 * and how many packets a segmentation buffer becomes.
 */
#ifndef PILLION_SOURCE_ROOM_H
#define PILLION_SOURCE_ROOM_H

#include "../bpf/summed.h"
#include "encoding.h"
#include "verdict.h"

struct room {
	__u32 most;	/* bytes per packet with all modules: a packet must have room for these */
	__u32 carried;	/* modules of this mark */
	__u32 add;	/* bytes per packet with these */
	__u32 payload;	/* of a segmentation buffer, otherwise zero */
	__u32 packets;	/* on the wire, once marked */
	__u64 flags;	/* for bpf_skb_adjust_room */
	struct mark_key key; /* of the flow, for a tag */
};

/*
 * Whether a UDP segmentation buffer inside a UDP tunnel may leave the device as one
 * and arrive so. The agent follows the device. Removing the tunnel does not remove the
 * kernel's note of it: when the socket there segments the buffer, the kernel looks for
 * the tunnel and drops it.
 */
volatile __u32 tunnels_whole = 1;

/*
 * The kernel keeps the place of a checksum right, while it makes room, only if the
 * checksum is still to be computed. Otherwise it drops the buffer when it segments it:
 * UDP of a device without checksum offload (since Linux 6.11), and what GRO forwards
 * as a list of packets. How long the packets of a tunnel's buffer will be depends on
 * headers that are not read here.
 */
static __always_inline int room_segmentable(struct __sk_buff *skb, const struct subject *s)
{
	__u32 check = s->key.protocol == IPPROTO_TCP ? TCP_CHECK_OFFSET : __builtin_offsetof(struct udphdr, check);

	if (s->key.family == 4 && s->key.protocol != IPPROTO_TCP && tunnels_whole)
		return 0;
	return !is_encapsulated(skb) && summed_partial(skb, s->l4 + check) > 0;
}

/*
 * A TCP buffer keeps its segment size if the marked segments fit (the MSS was
 * clamped); otherwise the kernel lowers it by what was added and the buffer
 * becomes more packets. UDP segments are datagrams: their size is not ours.
 */
static __always_inline int room_segmented(struct __sk_buff *skb, const struct subject *s, struct room *room,
					  __u32 limit)
{
	__u32 headers = s->l4 - link_length + s->l4_length;

	if (s->length < headers || s->gso_size <= room->most || !room_segmentable(skb, s))
		return OUTCOME_GSO;
	if (path_fits(skb, headers + s->gso_size + room->most, limit))
		room->flags |= BPF_F_ADJ_ROOM_FIXED_GSO;
	else if (s->key.protocol != IPPROTO_TCP)
		return OUTCOME_MTU;
	room->payload = s->length - headers;
	return 0;
}

/* The kernel made room already where an option of the transport is the mark. */
static __always_inline int room_plan(struct __sk_buff *skb, const struct subject *s, __u32 encoding, __u32 limit,
				     struct room *room)
{
	room->packets = 1;
	room->most = mark_length(encoding, modules);
	room->flags = BPF_F_ADJ_ROOM_NO_CSUM_RESET;
	if (encoding == WIRE_ENCODING_TCP_OPTION) {
		room->packets = s->segments ? s->segments : 1;
		return 0;
	}
	if (s->length + room->most > LENGTH_MAX)
		return OUTCOME_MTU;
	if (s->gso_size)
		return room_segmented(skb, s, room, limit);
	if (!path_fits(skb, s->length + room->most, limit))
		return OUTCOME_MTU;
	return 0;
}

/* What the mark carries is known: so is how long it is, and how many packets have it. */
static __always_inline void room_settle(const struct subject *s, __u32 encoding, __u32 carried, struct room *room)
{
	__u32 size = s->gso_size;

	room->carried = carried;
	room->add = mark_length(encoding, carried);
	if (!room->payload)
		return;
	if (!(room->flags & BPF_F_ADJ_ROOM_FIXED_GSO))
		size -= room->add;
	room->packets = (room->payload + size - 1) / size;
}

#endif
