/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Which packets carry a time in an option of the transport, and that time. */
#ifndef PILLION_SOURCE_STAMP_H
#define PILLION_SOURCE_STAMP_H

#include "../bpf/clock.h"
#include "encoding.h"
#include "number.h"

const volatile __u32 stamp_every = 1; /* one packet in N has a time, and the first of a tick */

/* Whether a packet carries a time: the first in each tick, and one in stamp_every. */
static __always_inline int stamp_due(struct numbering *numbers)
{
	if (modules == WIRE_LOSS)
		return 0;
	if (modules == WIRE_DELAY || stamp_every <= 1)
		return 1;
	if (numbers->left > 1 && numbers->used == bpf_jiffies64()) {
		numbers->left--;
		return 0;
	}
	numbers->left = stamp_every;
	return 1;
}

static __always_inline __be32 clock_ticks(void)
{
	__u32 ticks = clock_utc_ns() >> WIRE_TIME_SHIFT;

	return bpf_htonl(ticks ? ticks : 1);
}

#endif
