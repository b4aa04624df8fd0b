/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Segments of a path: a waypoint writes the time of arrival into a mark and leaves it, and
 * the destination learns the delay up to the waypoint and the one from there on.
 */
#ifndef PILLION_DESTINATION_SEGMENT_H
#define PILLION_DESTINATION_SEGMENT_H

#include "module.h"
#include "tag.h"

/* Has a waypoint written its time? */
static __always_inline int is_amended(const struct mark *m)
{
	return (m->received.seconds | m->received.fraction) != 0;
}

/*
 * Has the mark room for the time of arrival at a waypoint, and is that still empty? The first waypoint on
 * the way writes it. Options of transports and of standards have no room.
 */
static __always_inline int can_amend(const struct mark *m)
{
	return (m->modules & WIRE_DELAY) && !m->ticks && !m->kind && !is_amended(m);
}

/* Words of the module's state. */
#define SEGMENT_FIRST 0
#define SEGMENT_SECOND 4

/* key: of the flow, which is locked; delay: of the whole path */
static __noinline void segment_enter(const struct mark *m, const struct flow_key *key, __u64 now_ns, __s64 delay)
{
	struct module_state *state = module_state_of(key, MODULE_SEGMENTS);
	__s64 second = clock_since(now_ns, m->received);

	if (!state)
		return;
	module_sample(state, SEGMENT_FIRST, delay - second);
	module_sample(state, SEGMENT_SECOND, second);
	state->last_ns = now_ns;
}

#endif
