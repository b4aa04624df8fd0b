/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What marks in options of IOAM have in common. Options of IOAM and their fields lie at
 * multiples of four bytes: they are written word by word.
 */
#ifndef PILLION_SOURCE_IOAM_H
#define PILLION_SOURCE_IOAM_H

#include "../bpf/clock.h"
#include "options.h"
#include "tag.h"

#define IOAM_WORD(first, second, third, fourth) \
	bpf_htonl((__u32)(first) << 24 | (second) << 16 | (third) << 8 | (fourth))

/* The number and the time that a mark carries; tag: of one with a key. */
struct edge {
	__be32 number;
	struct wire_timestamp sent;
	__be32 tag;
};

/* Takes the number. fields: WIRE_E2E_SEQUENCE32 and WIRE_E2E_TIME; kind: of the tag */
static __always_inline void edge_take(struct edge *edge, struct work *w, struct numbering *numbers, __u32 fields,
				      __u32 kind)
{
	__u64 time;

	if (fields & WIRE_E2E_SEQUENCE32)
		edge->number = number_take(numbers, w->room.packets);
	if (fields & WIRE_E2E_TIME)
		edge->sent = clock_to_wire(clock_utc_ns());
	if (!tagged_marks)
		return;
	time = fields & WIRE_E2E_TIME ? tag_timestamp(edge->sent) : tag_epoch_now();
	edge->tag = tag_make(&w->room.key, time, edge->number, kind);
}

/* Writes the option at a word. fields: a constant. Returns the word behind it. */
static __always_inline __be32 *edge_write(__be32 *at, const struct edge *edge, __u32 fields)
{
	__u32 length = WIRE_IOAM_OPTION_HEAD + 2;

	if (fields & WIRE_E2E_SEQUENCE32)
		length += sizeof(edge->number);
	if (fields & WIRE_E2E_TIME)
		length += sizeof(edge->sent);
	*at++ = IOAM_WORD(WIRE_OPTION_IOAM, length, 0, WIRE_IOAM_E2E);
	*at++ = bpf_htonl(WIRE_IOAM_NAMESPACE << 16 | fields);
	if (fields & WIRE_E2E_SEQUENCE32)
		*at++ = edge->number;
	if (fields & WIRE_E2E_TIME) {
		*at++ = edge->sent.seconds;
		*at++ = edge->sent.fraction;
	}
	return at;
}

/* Writes the option of a tag and one more byte. Returns the word behind them. */
static __always_inline __be32 *edge_write_tag(__be32 *at, const struct edge *edge, __u8 last)
{
	__u32 tag = bpf_ntohl(edge->tag);

	*at++ = IOAM_WORD(WIRE_OPTION_MODULE, 1 + WIRE_MODULE_TAG_LENGTH, WIRE_MODULE_TAG, tag >> 24);
	*at++ = bpf_htonl(tag << 8 | last);
	return at;
}

/* Calls write with the fields that the mark has: a constant, so that each set has its own code. */
#define EDGE_WRITE(write, w, numbers)                                                 \
	do {                                                                          \
		if ((w)->room.carried == WIRE_LOSS)                                   \
			write(w, numbers, WIRE_E2E_SEQUENCE32);                       \
		else if (!tagged_marks && (w)->room.carried == WIRE_DELAY)            \
			write(w, numbers, WIRE_E2E_TIME);                             \
		else                                                                  \
			write(w, numbers, WIRE_E2E_SEQUENCE32 | WIRE_E2E_TIME);       \
	} while (0)

#endif
