/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* A flow: a five-tuple, or an aggregate in which some fields are wildcards. */
#ifndef PILLION_FLOW_H
#define PILLION_FLOW_H

#include <linux/types.h>

/* Fields that make two packets different flows. */
#define FLOW_SRC 1
#define FLOW_DST 2
#define FLOW_PROTOCOL 4
#define FLOW_SPORT 8
#define FLOW_DPORT 16

/*
 * Addresses in network order, IPv4 in the first word and zero behind it.
 * Ports are zero for protocols that have none. A field that is a wildcard
 * is zero.
 */
struct flow_key {
	__be32 src[4];
	__be32 dst[4];
	__be16 sport;
	__be16 dport;
	__u8 protocol;
	__u8 family; /* 4 or 6 */
	__u16 zero;
};

#define FLOW_ALL (FLOW_SRC | FLOW_DST | FLOW_PROTOCOL | FLOW_SPORT | FLOW_DPORT)

/* Set by the loader; the verifier removes the branches that are not taken. */
const volatile __u32 flow_fields = FLOW_ALL;

/* The fields of an aggregate, as marks name them; 0: flows are told apart by all fields. */
#define FLOW_AGGREGATE (flow_fields != FLOW_ALL ? flow_fields : 0)

static __always_inline void flow_aggregate_by(struct flow_key *key, __u32 fields)
{
	if (!(fields & FLOW_SRC))
		key->src[0] = key->src[1] = key->src[2] = key->src[3] = 0;
	if (!(fields & FLOW_DST))
		key->dst[0] = key->dst[1] = key->dst[2] = key->dst[3] = 0;
	if (!(fields & FLOW_PROTOCOL))
		key->protocol = 0;
	if (!(fields & FLOW_SPORT))
		key->sport = 0;
	if (!(fields & FLOW_DPORT))
		key->dport = 0;
}

static __always_inline void flow_aggregate(struct flow_key *key)
{
	flow_aggregate_by(key, flow_fields);
}

#endif
