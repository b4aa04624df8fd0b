/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The histograms of a flow, page by page (see bpf/histogram.h), since the agent last
 * collected them. The first pages that a flow needs are stored in the flow itself, with
 * counts so small that a flow takes little memory. Further pages, and what exceeds such
 * a count, are in a map.
 */
#ifndef PILLION_DESTINATION_PAGE_H
#define PILLION_DESTINATION_PAGE_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "../bpf/flow.h"
#include "../bpf/histogram.h"

/*
 * As many as fit with the rest of a flow into 2,048 bytes, the key and the kernel's own
 * part of a hash table's entry included.
 */
#define DELAY_PAGES 3
#define VARIATION_PAGES 24

#define SMALL_COUNT_MAX 0xff
#define SMALL_SUM_MAX 0xffffffffu

struct delay_page {
	__u32 offsets[HISTOGRAM_PAGE]; /* sum of value minus the bucket's lower bound */
	__u8 counts[HISTOGRAM_PAGE];
} __attribute__((aligned(8)));

struct variation_page {
	__u8 counts[HISTOGRAM_PAGE];
} __attribute__((aligned(8)));

struct histograms {
	/* Where the pages are: see page_slot. */
	__u8 delay_slots[HISTOGRAM_PAGES];
	__u8 variation_slots[HISTOGRAM_PAGES];
	__u8 delay_used, variation_used; /* pages here */
	__u16 spilled;			 /* pages in the map */
	__u64 spills[(2 * HISTOGRAM_PAGES + 63) / 64]; /* bit of each page in the map */
	struct delay_page delay_pages[DELAY_PAGES];
	struct variation_page variation_pages[VARIATION_PAGES];
};

struct page_key {
	struct flow_key flow;
	__u32 page; /* of variations from HISTOGRAM_PAGES on */
};

struct page {
	__u64 offsets[HISTOGRAM_PAGE];
	__u32 counts[HISTOGRAM_PAGE];
};

/* Key: flow and page. Value: buckets. Written here, and removed when they are collected. */
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

static __always_inline void clear_words(void *at, __u32 length)
{
#pragma unroll
	for (__u32 i = 0; i < length / 8; i++)
		((volatile __u64 *)at)[i] = 0;
}

/*
 * The position of a page among those in the flow; own or above: it is in the map.
 * slots has the position of each page plus one, and 0 for pages that were never needed.
 */
static __always_inline __u32 page_slot(__u8 *slots, __u8 *used, __u32 own, __u32 page, int *fresh)
{
	__u32 slot;

	*fresh = 0;
	if (page >= HISTOGRAM_PAGES)
		return own;
	slot = slots[page];
	if (!slot) {
		*fresh = *used < own;
		slot = *fresh ? ++*used : own + 1;
		slots[page] = slot;
	}
	return slot - 1;
}

/* Values for a bucket of a page in the map. */
struct spill {
	__u32 page, bucket;
	__u32 count;
	__u64 sum; /* of their offsets */
};

/* Counts values in a page that is in the map. Returns how many find no room. */
static __noinline int page_spill(struct histograms *histograms, const struct flow_key *flow,
				 const struct spill *spill)
{
	struct page_key key = { .flow = *flow, .page = spill->page };
	struct page *page = bpf_map_lookup_elem(&pages, &key), *blank;
	__u32 zero = 0, word = spill->page / 64;
	__u64 bit = 1ull << (spill->page & 63);

	if (!page) {
		blank = bpf_map_lookup_elem(&blank_pages, &zero);
		if (!blank)
			return spill->count;
		bpf_map_update_elem(&pages, &key, blank, BPF_NOEXIST);
		page = bpf_map_lookup_elem(&pages, &key);
	}
	if (!page || spill->bucket >= HISTOGRAM_PAGE || word >= sizeof(histograms->spills) / 8)
		return spill->count;
	if (!(histograms->spills[word] & bit)) {
		histograms->spills[word] |= bit;
		histograms->spilled++;
	}
	page->offsets[spill->bucket] += spill->sum;
	page->counts[spill->bucket] += spill->count;
	return 0;
}

static __always_inline int count_variation(struct histograms *h, const struct flow_key *key, __s64 change)
{
	struct histogram_place at = histogram_find(change);
	struct spill spill = { .page = HISTOGRAM_PAGES + at.page, .bucket = at.bucket, .count = 1 };
	int fresh;
	__u32 slot = page_slot(h->variation_slots, &h->variation_used, VARIATION_PAGES, at.page, &fresh);
	__u8 *count;

	if (slot >= VARIATION_PAGES)
		return page_spill(h, key, &spill);
	if (fresh)
		clear_words(&h->variation_pages[slot], sizeof(struct variation_page));
	count = &h->variation_pages[slot].counts[at.bucket];
	if (*count < SMALL_COUNT_MAX) {
		++*count;
		return 0;
	}
	spill.count += *count;
	*count = 0;
	return page_spill(h, key, &spill);
}

static __always_inline int count_delay(struct histograms *h, const struct flow_key *key, __s64 delay)
{
	struct histogram_place at = histogram_find(delay);
	struct spill spill = { .page = at.page, .bucket = at.bucket, .count = 1, .sum = at.offset };
	int fresh;
	__u32 slot = page_slot(h->delay_slots, &h->delay_used, DELAY_PAGES, at.page, &fresh);
	struct delay_page *page;

	if (slot >= DELAY_PAGES)
		return page_spill(h, key, &spill);
	page = &h->delay_pages[slot];
	if (fresh)
		clear_words(page, sizeof(*page));
	spill.count += page->counts[at.bucket];
	spill.sum += page->offsets[at.bucket];
	if (spill.count <= SMALL_COUNT_MAX && spill.sum <= SMALL_SUM_MAX) {
		page->counts[at.bucket] = spill.count;
		page->offsets[at.bucket] = spill.sum;
		return 0;
	}
	page->counts[at.bucket] = 0;
	page->offsets[at.bucket] = 0;
	return page_spill(h, key, &spill);
}

/* The agent has them: counts begin from zero. */
static __always_inline void histograms_reset(struct histograms *h)
{
	clear_words(h, __builtin_offsetof(struct histograms, delay_pages));
}

#endif
