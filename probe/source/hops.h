/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Packets in which routers write, besides those whose encoding asks for it: at most one of a
 * policy in a time. They take their number from their flow as all others do, so that losses are
 * counted as before.
 */
#ifndef PILLION_SOURCE_HOPS_H
#define PILLION_SOURCE_HOPS_H

#include "encoding.h"
#include "policy.h"
#include "subject.h"
#include "validation.h"
#include "verdict.h"

const volatile __u64 hop_gap_ns; /* 0: routers write into no packet */

/* By policy: when its next packet is due; CLOCK_MONOTONIC ns. */
__u64 hop_next_ns[POLICIES_MAX];

#define HOPS_TRACED (hop_gap_ns && ENCODING_USED(IOAM_TRACE))
#define HOP_NEXT_OF_POLICY (&hop_next_ns[policy_index & (POLICIES_MAX - 1)])

/*
 * Takes the turn of a packet whose flow is to be marked. One that is too long leaves it to the
 * next. Where it is not known yet whether such packets arrive, the turn serves to find out.
 * A global function: the verifier proves it once.
 */
__noinline int hops_turn(const struct flow_key *key, __u32 length, __u64 judgement)
{
	__u64 now, next, *due = HOP_NEXT_OF_POLICY;

	if (!key || key->family != 6 || length + mark_length(WIRE_ENCODING_IOAM_TRACE, modules) > JUDGEMENT_LIMIT(judgement))
		return 0;
	now = bpf_ktime_get_ns();
	next = *(volatile __u64 *)due;
	if (now < next || __sync_val_compare_and_swap(due, next, now + hop_gap_ns) != next)
		return 0;
	return validation(key, WIRE_ENCODING_IOAM_TRACE) == VALIDATION_PASSED;
}

/* The same for a packet of the general path, which the fast one may have chosen already. */
static __always_inline int hops_chosen(struct subject *s, __u64 judgement)
{
	if (s->gso_size || s->forwarded || is_extended(s))
		s->traced = 0;
	else if (!s->traced)
		s->traced = hops_turn(&s->key, s->length, judgement);
	return s->traced;
}

/* The packet is not sampled: the next one is instead. */
static __always_inline void hops_pass(const struct subject *s)
{
	if (HOPS_TRACED && s->traced)
		*(volatile __u64 *)HOP_NEXT_OF_POLICY = 0;
}

#endif
