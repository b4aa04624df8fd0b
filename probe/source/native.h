/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The native encoding: a Destination Options header in IPv6. */
#ifndef PILLION_SOURCE_NATIVE_H
#define PILLION_SOURCE_NATIVE_H

#include "../bpf/clock.h"
#include "encoding.h"
#include "number.h"
#include "room.h"

#define OPTION_DELAY(stamp)                                                        \
	{ .type = WIRE_OPTION_DELAY, .length = WIRE_OPTION_DELAY_LENGTH,           \
	  .data.sent = stamp }
#define OPTION_LOSS(number)                                                        \
	{ .type = WIRE_OPTION_LOSS, .length = WIRE_OPTION_LOSS_LENGTH, .sequence = number }

#define OPTION_TAGGED(number, mark_tag)                                            \
	{ .type = WIRE_OPTION_LOSS, .length = WIRE_OPTION_TAGGED_LENGTH,           \
	  .sequence = number, .tag = mark_tag }

#define OPTION_TAGGED_SPARSE(number, mark_tag)                                     \
	{ .type = WIRE_OPTION_LOSS, .length = WIRE_OPTION_TAGGED_SPARSE_LENGTH,    \
	  .sequence = number, .flags = WIRE_SPARSE, .tag = mark_tag }

#define OPTION_SPARSE(number)                                                      \
	{ .type = WIRE_OPTION_LOSS, .length = WIRE_OPTION_SPARSE_LENGTH,           \
	  .sequence = number, .flags = WIRE_SPARSE }

/* The same as native_write for a mark with a tag. */
static __always_inline int native_write_tagged(void *at, void *end, struct wire_options head,
					       struct numbering *numbers, const struct room *room)
{
	struct wire_timestamp now;
	__be32 number;

	if (at + room->add > end)
		return -1;
	number = number_take(numbers, room->packets);
	if (room->carried == WIRE_LOSS) {
		struct wire_native_tagged_loss mark __attribute__((aligned(8))) = {
			.head = head, .pad = { WIRE_OPTION_PADN, 2 },
		};

		if (at + sizeof(mark) > end)
			return -1;
		mark.loss = (struct wire_option_tagged)OPTION_TAGGED(
			number, tag_make(&room->key, tag_epoch_now(), number, WIRE_LOSS));
		copy_words(at, &mark, sizeof(mark));
		return 0;
	}
	now = clock_to_wire(clock_utc_ns());
	if (room->carried & WIRE_SPARSE) {
		struct wire_native_tagged_sparse mark __attribute__((aligned(8))) = { .head = head };

		if (at + sizeof(mark) > end)
			return -1;
		mark.loss = (struct wire_option_tagged_sparse)OPTION_TAGGED_SPARSE(
			number, tag_make(&room->key, tag_timestamp(now), number,
					 WIRE_DELAY | WIRE_LOSS | WIRE_SPARSE));
		mark.delay = (struct wire_option_delay)OPTION_DELAY(now);
		copy_words(at, &mark, sizeof(mark));
	} else {
		struct wire_native_tagged_both mark __attribute__((aligned(8))) = {
			.head = head, .pad = { WIRE_OPTION_PADN, 0 },
		};

		if (at + sizeof(mark) > end)
			return -1;
		mark.loss = (struct wire_option_tagged)OPTION_TAGGED(
			number, tag_make(&room->key, tag_timestamp(now), number, WIRE_DELAY | WIRE_LOSS));
		mark.delay = (struct wire_option_delay)OPTION_DELAY(now);
		copy_words(at, &mark, sizeof(mark));
	}
	return 0;
}

/* Writes the mark, and takes its numbers, unless the packet is too short. */
static __always_inline int native_write(void *at, void *end, __u8 next, struct numbering *numbers,
					const struct room *room)
{
	struct wire_options head = { .next_header = next, .length = room->add / 8 - 1 };

	if (tagged_marks)
		return native_write_tagged(at, end, head, numbers, room);
	if (room->carried == WIRE_DELAY) {
		struct wire_native_delay mark __attribute__((aligned(8))) = {
			.head = head,
			.pad = { WIRE_OPTION_PADN, 2 },
		};

		if (at + sizeof(mark) > end)
			return -1;
		mark.delay = (struct wire_option_delay)OPTION_DELAY(clock_to_wire(clock_utc_ns()));
		copy_words(at, &mark, sizeof(mark));
	} else if (room->carried == WIRE_LOSS) {
		struct wire_native_loss mark __attribute__((aligned(8))) = { .head = head };

		if (at + sizeof(mark) > end)
			return -1;
		mark.loss = (struct wire_option_loss)OPTION_LOSS(number_take(numbers, room->packets));
		copy_words(at, &mark, sizeof(mark));
	} else if (room->carried & WIRE_SPARSE) {
		struct wire_native_sparse mark __attribute__((aligned(8))) = {
			.head = head,
			.pad = { WIRE_OPTION_PADN, 3 },
		};

		if (at + sizeof(mark) > end)
			return -1;
		mark.loss = (struct wire_option_sparse)OPTION_SPARSE(number_take(numbers, room->packets));
		mark.delay = (struct wire_option_delay)OPTION_DELAY(clock_to_wire(clock_utc_ns()));
		copy_words(at, &mark, sizeof(mark));
	} else {
		struct wire_native_both mark __attribute__((aligned(8))) = {
			.head = head,
			.pad = { WIRE_OPTION_PADN, 4 },
		};

		if (at + sizeof(mark) > end)
			return -1;
		mark.loss = (struct wire_option_loss)OPTION_LOSS(number_take(numbers, room->packets));
		mark.delay = (struct wire_option_delay)OPTION_DELAY(clock_to_wire(clock_utc_ns()));
		copy_words(at, &mark, sizeof(mark));
	}
	return 0;
}

/* Room appears behind the fixed header: bring a Hop-by-Hop header before it. */
static __always_inline int native_step_over(struct __sk_buff *skb, const struct subject *s, __u32 add)
{
	__u32 at = link_length + sizeof(struct ipv6hdr);
	__u32 length = s->hop_by_hop;
	__u8 header[HOP_BY_HOP_MAX] = {};

	if (length == 0 || length > HOP_BY_HOP_MAX)
		return -1;
	if (bpf_skb_load_bytes(skb, at + add, header, length))
		return -1;
	header[0] = NEXT_OPTIONS;
	return bpf_skb_store_bytes(skb, at, header, length, 0);
}

/* The packet is sent unchanged. */
static __always_inline int native_undo(struct __sk_buff *skb, const struct room *room)
{
	bpf_skb_adjust_room(skb, -(int)room->add, BPF_ADJ_ROOM_NET, room->flags);
	return OUTCOME_NO_ROOM;
}

static __always_inline int native_insert(struct __sk_buff *skb, const struct subject *s,
					 struct numbering *numbers, const struct room *room)
{
	__u32 at = link_length + sizeof(struct ipv6hdr) + (s->hop_by_hop & 0x7f);
	struct ipv6hdr *ip;

	if (bpf_skb_adjust_room(skb, room->add, BPF_ADJ_ROOM_NET, room->flags))
		return s->gso_size ? OUTCOME_GSO : OUTCOME_NO_ROOM;
	if (s->hop_by_hop && native_step_over(skb, s, room->add))
		return native_undo(skb, room);
	ip = packet_start(skb) + link_length;
	if ((void *)(ip + 1) > packet_end(skb) ||
	    native_write(packet_start(skb) + at, packet_end(skb), s->next, numbers, room))
		return native_undo(skb, room);
	if (!s->hop_by_hop)
		ip->nexthdr = NEXT_OPTIONS;
	ip->payload_len = bpf_htons(bpf_ntohs(ip->payload_len) + room->add);
	return OUTCOME_MARKED;
}

#endif
