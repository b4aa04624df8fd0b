/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The ioam-trace encoding: a Hop-by-Hop header with a trace of IOAM, in which routers write who
 * they are and when they forwarded the packet, and an edge-to-edge option behind it.
 */
#ifndef PILLION_SOURCE_IOAM_TRACE_H
#define PILLION_SOURCE_IOAM_TRACE_H

#include "ioam.h"

#define TRACE_SPACE (WIRE_TRACE_NODES * WIRE_TRACE_ENTRY)

/* fields: as in EDGE_WRITE */
static __always_inline void ioam_trace_write(struct work *w, struct numbering *numbers, __u32 fields)
{
	__be32 *at = (__be32 *)w->mark;
	struct edge edge = {};

	edge_take(&edge, w, numbers, fields, WIRE_TAG_IOAM_TRACE);
	*at++ = IOAM_WORD(0, 0, WIRE_OPTION_PADN, 0);
	*at++ = IOAM_WORD(WIRE_OPTION_IOAM_HOPS, sizeof(struct wire_option_trace) - 2 + TRACE_SPACE, 0, WIRE_IOAM_TRACE);
	*at++ = bpf_htonl(WIRE_IOAM_NAMESPACE << 16 | WIRE_TRACE_ENTRY / 4 << WIRE_TRACE_ENTRY_SHIFT | TRACE_SPACE / 4);
	*at++ = bpf_htonl(WIRE_TRACE_FIELDS);
	__builtin_memset(at, 0, TRACE_SPACE);
	at = edge_write(at + TRACE_SPACE / 4, &edge, fields);
	if (tagged_marks) {
		at = edge_write_tag(at, &edge, WIRE_OPTION_PADN);
		*at = IOAM_WORD(3, 0, 0, 0);
		w->padding = 5;
	} else if (fields & WIRE_E2E_SEQUENCE32) {
		*at = IOAM_WORD(WIRE_OPTION_PADN, 2, 0, 0);
		w->padding = 4;
	}
}

static __always_inline int ioam_trace_insert(struct __sk_buff *skb, struct work *w, struct numbering *numbers)
{
	int outcome = options_room(skb, w, NEXT_HOP_BY_HOP);

	if (outcome)
		return outcome;
	EDGE_WRITE(ioam_trace_write, w, numbers);
	return options_store(skb, w, NEXT_HOP_BY_HOP);
}

#define IOAM_TRACE_INSERT ioam_trace_insert

#endif
