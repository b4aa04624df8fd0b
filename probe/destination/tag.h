/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Authenticated marks: which of the keys that this host shares with a peer a mark was
 * written with, and whether it was written just now.
 */
#ifndef PILLION_DESTINATION_TAG_H
#define PILLION_DESTINATION_TAG_H

#include "../bpf/clock.h"
#include "../bpf/tag.h"
#include "mark.h"

/* A copy of a mark that comes later than this, compared with the flow, was sent again by somebody. */
#define REPLAY_NS 2000000000ll

static __always_inline __s64 delay_of(const struct mark *m, __u64 now_ns)
{
	if (!(m->modules & WIRE_DELAY))
		return 0;
	return m->ticks ? clock_since_ticks(now_ns, m->ticks) : clock_since(now_ns, m->sent);
}

/* The time that the tag covers. Without one in the mark: when it would be sent now. */
static __always_inline __u64 tag_time(const struct mark *m, __u64 now_ns)
{
	if (m->ticks)
		return (now_ns >> WIRE_TIME_SHIFT) - (__s64)(__s32)((__u32)(now_ns >> WIRE_TIME_SHIFT) - m->ticks);
	if (m->modules & WIRE_DELAY)
		return (__u64)bpf_ntohl(m->sent.seconds) << 32 | bpf_ntohl(m->sent.fraction);
	return tag_epoch(now_ns);
}

static __always_inline __u32 tag_kind(const struct mark *m)
{
	return m->kind ? m->kind : m->modules | (m->ticks ? WIRE_TAG_TICKS : 0);
}

/* The number that the tag covers, as it travels. */
static __always_inline __u32 tag_number(const struct mark *m)
{
	return has_short_number(m) ? m->sequence & 0xffff : m->sequence;
}

/* Was the mark sent just now, as far as it says when? */
static __always_inline int tag_is_fresh(const struct mark *m, __u64 now_ns)
{
	__s64 delay = delay_of(m, now_ns);

	return delay <= TAG_FRESH_NS && delay >= -TAG_FRESH_NS;
}

/*
 * Was the mark written with the key of the flow, and not long ago? Sender and receiver may be
 * in different epochs: the one that is nearer in time is tried, too, and the mark then says so. A
 * global function: the verifier proves it once.
 */
__noinline int tag_fits(const struct mark_key *flow, struct mark *m, __u64 now_ns)
{
	__s64 other = now_ns >> (WIRE_TAG_EPOCH - 1) & 1 ? 1 : -1;
	__u64 time;

	if (!flow || !m || !m->tagged || !tag_is_fresh(m, now_ns))
		return 0;
	time = tag_time(m, now_ns);
#pragma clang loop unroll(disable)
	for (int i = 0; i < 2; i++) {
		if (tag_compute(flow, time, tag_number(m), tag_kind(m)) == m->tag) {
			m->epoch = i ? other : 0;
			return 1;
		}
		if (m->modules & WIRE_DELAY)
			return 0;
		time += other;
	}
	return 0;
}

#endif
