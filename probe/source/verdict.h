/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the addresses and ports of a packet say about it: whether a rule wants it,
 * and how large it may become. A flow with a slot remembers both.
 */
#ifndef PILLION_SOURCE_VERDICT_H
#define PILLION_SOURCE_VERDICT_H

#include "number.h"
#include "path.h"
#include "policy.h"
#include "rule.h"
#include "tag.h"
#include "validation.h"

/* Not outcomes: the general path decides. With UNFIT, among the other encodings. */
#define OPTION_PASS OUTCOMES
#define OPTION_UNFIT (OUTCOMES + 1)
#define OPTION_FAILED (OUTCOMES + 2) /* the same, because the option does not arrive */
#define OPTION_TRACED (OUTCOMES + 3) /* routers are to write into the packet */

/* NAT helpers for these protocols compute the UDP length from the length of the packet. */
#define PORT_SIP bpf_htons(5060)
#define PORT_AMANDA bpf_htons(10080)

const volatile __u16 udp_port = WIRE_UDP_PORT;

#define LENGTH_MAX 0xffff /* what an IP length field can say */

/* Families whose plain datagrams get the option first. The verifier removes what serves others. */
const volatile __u32 udp_option_first = WIRE_IPV4 | WIRE_IPV6;

/* Does an encoding that comes before the option in the list apply to datagrams, and arrive? */
static __always_inline int option_preceded(const struct flow_key *key)
{
	__u32 class = (key->family == 6 ? WIRE_INDEX_IPV6 : WIRE_INDEX_IPV4) | WIRE_INDEX_UDP;
	__u32 encoding = encoding_of(class);

	for (int i = 0; i < WIRE_ENCODINGS_MAX && encoding < WIRE_ENCODINGS_MAX; i++) {
		if (encoding == WIRE_ENCODING_UDP_OPTION)
			return 0;
		if (validation(key, encoding) != VALIDATION_FAILED)
			return 1;
		encoding = encoding_after(encoding, class);
	}
	return 1;
}

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
	if (udp_option_first != (WIRE_IPV4 | WIRE_IPV6) && option_preceded(key))
		return OPTION_PASS;
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
 * A judgement is one word, so that several CPUs can write it. From the top: the encodings
 * whose validation has passed (16 bits, by number), the policy by which it was made (4),
 * verdict (6), limit (16), and the state of the rules, paths and validations from which they
 * follow (22). A state comes again after four million changes: the judgement of a flow
 * without packets in the meantime then holds until the next change.
 */
#define JUDGEMENT(state, limit, verdict, passed)                                           \
	((__u64)(passed) << 48 | (__u64)policy_index << 44 | (__u64)(verdict) << 38 |      \
	 (__u64)(limit) << 22 | ((state) & JUDGEMENT_STATES))
#define JUDGEMENT_STATES 0x3fffff
#define JUDGEMENT_STATE(judgement) ((__u32)(judgement) & JUDGEMENT_STATES)
#define JUDGEMENT_LIMIT(judgement) ((__u32)((judgement) >> 22) & LENGTH_MAX)
#define JUDGEMENT_VERDICT(judgement) ((int)((judgement) >> 38) & 0x3f)
#define JUDGEMENT_PASSED(judgement) ((__u32)((judgement) >> 48))

_Static_assert(OPTION_FAILED <= 0x3f && LENGTH_MAX <= 0xffff && WIRE_ENCODINGS_MAX <= 16, "judgement");

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
	/*
	 * The rules may have changed since they led the packet to this policy: such a judgement
	 * is about the packet alone, with a state that is over.
	 */
	if (verdict != OUTCOME_NO_MATCH && rule_match(key) != policy_index + 1)
		state--;
	return JUDGEMENT(state, limit < LENGTH_MAX ? limit : LENGTH_MAX, verdict, passed);
}

/* key: of the packet. numbers: of its flow, or 0. Returns a judgement. */
static __always_inline __u64 flow_judgement(const struct flow_key *key, struct numbering *numbers)
{
	__u32 state = rules_state + paths_state + validations_state;
	__u64 judgement;

	if (VERDICTS_KEPT && numbers) {
		judgement = *(volatile __u64 *)&numbers->judgement;
		if (JUDGEMENT_STATE(judgement) == (state & JUDGEMENT_STATES))
			return judgement;
	}
	judgement = flow_judge(key, state, VERDICTS_KEPT && numbers);
	if (VERDICTS_KEPT && numbers)
		*(volatile __u64 *)&numbers->judgement = judgement;
	return judgement;
}

#endif
