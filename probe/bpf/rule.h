/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Which packets are meant: five-tuple rules with prefixes and wildcards. */
#ifndef PILLION_RULE_H
#define PILLION_RULE_H

#include "flow.h"

#define RULES_MAX 64

struct rule {
	__be32 src[4], src_mask[4];
	__be32 dst[4], dst_mask[4];
	__be16 sport, dport;
	__u8 protocol;
	__u8 family; /* 0 for any */
	__u8 fields; /* FLOW_PROTOCOL, FLOW_SPORT, FLOW_DPORT: which of the above count */
	__u8 policy; /* of a source: how to mark what fits; of a destination: the fields that tell flows apart */
};

static __always_inline int rule_address(const __be32 *is, const __be32 *want,
					const __be32 *mask)
{
	return !(((is[0] ^ want[0]) & mask[0]) | ((is[1] ^ want[1]) & mask[1]) |
		 ((is[2] ^ want[2]) & mask[2]) | ((is[3] ^ want[3]) & mask[3]));
}

static __always_inline int rule_fits(const struct rule *rule, const struct flow_key *key)
{
	if (rule->family && rule->family != key->family)
		return 0;
	if ((rule->fields & FLOW_PROTOCOL) && rule->protocol != key->protocol)
		return 0;
	if ((rule->fields & FLOW_SPORT) && rule->sport != key->sport)
		return 0;
	if ((rule->fields & FLOW_DPORT) && rule->dport != key->dport)
		return 0;
	return rule_address(key->src, rule->src, rule->src_mask) &&
	       rule_address(key->dst, rule->dst, rule->dst_mask);
}

#endif
