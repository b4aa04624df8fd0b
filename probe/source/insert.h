/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Inserts a mark in the encoding that was chosen. The header of each encoding defines
 * <NAME>_INSERT(skb, work, numbers), which returns an outcome.
 */
#ifndef PILLION_SOURCE_INSERT_H
#define PILLION_SOURCE_INSERT_H

#include "altmark.h"
#include "ioam_e2e.h"
#include "ioam_trace.h"
#include "native.h"
#include "pdm.h"
#include "shim.h"
#include "tcp_option.h"
#include "udp_option.h"

#define INSERT_CASE(name, go, number, ...)             \
	if (ENCODING_USED(name) && encoding == number) \
		return name##_INSERT(skb, w, numbers);

/* What a mark carries. A trace without the time of the source would lack the delay of the first hop. */
static __always_inline __u32 carried_by(__u32 encoding, struct numbering *numbers)
{
	__u32 carried = stamp_modules(numbers);

	if (ENCODING_USED(IOAM_TRACE) && encoding == WIRE_ENCODING_IOAM_TRACE)
		carried |= modules & WIRE_DELAY;
	return carried;
}

/* A global function, as choose: what precedes it is verified apart from it. */
__noinline int encode(struct __sk_buff *skb, struct work *w, __u32 encoding, struct numbering *numbers)
{
	if (!w || !numbers)
		return OUTCOME_MALFORMED;
	room_settle(&w->subject, encoding, carried_by(encoding, numbers), &w->room);
	if (modules_write(skb, w, encoding))
		return OUTCOME_NO_ROOM;
	WIRE_ENCODINGS(INSERT_CASE)
	return OUTCOME_ENCODING;
}

#endif
