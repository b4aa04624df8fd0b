/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Sparse marks: of a fast flow only the packets with a time carry a mark (stamp.h). The
 * others are cheap, but take a sequence number: a destination that counts them knows how
 * many were lost between two marks. Each packet that the destination will count has to
 * have a number here, whatever keeps it from carrying a mark.
 */
#ifndef PILLION_SOURCE_SPARSE_H
#define PILLION_SOURCE_SPARSE_H

#include "encoding.h"
#include "number.h"
#include "stamp.h"

/* Can a destination tell without a mark that the packet is of its flow? */
static __always_inline int is_countable(const struct subject *s)
{
	return !s->fragment && !is_extended(s) &&
	       (s->key.protocol == IPPROTO_TCP || s->key.protocol == IPPROTO_UDP);
}

/* On the wire, if it is not marked. */
static __always_inline __u32 sparse_packets(const struct subject *s)
{
	__u32 headers = s->l4 - link_length + s->l4_length;

	if (s->segments || !s->gso_size || s->length < headers)
		return s->segments ? s->segments : 1;
	return (s->length - headers + s->gso_size - 1) / s->gso_size;
}

/* Numbers packets that carry no mark, once the flow has had one. Returns their outcome. */
static __always_inline int sparse_take(struct numbering *numbers, __u32 packets, int outcome)
{
	if (!(numbers->stamping.state & STAMP_BEGUN))
		return outcome;
	number_take(numbers, packets);
	return OUTCOME_COUNTED;
}

/* The same where a packet cannot carry the mark that it should. numbers: may be 0 */
static __always_inline int sparse_refused(struct numbering *numbers, __u32 packets, int outcome)
{
	if (!sparse_marks || !numbers)
		return outcome;
	stamp_again(&numbers->stamping);
	return sparse_take(numbers, packets, outcome);
}

/* Is the next packet of a flow to be counted only? */
static __always_inline int sparse_spares(struct numbering *numbers)
{
	return !stamp_due(&numbers->stamping) && (numbers->stamping.state & STAMP_BEGUN);
}

/* Outcomes of packets that do not belong to a measured flow, at its destination either. */
static __always_inline int is_outside(int outcome)
{
	return outcome == OUTCOME_NO_MATCH || outcome == OUTCOME_NO_LEASE || outcome == OUTCOME_PROBE ||
	       outcome == OUTCOME_MALFORMED || outcome == OUTCOME_NO_KEY;
}

/*
 * Decides about a packet before it is marked (outcome: why it cannot be, or 0), or after
 * that failed. Returns its outcome, or 0 if it is to be marked. A global function: the
 * verifier proves it once.
 */
__noinline int sparse_decide(const struct flow_key *flow, const struct subject *s, struct tally *tally, int outcome)
{
	struct numbering *numbers;

	if (!flow || !s || !tally)
		return OUTCOME_MALFORMED;
	if (is_outside(outcome) || !is_countable(s))
		return outcome;
	numbers = number_flow(flow, tally);
	if (!numbers)
		return outcome ? outcome : OUTCOME_FLOWS;
	if (outcome)
		return sparse_refused(numbers, sparse_packets(s), outcome);
	if (s->room) /* decided when the segment was built: see connection.h */
		return 0;
	return sparse_spares(numbers) ? sparse_take(numbers, sparse_packets(s), 0) : 0;
}

#endif
