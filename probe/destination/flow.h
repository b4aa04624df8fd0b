/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* State of a flow at its destination. */
#ifndef PILLION_DESTINATION_FLOW_H
#define PILLION_DESTINATION_FLOW_H

#include "../bpf/flow.h"
#include "page.h"
#include "window.h"

/* Where the packets of a flow go, once it is known. */
#define ROUTE_HERE 1
#define ROUTE_FORWARD 2
#define ROUTE_SHIFT 8
#define ROUTE_MASK ((1 << ROUTE_SHIFT) - 1)

#define LOCK_TRIES (1 << 20)

/* Counted up by the agent before it reads, so that an interval has its own extremes. */
volatile __u32 epoch;

struct extremes {
	__u64 epoch; /* that these belong to, plus one; 0: none yet */
	__s64 delay_min, delay_max;
	__s64 variation_min, variation_max;
};

/* Nanoseconds throughout. Everything but the extremes only grows. */
struct flow {
	__u32 busy;
	__u32 peers; /* the state of the peers in which the source was one */
	__u64 packets; /* on the wire, marked */
	__u64 bytes;   /* of restored IP packets */
	__u64 first_ns, last_ns; /* UTC */
	__u64 delays;
	__s64 delay_sum;
	__s64 delay_last;
	__u64 sent_last; /* timestamp on the wire, which identifies a burst */
	__u64 variations;
	__s64 variation_sum;
	struct extremes extremes[2]; /* by the parity of the epoch */
	struct window window;
	/* Where the pages of a histogram are: see page_slot. */
	__u8 delay_slots[HISTOGRAM_PAGES];
	__u8 variation_slots[HISTOGRAM_PAGES];
	__u8 delay_used, variation_used; /* pages here */
	__u8 route; /* ROUTE_HERE or ROUTE_FORWARD, once known */
	__u8 zero;
	struct page delay_pages[DELAY_PAGES];
	__u32 variation_pages[VARIATION_PAGES][HISTOGRAM_PAGE];
};

/* Key: flow. Value: its state. Written here; the agent reads, and removes idle flows. */
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

static __noinline struct flow *flow_start(const struct flow_key *key)
{
	__u32 zero = 0;
	struct flow *blank = bpf_map_lookup_elem(&blank_flows, &zero);

	if (!key || !blank)
		return 0;
	bpf_map_update_elem(&flows, key, blank, BPF_NOEXIST);
	return bpf_map_lookup_elem(&flows, key);
}

static long flow_try(__u32 index, __u32 **busy)
{
	return __sync_lock_test_and_set(*busy, 1) == 0;
}

/*
 * A flow's packets may arrive on several CPUs at once. bpf_spin_lock would
 * forbid the calls that the window needs. Returns 0 without the lock.
 */
static __always_inline int flow_lock(struct flow *flow)
{
	__u32 *busy = &flow->busy;

	if (__sync_lock_test_and_set(busy, 1) == 0)
		return 1;
	return bpf_loop(LOCK_TRIES, flow_try, &busy, 0) < LOCK_TRIES;
}

static __always_inline void flow_unlock(struct flow *flow)
{
	__sync_lock_test_and_set(&flow->busy, 0);
}

static __always_inline struct extremes *flow_extremes(struct flow *flow)
{
	__u64 now = (__u64)epoch + 1;
	struct extremes *x = &flow->extremes[now & 1];

	if (x->epoch != now) {
		x->epoch = now;
		x->delay_min = x->variation_min = 0x7fffffffffffffffll;
		x->delay_max = x->variation_max = -0x7fffffffffffffffll;
	}
	return x;
}

/* RFC 3393: the change of delay from the packet before it in the flow. */
static __always_inline int flow_variation(struct flow *flow, const struct flow_key *key,
					  struct extremes *x, __s64 change)
{
	struct histogram_place at = histogram_find(change);
	__u32 slot = page_slot(flow->variation_slots, &flow->variation_used, VARIATION_PAGES, at.page);

	flow->variations++;
	flow->variation_sum += change;
	if (change < x->variation_min)
		x->variation_min = change;
	if (change > x->variation_max)
		x->variation_max = change;
	if (slot >= VARIATION_PAGES)
		return page_spill(key, HISTOGRAM_PAGES, &at);
	flow->variation_pages[slot][at.bucket]++;
	return 0;
}

/*
 * One-way delay (RFC 7679), negative where the source's clock is ahead of ours.
 * Returns how many values found no page.
 */
static __always_inline int flow_delay(struct flow *flow, const struct flow_key *key, __s64 delay)
{
	struct histogram_place at = histogram_find(delay);
	__u32 slot = page_slot(flow->delay_slots, &flow->delay_used, DELAY_PAGES, at.page);
	struct extremes *x = flow_extremes(flow);
	int missed = 0;

	if (flow->delays)
		missed = flow_variation(flow, key, x, delay - flow->delay_last);
	flow->delays++;
	flow->delay_sum += delay;
	flow->delay_last = delay;
	if (delay < x->delay_min)
		x->delay_min = delay;
	if (delay > x->delay_max)
		x->delay_max = delay;
	if (slot >= DELAY_PAGES)
		return missed + page_spill(key, 0, &at);
	page_count(&flow->delay_pages[slot], &at);
	return missed;
}

#endif
