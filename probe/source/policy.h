/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Policies: how the packets of a rule are marked. This object is loaded once for each
 * policy, whose settings are constants in it. All share their tables but for .rodata, stages
 * and connections. If there is one policy, its source_tc is on the device; if there are more,
 * source_dispatch is, which leads each packet to the program of its policy. So packets of the usual
 * case pay nothing, and a policy's own code has no other policy in it.
 */
#ifndef PILLION_SOURCE_POLICY_H
#define PILLION_SOURCE_POLICY_H

#include "../../wire/wire.h"
#include "../bpf/packet.h"

#define POLICIES_MAX 16

const volatile __u32 policy_index; /* of the policy whose constants these are, below POLICIES_MAX */
volatile __u32 policy_first;	   /* of these the one for packets that no rule wants */

/* By encoding: the policy by which path probes get it. */
volatile __u8 probe_policies[WIRE_ENCODINGS_MAX];

#define POLICY_PROGRAMS(name)                     \
	struct {                                  \
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY); \
		__uint(max_entries, POLICIES_MAX); \
		__type(key, __u32);               \
		__type(value, __u32);             \
	} name SEC(".maps")

/* Key: policy. Value: its source_tc. Written by the agent while policies differ. */
POLICY_PROGRAMS(policy_marks);

/* Key: policy. Value: its source_return, or the source_return of the next loaded policy. Written as above. */
POLICY_PROGRAMS(policy_returns);

/* Aggregates of several policies are different flows, and different from all five-tuples. */
static __always_inline void policy_aggregate(struct flow_key *key)
{
	flow_aggregate(key);
	if (flow_fields != FLOW_ALL)
		key->zero = policy_index + 1;
}

#endif
