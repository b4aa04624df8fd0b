/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Hands the flows to the agent: whole, under the lock that packets take, so that counts
 * and histograms belong together. The agent runs these programs with BPF_PROG_TEST_RUN.
 */
#ifndef PILLION_DESTINATION_COLLECT_H
#define PILLION_DESTINATION_COLLECT_H

#include "../bpf/clock.h"
#include "module.h"
#include "run.h"

#define COLLECT_FLOWS 128 /* in one run */
#define COLLECT_PAGES 512 /* of them, outside of the flows */

struct collected_page {
	__u32 flow; /* position in collected_flows */
	__u32 page;
	struct page buckets;
};

/* Key: position. Value: the flows of a run. Written by collect_flow. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COLLECT_FLOWS);
	__type(key, __u32);
	__type(value, struct flow);
} collected_flows SEC(".maps");

/* Key: position. Value: the keys of collected_flows. Written by collect_flow. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COLLECT_FLOWS);
	__type(key, __u32);
	__type(value, struct flow_key);
} collected_keys SEC(".maps");

/* Key: position. Value: the pages outside of the flows. Written by collect_flow. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COLLECT_PAGES);
	__type(key, __u32);
	__type(value, struct collected_page);
} collected_pages SEC(".maps");

/* Key: position. Value: the flows that destination_remove removes. Written by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COLLECT_FLOWS);
	__type(key, __u32);
	__type(value, struct flow_key);
} leaving_keys SEC(".maps");

volatile __u32 collect_pass;	/* number of the collection; written by the agent */
volatile __u32 leaving;		/* entries of leaving_keys; written by the agent */
volatile __u32 removed;		/* of them */
volatile __u32 collected;	/* entries of collected_flows */
volatile __u32 collected_spills; /* entries of collected_pages */
volatile __u32 collect_more;	/* flows are left, for lack of room */

struct page_walk {
	struct flow_key key;
	struct flow *flow;
	__u32 position;
};

/* Moves a page from the map to those that were collected. */
static long collect_page(__u32 number, struct page_walk *walk)
{
	struct page_key key = { .flow = walk->key, .page = number };
	__u32 at = collected_spills, word = number / 64;
	struct histograms *h = &walk->flow->histograms;
	struct collected_page *to;
	struct page *from;

	if (word >= sizeof(h->spills) / 8 || !(h->spills[word] >> (number & 63) & 1))
		return 0;
	from = bpf_map_lookup_elem(&pages, &key);
	to = bpf_map_lookup_elem(&collected_pages, &at);
	if (!from || !to)
		return 0;
	to->flow = walk->position;
	to->page = number;
	to->buckets = *from;
	collected_spills = at + 1;
	bpf_map_delete_elem(&pages, &key);
	return 0;
}

/* Returns 0 if there was room for the flow. */
static __always_inline int collect_locked(const struct flow_key *key, const struct held *held)
{
	struct flow *flow = held->flow;
	struct page_walk walk = { .key = *key, .flow = flow, .position = collected };

	if (walk.position >= COLLECT_FLOWS || collected_spills + flow->histograms.spilled > COLLECT_PAGES ||
	    modules_are_full())
		return -1;
	flow->pass = collect_pass;
	if (run_packets(held->run)) /* they came since the last collection, without a time */
		flow->last_ns = clock_coarse_utc_ns();
	bpf_map_update_elem(&collected_keys, &walk.position, key, BPF_ANY);
	bpf_map_update_elem(&collected_flows, &walk.position, flow, BPF_ANY);
	collected = walk.position + 1;
	if (flow->histograms.spilled)
		bpf_loop(2 * HISTOGRAM_PAGES, collect_page, &walk, 0);
	modules_collect(key, walk.position, flow->segmented);
	flow->touched = flow->has_delay = flow->has_variation = 0;
	histograms_reset(&flow->histograms);
	return 0;
}

static __always_inline int has_news(const struct flow *flow)
{
	struct slot *slot = slot_at(flow->place - 1);

	return flow->touched || (slot && run_packets(slot->run));
}

/* A flow that stays busy is collected next time. */
static long collect_flow(void *map, struct flow_key *key, struct flow *flow, void *none)
{
	struct held held;
	int full;

	if (flow->pass == collect_pass || !has_news(flow) || !flow_lock(&held, flow, key, 1))
		return 0;
	full = collect_locked(key, &held);
	flow_unlock(&held);
	if (full)
		collect_more = 1;
	return !!full;
}

/*
 * Removes a flow; what it counted since the last collection is collected first. Where
 * there is no room, or the flow stays busy, the agent runs the program again for the rest.
 */
static long remove_flow(__u32 index, void *none)
{
	struct flow_key *key = bpf_map_lookup_elem(&leaving_keys, &index);
	struct flow *flow;
	struct held held;

	if (!key)
		return 1;
	flow = bpf_map_lookup_elem(&flows, key);
	if (flow) {
		if (!flow_lock(&held, flow, key, 1))
			return 1;
		if (flow->touched && collect_locked(key, &held)) {
			flow_unlock(&held);
			return 1;
		}
		modules_remove(key, flow->segmented);
		flow_remove(&held, key);
	}
	removed = index + 1;
	return 0;
}

SEC("tc")
int destination_collect(struct __sk_buff *skb)
{
	collected = collected_spills = collected_modules = collect_more = 0;
	collecting = bpf_get_smp_processor_id() + 1;
	bpf_for_each_map_elem(&flows, collect_flow, 0, 0);
	collecting = 0;
	return 0;
}

SEC("tc")
int destination_remove(struct __sk_buff *skb)
{
	collected = collected_spills = collected_modules = removed = 0;
	collecting = bpf_get_smp_processor_id() + 1;
	bpf_loop(leaving, remove_flow, 0, 0);
	collecting = 0;
	return 0;
}

#endif
