/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The ioam-e2e encoding: an edge-to-edge option of IOAM in a Destination Options header. */
#ifndef PILLION_SOURCE_IOAM_E2E_H
#define PILLION_SOURCE_IOAM_E2E_H

#include "ioam.h"

/* fields: as in EDGE_WRITE */
static __always_inline void ioam_e2e_write(struct work *w, struct numbering *numbers, __u32 fields)
{
	__be32 *at = (__be32 *)w->mark;
	struct edge edge = {};

	edge_take(&edge, w, numbers, fields, WIRE_TAG_IOAM_E2E);
	*at++ = IOAM_WORD(0, 0, WIRE_OPTION_PADN, 0);
	at = edge_write(at, &edge, fields);
	if (tagged_marks) {
		edge_write_tag(at, &edge, 0);
		w->padding = 1;
	} else if (fields == WIRE_E2E_TIME) {
		*at = IOAM_WORD(WIRE_OPTION_PADN, 2, 0, 0);
		w->padding = 4;
	}
}

static __always_inline int ioam_e2e_insert(struct __sk_buff *skb, struct work *w, struct numbering *numbers)
{
	int outcome = options_room(skb, w, NEXT_OPTIONS);

	if (outcome)
		return outcome;
	EDGE_WRITE(ioam_e2e_write, w, numbers);
	return options_store(skb, w, NEXT_OPTIONS);
}

#define IOAM_E2E_INSERT ioam_e2e_insert

#endif
