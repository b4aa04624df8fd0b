/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The native encoding: a Destination Options header in IPv6. */
#ifndef PILLION_SOURCE_NATIVE_H
#define PILLION_SOURCE_NATIVE_H

#include "../bpf/clock.h"
#include "encoding.h"
#include "number.h"
#include "room.h"

#define NATIVE_LENGTH                                            \
	(modules == WIRE_DELAY  ? WIRE_NATIVE_DELAY :            \
	 modules == WIRE_LOSS ? WIRE_NATIVE_LOSS :               \
				  WIRE_NATIVE_BOTH)

#define OPTION_DELAY(stamp)                                                        \
	{ .type = WIRE_OPTION_DELAY, .length = WIRE_OPTION_DELAY_LENGTH,           \
	  .data.sent = stamp }
#define OPTION_LOSS(number)                                                        \
	{ .type = WIRE_OPTION_LOSS, .length = WIRE_OPTION_LOSS_LENGTH, .sequence = number }

/* at: NATIVE_LENGTH bytes inside the packet. */
static __always_inline void native_write(void *at, __u8 next, __be32 number)
{
	struct wire_options head = { .next_header = next, .length = NATIVE_LENGTH / 8 - 1 };

	if (modules == WIRE_DELAY) {
		struct wire_native_delay mark __attribute__((aligned(8))) = {
			.head = head,
			.delay = OPTION_DELAY(clock_to_wire(clock_utc_ns())),
			.pad = { WIRE_OPTION_PADN, 2 },
		};
		copy_words(at, &mark, sizeof(mark));
	} else if (modules == WIRE_LOSS) {
		struct wire_native_loss mark __attribute__((aligned(8))) = { .head = head, .loss = OPTION_LOSS(number) };
		copy_words(at, &mark, sizeof(mark));
	} else {
		struct wire_native_both mark __attribute__((aligned(8))) = {
			.head = head,
			.delay = OPTION_DELAY(clock_to_wire(clock_utc_ns())),
			.loss = OPTION_LOSS(number),
			.pad = { WIRE_OPTION_PADN, 4 },
		};
		copy_words(at, &mark, sizeof(mark));
	}
}

/* Room appears behind the fixed header: bring a Hop-by-Hop header before it. */
static __always_inline int native_step_over(struct __sk_buff *skb, const struct subject *s)
{
	__u32 at = link_length + sizeof(struct ipv6hdr);
	__u32 length = s->hop_by_hop;
	__u8 header[HOP_BY_HOP_MAX] = {};

	if (length == 0 || length > HOP_BY_HOP_MAX)
		return -1;
	if (bpf_skb_load_bytes(skb, at + NATIVE_LENGTH, header, length))
		return -1;
	header[0] = NEXT_OPTIONS;
	return bpf_skb_store_bytes(skb, at, header, length, 0);
}

/* The packet goes on as it came. */
static __always_inline int native_undo(struct __sk_buff *skb, const struct room *room)
{
	bpf_skb_adjust_room(skb, -NATIVE_LENGTH, BPF_ADJ_ROOM_NET, room->flags);
	return OUTCOME_NO_ROOM;
}

static __always_inline int native_insert(struct __sk_buff *skb, const struct subject *s,
					 struct numbering *numbers, struct room *room)
{
	__u32 at = link_length + sizeof(struct ipv6hdr) + (s->hop_by_hop & 0x7f);
	struct ipv6hdr *ip;
	void *mark;
	__be32 number = 0;

	if (bpf_skb_adjust_room(skb, NATIVE_LENGTH, BPF_ADJ_ROOM_NET, room->flags))
		return s->gso_size ? OUTCOME_GSO : OUTCOME_NO_ROOM;
	if (s->hop_by_hop && native_step_over(skb, s))
		return native_undo(skb, room);
	ip = packet_start(skb) + link_length;
	mark = packet_start(skb) + at;
	if ((void *)(ip + 1) > packet_end(skb) ||
	    mark + NATIVE_LENGTH > packet_end(skb))
		return native_undo(skb, room);
	if (!s->hop_by_hop)
		ip->nexthdr = NEXT_OPTIONS;
	ip->payload_len = bpf_htons(bpf_ntohs(ip->payload_len) + NATIVE_LENGTH);
	if (numbers)
		number = number_take(numbers, room->packets);
	native_write(mark, s->next, number);
	return OUTCOME_MARKED;
}

#endif
