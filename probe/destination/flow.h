/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* State of a flow at its destination. */
#ifndef PILLION_DESTINATION_FLOW_H
#define PILLION_DESTINATION_FLOW_H

#include "../bpf/flow.h"
#include "../bpf/tag.h"
#include "page.h"
#include "window.h"

/* Where the packets of a flow go, once it is known. */
#define ROUTE_HERE 1
#define ROUTE_FORWARD 2
#define ROUTE_ELSEWHERE 3 /* the same, and its mark is not for this host */
#define ROUTE_SHIFT 8
#define ROUTE_MASK ((1 << ROUTE_SHIFT) - 1)

#define LOCK_TRIES (1 << 20)
#define PLACE_GONE 0xffffffffu /* the flow is being removed */

volatile __u32 peers_state = 1; /* counted up by the agent when peers change */

/* Nanoseconds throughout. What is not said to be since the last collection only grows. */
struct flow {
	__u32 free;  /* 0: a processor has the flow, or its lock is in its slot */
	__u32 place; /* of its slot, plus 1; 0: none; PLACE_GONE; see run.h */
	__u32 peers; /* the state of the peers in which the source was one */
	__u32 pass;  /* the last collection, as the agent numbers them */
	__u64 packets; /* on the wire, marked, but for a run in the slot */
	__u64 bytes;   /* of restored IP packets */
	__u64 first_ns, last_ns; /* UTC */
	__u64 delays;
	__s64 delay_sum;
	__s64 delay_last;
	__u64 sent_last; /* timestamp on the wire, which identifies a burst */
	__u64 variations;
	__s64 variation_sum;
	__s64 delay_min, delay_max; /* since the last collection, if has_delay */
	__s64 variation_min, variation_max; /* the same, if has_variation */
	__u8 touched; /* since the last collection */
	__u8 has_delay, has_variation;
	__u8 route; /* ROUTE_HERE or ROUTE_FORWARD, once known */
	__u8 keyed; /* marks need a tag with this key */
	__u8 segmented; /* there is, or was, a state of the module segments */
	__u8 zero[2];
	__u32 peer; /* position in peers, plus 1; 0: none */
	__u32 nothing;
	struct mark_key key;
	__u64 newest; /* when the latest mark was sent, UTC; without a time: its epoch */
	struct window window;
	struct histograms histograms;
};

/* Key: flow. Value: its state. Written here; collect.h reads it, and removes idle flows. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

/* Key: 0. Value: an empty flow. Never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow);
} blank_flows SEC(".maps");

/* RFC 3393: the change of delay from the packet before it in the flow. */
static __always_inline int flow_variation(struct flow *flow, const struct flow_key *key, __s64 change)
{
	if (!flow->has_variation || change < flow->variation_min)
		flow->variation_min = change;
	if (!flow->has_variation || change > flow->variation_max)
		flow->variation_max = change;
	flow->has_variation = 1;
	flow->variations++;
	flow->variation_sum += change;
	return count_variation(&flow->histograms, key, change);
}

/*
 * One-way delay (RFC 7679), negative where the source's clock is ahead of ours.
 * Returns how many values are in no histogram, for lack of room.
 */
static __always_inline int flow_delay(struct flow *flow, const struct flow_key *key, __s64 delay)
{
	int missed = 0;

	if (flow->delays)
		missed = flow_variation(flow, key, delay - flow->delay_last);
	if (!flow->has_delay || delay < flow->delay_min)
		flow->delay_min = delay;
	if (!flow->has_delay || delay > flow->delay_max)
		flow->delay_max = delay;
	flow->has_delay = 1;
	flow->delays++;
	flow->delay_sum += delay;
	flow->delay_last = delay;
	return missed + count_delay(&flow->histograms, key, delay);
}

#endif
