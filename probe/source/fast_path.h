/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The fast path: datagrams that get a UDP option, and TCP segments with room for a mark.
 * What was decided for their flow is remembered in its slot. The general path begins
 * where this one leaves a packet to it, and decides the same.
 */
#ifndef PILLION_SOURCE_FAST_PATH_H
#define PILLION_SOURCE_FAST_PATH_H

#include "headers.h"
#include "hops.h"
#include "lease.h"
#include "sample.h"
#include "tcp_option.h"
#include "udp_option.h"

/* What keeps a packet of a flow without a mark, whatever it is otherwise. Returns 0 if nothing. */
static __always_inline int fast_refuse(int verdict, __u32 probed)
{
	if (UNLIKELY(verdict == OUTCOME_NO_MATCH || verdict == OUTCOME_NO_KEY))
		return verdict;
	if (UNLIKELY(probed == PROBE_UNMARKED))
		return OUTCOME_PROBE;
	return UNLIKELY(bpf_jiffies64() >= lease_until) ? OUTCOME_NO_LEASE : 0;
}

/* A datagram that cannot carry a mark takes a number if the others of its flow are sparse. */
static __always_inline int datagram_refused(struct numbering *numbers, const struct flow_key *flow,
					    struct tally *tally, int outcome)
{
	if (sparse_marks && !numbers)
		numbers = number_other(flow, tally);
	return sparse_refused(numbers, 1, outcome);
}

/* Returns an outcome, or one of OPTION_PASS and those behind it. */
static __always_inline int datagram_mark(struct __sk_buff *skb, struct datagram *d, __u32 probed,
					 struct tally *tally)
{
	struct flow_key aggregate __attribute__((aligned(8)));
	const struct flow_key *flow = &d->headers.key;
	struct mark_key key = {};
	struct numbering *numbers;
	__u64 judgement;
	__u32 area;
	int verdict, outcome;

	if (flow_fields != FLOW_ALL) {
		aggregate = d->headers.key;
		policy_aggregate(&aggregate);
		flow = &aggregate;
	}
	numbers = number_known(flow);
	judgement = flow_judgement(&d->headers.key, numbers);
	verdict = JUDGEMENT_VERDICT(judgement);
	if (UNLIKELY(verdict >= OUTCOMES))
		return verdict;
	outcome = fast_refuse(verdict, probed);
	if (UNLIKELY(outcome))
		return outcome;
	if (UNLIKELY(verdict))
		return datagram_refused(numbers, flow, tally, verdict);
	if (HOPS_TRACED && UNLIKELY(hops_turn(&d->headers.key, d->headers.length, judgement)))
		return OPTION_TRACED;
	area = UDP_OPTION_LENGTH + (d->udp_length & 1);
	if (UNLIKELY(!path_fits(skb, d->headers.length + area, JUDGEMENT_LIMIT(judgement))))
		return datagram_refused(numbers, flow, tally, OUTCOME_MTU);
	if (UNLIKELY(!numbers))
		numbers = number_other(flow, tally);
	if (UNLIKELY(!numbers))
		return OUTCOME_FLOWS;
	if (sparse_marks && LIKELY(sparse_spares(numbers)))
		return sparse_take(numbers, 1, OUTCOME_COUNTED);
	if (UNLIKELY(tag_key(numbers, &d->headers.key, VERDICTS_KEPT, &key)))
		return OUTCOME_NO_KEY;
	if (UNLIKELY(SAMPLING) && datagram_partial(skb, d) < 0) /* the general path chooses */
		return OPTION_UNFIT;
	if (UNLIKELY(!sample(skb, numbers, &d->headers.key, link_length + d->headers.size, skb->len)))
		return OUTCOME_NOT_SAMPLED;
	outcome = option_insert(skb, d, area, numbers, &key);
	if (LIKELY(outcome == OUTCOME_MARKED))
		tally->bytes_added += area;
	else if (sparse_marks)
		stamp_again(&numbers->stamping);
	return outcome;
}

/* option: room for a mark in a segment of this host. Returns an outcome, OPTION_PASS or OPTION_TRACED. */
static __always_inline int segment_mark(struct __sk_buff *skb, struct headers *h, struct wire_experiment *option,
					__u32 probed, __u32 packets, struct tally *tally)
{
	struct numbering *numbers = number_known(&h->key);
	struct mark_key key = {};
	__u64 judgement;
	int verdict, outcome;

	if (UNLIKELY(!numbers))
		return OPTION_PASS;
	judgement = flow_judgement(&h->key, numbers);
	verdict = JUDGEMENT_VERDICT(judgement);
	if (UNLIKELY(verdict && verdict != OUTCOME_NO_MATCH))
		return OPTION_PASS;
	outcome = fast_refuse(verdict, probed);
	if (UNLIKELY(outcome))
		return outcome;
	if (HOPS_TRACED && !skb->gso_size && UNLIKELY(hops_turn(&h->key, h->length, judgement)))
		return OPTION_TRACED;
	if (UNLIKELY(tag_key(numbers, &h->key, VERDICTS_KEPT, &key)))
		return OUTCOME_NO_KEY;
	if (UNLIKELY(!sample(skb, numbers, &h->key, link_length + h->size, skb->len)))
		return OUTCOME_NOT_SAMPLED;
	if (!(modules & WIRE_LOSS))
		numbers = &unnumbered;
	tcp_option_fill(skb, option, link_length + h->size, numbers, packets, stamp_modules(numbers), &key);
	tally->bytes_added += (__u64)packets * TCP_OPTION_LENGTH;
	return OUTCOME_MARKED;
}

/* Returns an outcome, or one of OPTION_PASS and those behind it. */
static __always_inline int fast_mark(struct __sk_buff *skb, __u32 packets, struct tally *tally)
{
	__u32 probed = probed_encoding(skb), gso_size = skb->gso_size;
	struct wire_experiment *option;
	struct datagram d;
	void *l4;

	if (UNLIKELY(probed < WIRE_ENCODINGS_MAX))
		return ENCODING_USED(UDP_OPTION) && probed == WIRE_ENCODING_UDP_OPTION ? option_probe(skb) :
										       OPTION_PASS;
	if (UNLIKELY(skb->ingress_ifindex))
		return OPTION_PASS;
	l4 = headers_read(skb, &d.headers);
	if (UNLIKELY(!l4 || link_length + d.headers.length != skb->len))
		return OPTION_PASS;
	if (ENCODING_USED(UDP_OPTION) && d.headers.protocol == IPPROTO_UDP && !gso_size && datagram_read(&d, l4))
		return datagram_mark(skb, &d, probed, tally);
	if (!ENCODING_USED(TCP_OPTION) || flow_fields != FLOW_ALL || d.headers.protocol != IPPROTO_TCP)
		return OPTION_PASS;
	option = tcp_option_room(skb, &d.headers, l4, gso_size);
	return option ? segment_mark(skb, &d.headers, option, probed, packets, tally) : OPTION_PASS;
}

#endif
