/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The native encoding: a Destination Options header in IPv6. */
#ifndef PILLION_SOURCE_NATIVE_H
#define PILLION_SOURCE_NATIVE_H

#include "../bpf/clock.h"
#include "encoding.h"
#include "module.h"
#include "number.h"
#include "options.h"

#define OPTION_DELAY(stamp)                                                        \
	{ .type = WIRE_OPTION_DELAY, .length = WIRE_OPTION_DELAY_LENGTH,           \
	  .data.sent = stamp }
#define OPTION_LOSS(number)                                                        \
	{ .type = WIRE_OPTION_LOSS, .length = WIRE_OPTION_LOSS_LENGTH, .sequence = number }

#define OPTION_TAGGED(number, mark_tag)                                            \
	{ .type = WIRE_OPTION_LOSS, .length = WIRE_OPTION_TAGGED_LENGTH,           \
	  .sequence = number, .tag = mark_tag }

/* Of an option with flags. */
#define LOSS_FLAGS (FLOW_AGGREGATE ? WIRE_AGGREGATE | FLOW_AGGREGATE : WIRE_SPARSE)

#define OPTION_TAGGED_SPARSE(number, mark_tag)                                     \
	{ .type = WIRE_OPTION_LOSS, .length = WIRE_OPTION_TAGGED_SPARSE_LENGTH,    \
	  .sequence = number, .flags = LOSS_FLAGS, .tag = mark_tag }

#define OPTION_SPARSE(number)                                                      \
	{ .type = WIRE_OPTION_LOSS, .length = WIRE_OPTION_SPARSE_LENGTH,           \
	  .sequence = number, .flags = LOSS_FLAGS }

/* The same as native_write for a mark with a tag. */
static __always_inline int native_write_tagged(void *at, void *end, struct wire_options head,
					       struct numbering *numbers, const struct room *room)
{
	struct wire_timestamp now;
	__be32 number;

	if (at + room->add > end)
		return -1;
	number = number_take(numbers, room->packets);
	if (room->carried == WIRE_LOSS && FLOW_AGGREGATE) {
		struct wire_native_tagged_aggregate_loss mark __attribute__((aligned(8))) = {
			.head = head, .pad = { WIRE_OPTION_PADN, 1 },
		};

		if (at + sizeof(mark) > end)
			return -1;
		mark.loss = (struct wire_option_tagged_sparse)OPTION_TAGGED_SPARSE(
			number, tag_make(&room->key, tag_epoch_now(), number, WIRE_LOSS));
		copy_words(at, &mark, sizeof(mark));
		return 0;
	}
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
	if ((room->carried & WIRE_SPARSE) || FLOW_AGGREGATE) {
		struct wire_native_tagged_sparse mark __attribute__((aligned(8))) = { .head = head };

		if (at + sizeof(mark) > end)
			return -1;
		mark.loss = (struct wire_option_tagged_sparse)OPTION_TAGGED_SPARSE(
			number, tag_make(&room->key, tag_timestamp(now), number,
					 WIRE_DELAY | WIRE_LOSS | (room->carried & WIRE_SPARSE)));
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
	} else if (room->carried == WIRE_LOSS && FLOW_AGGREGATE) {
		struct wire_native_aggregate_loss mark __attribute__((aligned(8))) = {
			.head = head,
			.pad = { WIRE_OPTION_PADN, 5 },
		};

		if (at + sizeof(mark) > end)
			return -1;
		mark.loss = (struct wire_option_sparse)OPTION_SPARSE(number_take(numbers, room->packets));
		copy_words(at, &mark, sizeof(mark));
	} else if (room->carried == WIRE_LOSS) {
		struct wire_native_loss mark __attribute__((aligned(8))) = { .head = head };

		if (at + sizeof(mark) > end)
			return -1;
		mark.loss = (struct wire_option_loss)OPTION_LOSS(number_take(numbers, room->packets));
		copy_words(at, &mark, sizeof(mark));
	} else if ((room->carried & WIRE_SPARSE) || FLOW_AGGREGATE) {
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

static __always_inline int native_insert(struct __sk_buff *skb, struct work *w, struct numbering *numbers)
{
	int outcome = options_room(skb, w, NEXT_OPTIONS);
	void *at;

	if (outcome)
		return outcome;
	at = packet_start(skb) + options_at(w);
	if (native_write(at, packet_end(skb), w->subject.next, numbers, &w->room))
		return options_undo(skb, w);
	if (modules_store_options(skb, w, options_at(w)))
		return options_undo(skb, w);
	return options_chain(skb, w, NEXT_OPTIONS);
}

#define NATIVE_INSERT native_insert

#endif
