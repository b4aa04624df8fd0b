/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The histograms of a flow, page by page (see bpf/histogram.h). The first pages
 * that a flow needs are stored in the flow itself, further ones in a map, so that a
 * flow with similar values takes little memory and no range of values is too wide.
 */
#ifndef PILLION_DESTINATION_PAGE_H
#define PILLION_DESTINATION_PAGE_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "../bpf/flow.h"
#include "../bpf/histogram.h"

/*
 * As many as fit with the rest of a flow into 8,192 bytes, which the kernel allocates in one
 * piece. A page in the map costs a look-up for each value, so a flow whose variations range
 * from nanoseconds to milliseconds, both ways, keeps them all here.
 */
#define DELAY_PAGES 5
#define VARIATION_PAGES 40

struct page {
	__u64 offsets[HISTOGRAM_PAGE]; /* sum of value minus the bucket's lower bound */
	__u32 counts[HISTOGRAM_PAGE];
};

struct page_key {
	struct flow_key flow;
	__u32 page; /* of variations from HISTOGRAM_PAGES on */
};

/* Key: flow and page. Value: buckets. Written here; the agent reads, and removes those of idle flows. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct page_key);
	__type(value, struct page);
} pages SEC(".maps");

/* Key: 0. Value: an empty page. Never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct page);
} blank_pages SEC(".maps");

/*
 * The position of a page among those in the flow; own or above: it is in the map.
 * slots has the position of each page plus one, and 0 for pages that were never needed.
 */
static __always_inline __u32 page_slot(__u8 *slots, __u8 *used, __u32 own, __u32 page)
{
	__u32 slot;

	if (page >= HISTOGRAM_PAGES)
		return own;
	slot = slots[page];
	if (!slot) {
		slot = *used < own ? ++*used : own + 1;
		slots[page] = slot;
	}
	return slot - 1;
}

static __always_inline void page_count(struct page *page, const struct histogram_place *at)
{
	page->offsets[at->bucket] += at->offset;
	page->counts[at->bucket]++;
}

/* Counts a value in a page that is in the map. Returns 1 where there is no room. */
static __noinline int page_spill(const struct flow_key *flow, __u32 first,
				 const struct histogram_place *at)
{
	struct page_key key = { .flow = *flow, .page = first + at->page };
	struct page *page = bpf_map_lookup_elem(&pages, &key), *blank;
	__u32 zero = 0;

	if (!page) {
		blank = bpf_map_lookup_elem(&blank_pages, &zero);
		if (!blank)
			return 1;
		bpf_map_update_elem(&pages, &key, blank, BPF_NOEXIST);
		page = bpf_map_lookup_elem(&pages, &key);
	}
	if (!page || at->bucket >= HISTOGRAM_PAGE)
		return 1;
	page_count(page, at);
	return 0;
}

#endif
