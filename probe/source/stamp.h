/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which packets carry a time, and that time. Reading the clock is most of the cost of a
 * mark, so of a fast flow one packet in stamp_every has one. Which one is drawn at random:
 * a rule that prefers the first packet after a pause prefers packets that find queues
 * empty. Of a slow flow every packet has one. A flow is slow until it has sent STAMP_FAST
 * packets in a second, or STAMP_NEW in its first, and again after STAMP_HOLD slow seconds
 * that followed the last fast one: otherwise the first packets of bursts that are seconds
 * apart would all be stamped. Seconds without packets do not count.
 */
#ifndef PILLION_SOURCE_STAMP_H
#define PILLION_SOURCE_STAMP_H

#include "../bpf/clock.h"
#include "encoding.h"
#include "number.h"
#include "tag.h"

const volatile __u32 stamp_every = 1; /* of a fast flow one packet in so many has a time; 1: all */
const volatile __u32 stamp_shift = 4; /* STAMP_SECOND << stamp_shift ticks are about a second */

#define STAMP_SECOND 16
#define STAMP_FAST (8 * stamp_every)
#define STAMP_NEW stamp_every
#define STAMP_HOLD 16

#define STAMP_SETTLED 1 /* the first second of the flow is over */
#define STAMP_DONE 2	/* a packet was stamped in this second */

/* Gaps are uniform from 1 to twice the mean: every packet is equally likely to be stamped. */
static __always_inline __u16 stamp_gap(void)
{
	return 1 + bpf_get_prandom_u32() % (2 * stamp_every - 1);
}

/* A flow without a time in the last second has one in the first packet of the next. */
static __always_inline int stamp_next_second(struct stamping *s, __u16 now)
{
	int due = s->left && !(s->state & STAMP_DONE);

	if (s->count >= STAMP_FAST)
		s->hold = STAMP_HOLD;
	else if (s->hold > 1)
		s->hold--;
	else
		s->left = 0;
	s->state = (s->state & STAMP_BEGUN) | (s->count ? STAMP_SETTLED : 0);
	s->second = now;
	s->count = 0;
	return due;
}

static __always_inline void stamp_count(struct stamping *s)
{
	if (s->count >= STAMP_FAST)
		return;
	s->count++;
	if (!s->left && s->count >= (s->state & STAMP_SETTLED ? STAMP_FAST : STAMP_NEW)) {
		s->left = stamp_gap();
		s->state |= STAMP_DONE;
	}
}

/* Whether the next packet of a flow, or buffer of several, carries a time. */
static __always_inline int stamp_due(struct stamping *s)
{
	__u16 now = bpf_jiffies64() >> stamp_shift, left;
	int due = 0;

	if ((__u16)(now - s->second) >= STAMP_SECOND)
		due = stamp_next_second(s, now);
	left = s->left; /* other CPUs count down, too */
	stamp_count(s);
	if (!left)
		return 1;
	if (left > 1) {
		s->left = left - 1;
		return due;
	}
	s->left = stamp_gap();
	s->state |= STAMP_DONE;
	return 1;
}

/* A packet that was to have a time did not get it: the next one gets it. */
static __always_inline void stamp_again(struct stamping *s)
{
	if (s->left)
		s->left = 1;
}

/* The modules that a mark carries. numbers: of its flow; not read if packets are not numbered. */
static __always_inline __u32 stamp_modules(struct numbering *numbers)
{
	if (sparse_marks)
		return modules | WIRE_SPARSE;
	if (modules != (WIRE_DELAY | WIRE_LOSS) || stamp_every <= 1 || stamp_due(&numbers->stamping))
		return modules;
	return WIRE_LOSS;
}

/* Of a mark in an option of the transport. */
#define STAMP_EXID                                                             \
	(sparse_marks	  ? WIRE_EXID_SPARSE :                                 \
	 FLOW_AGGREGATE ? WIRE_EXID_AGGREGATE | FLOW_AGGREGATE :             \
			    WIRE_EXID)

static __always_inline __be16 stamp_exid(void)
{
	return bpf_htons(STAMP_EXID);
}

/* The time of a mark in an option of the transport, whole: the mark has its lower 32 bits, which are not zero. */
static __always_inline __u64 clock_ticks(void)
{
	__u64 ticks = clock_utc_ns() >> WIRE_TIME_SHIFT;

	return (__u32)ticks ? ticks : ticks + 1;
}

/* The tag of such a mark. time, number: as they travel; ticks: the whole time, if there is one */
static __always_inline __be32 stamp_tag(const struct mark_key *key, __u64 ticks, __be32 number)
{
	__u32 kind = sparse_marks ? WIRE_LOSS | WIRE_SPARSE : WIRE_LOSS;

	if (ticks)
		return tag_make(key, ticks, number, kind | WIRE_DELAY | WIRE_TAG_TICKS);
	return tag_make(key, tag_epoch_now(), number, kind);
}

#endif
