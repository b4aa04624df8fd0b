/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the addresses and ports of a packet say about it: whether a rule wants it,
 * and how large it may become. A flow with a slot remembers both.
 */
#ifndef PILLION_SOURCE_VERDICT_H
#define PILLION_SOURCE_VERDICT_H

#include "number.h"
#include "path.h"
#include "rule.h"
#include "tag.h"
#include "validation.h"

/* Not outcomes: the general path decides. With UNFIT, among the other encodings. */
#define OPTION_PASS OUTCOMES
#define OPTION_UNFIT (OUTCOMES + 1)
#define OPTION_FAILED (OUTCOMES + 2) /* the same, because the option does not arrive */

/* NAT helpers for these protocols rewrite the UDP length from that of the packet. */
#define PORT_SIP bpf_htons(5060)
#define PORT_AMANDA bpf_htons(10080)

const volatile __u16 udp_port = WIRE_UDP_PORT;

#define LENGTH_MAX 0xffff /* what an IP length field can say */

/* What becomes of the packets of a flow; all but NO_MATCH and NO_KEY is about the udp-option encoding. */
static __noinline int flow_verdict(const struct flow_key *key)
{
	if (!key || !rule_match(key))
		return OUTCOME_NO_MATCH;
	if (tag_key_missing(key))
		return OUTCOME_NO_KEY;
	if (is_multicast(key))
		return OUTCOME_MULTICAST;
	if (key->sport == PORT_SIP || key->dport == PORT_SIP || key->sport == PORT_AMANDA ||
	    key->dport == PORT_AMANDA)
		return OPTION_UNFIT;
	if (key->family == 4 && key->dport == bpf_htons(udp_port)) /* looks like a mark in UDP */
		return OUTCOME_EXISTING_OPTION;
	if (!ENCODING_USED(UDP_OPTION) || key->protocol != IPPROTO_UDP)
		return OUTCOME_MARKED;
	switch (validation(key, WIRE_ENCODING_UDP_OPTION)) {
	case VALIDATION_PASSED:
		return OUTCOME_MARKED;
	case VALIDATION_FAILED:
		return OPTION_FAILED;
	}
	return OUTCOME_UNVALIDATED;
}

/* Verdict and limit hold for a five-tuple; an aggregate has many. */
#define VERDICTS_KEPT (flow_fields == FLOW_ALL)

/*
 * A judgement is one word, so that several CPUs can write it: the encodings whose
 * validation has passed (bit by number), verdict, limit, and the state of the rules,
 * paths and validations from which they follow.
 */
#define JUDGEMENT(state, limit, verdict, passed) \
	((__u64)(passed) << 56 | (__u64)(verdict) << 48 | (__u64)(limit) << 32 | (state))
#define JUDGEMENT_STATE(judgement) ((__u32)(judgement))
#define JUDGEMENT_LIMIT(judgement) ((__u32)((judgement) >> 32) & LENGTH_MAX)
#define JUDGEMENT_VERDICT(judgement) ((int)((judgement) >> 48) & 0xff)
#define JUDGEMENT_PASSED(judgement) ((__u32)((judgement) >> 56))

_Static_assert(OPTION_FAILED <= 0xff && WIRE_ENCODINGS_MAX <= 8, "judgement");

/* kept: the judgement will hold for more packets. */
static __noinline __u64 flow_judge(const struct flow_key *key, __u32 state, int kept)
{
	int verdict = flow_verdict(key);
	__u32 limit = 0, passed = 0;

	if (!key)
		return 0;
	if (verdict != OUTCOME_NO_MATCH)
		limit = path_limit(key);
	/* Datagrams marked in an option have no other encoding, most of them. */
	if (kept && validate_paths && verdict != OUTCOME_NO_MATCH &&
	    (verdict || key->protocol != IPPROTO_UDP || !ENCODING_USED(UDP_OPTION)))
		passed = validations_passed(key);
	return JUDGEMENT(state, limit < LENGTH_MAX ? limit : LENGTH_MAX, verdict, passed);
}

/* key: of the packet. numbers: of its flow, or 0. Returns a judgement. */
static __always_inline __u64 flow_judgement(const struct flow_key *key, struct numbering *numbers)
{
	__u32 state = rules_state + paths_state + validations_state;
	__u64 judgement;

	if (VERDICTS_KEPT && numbers) {
		judgement = *(volatile __u64 *)&numbers->judgement;
		if (JUDGEMENT_STATE(judgement) == state)
			return judgement;
	}
	judgement = flow_judge(key, state, VERDICTS_KEPT && numbers);
	if (VERDICTS_KEPT && numbers)
		*(volatile __u64 *)&numbers->judgement = judgement;
	return judgement;
}

#endif
