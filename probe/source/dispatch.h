/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Leads packets to the program of their policy, where policies differ. */
#ifndef PILLION_SOURCE_DISPATCH_H
#define PILLION_SOURCE_DISPATCH_H

#include "headers.h"
#include "policy.h"
#include "verdict.h"
#include "work.h"

/* The policy of a flow, which its judgement remembers. Of what no rule wants, the first. */
static __always_inline __u32 dispatch_flow(const struct flow_key *key)
{
	__u32 state = (rules_state + paths_state + validations_state) & JUDGEMENT_STATES;
	struct numbering *numbers = number_known(key);
	__u64 judgement;
	int match;

	if (LIKELY(numbers)) {
		judgement = *(volatile __u64 *)&numbers->judgement;
		if (LIKELY(JUDGEMENT_STATE(judgement) == state))
			return JUDGEMENT_POLICY(judgement);
	}
	match = rule_match(key);
	return match ? match - 1 : policy_first;
}

/* The same for packets whose headers are not at once behind each other. */
static __noinline __u32 dispatch_other(struct __sk_buff *skb)
{
	struct work *w = work_of_cpu();

	if (!w)
		return policy_first;
	work_clear(w);
	return read_packet(skb, &w->subject) ? policy_first : dispatch_flow(&w->subject.key);
}

static __always_inline __u32 dispatch(struct __sk_buff *skb)
{
	__u32 probed = probed_encoding(skb);
	struct headers h;

	if (UNLIKELY(probed < WIRE_ENCODINGS_MAX))
		return probe_policies[probed];
	if (LIKELY(headers_read(skb, &h)))
		return dispatch_flow(&h.key);
	return dispatch_other(skb);
}

#endif
