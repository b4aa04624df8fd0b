/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What became of the packets. A packet whose end is not counted here is in the table. */
#ifndef PILLION_ACCOUNT_H
#define PILLION_ACCOUNT_H

#include "kernel.h"

enum lost {
	LOST_FULL,     /* no room in the table */
	LOST_REUSED,   /* its memory was reused, and no hook saw its end */
	LOST_UNSEEN,   /* consumed behind t3, and no driver was seen to get it */
	LOST_REASONS,
};

enum skip {
	SKIP_PROTOCOL, /* no IP */
	SKIP_LOOPBACK, /* from the router to itself */
	SKIP_FILTER,   /* another interface or five-tuple */
	SKIP_SAMPLING,
	SKIP_UNSEEN, /* first seen at t3: a copy made by IP, or inside at the start */
	SKIP_REASONS,
};

struct tally {
	__u64 seen;
	__u64 forwarded;
	__u64 below; /* of them, below IP */
	__u64 late;  /* of those seen, first seen at t2 */
	__u64 dropped;
	__u64 local;
	__u64 merged;
	__u64 own;
	__u64 segments;
	__u64 records_lost;
	__u64 scratch; /* no counter */
	__u64 lost[LOST_REASONS];
	__u64 skipped[SKIP_REASONS];
};

/* Key: 0; value: counters of one processor. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tally);
} tallies SEC(".maps");

struct drop_key {
	__u64 where; /* address in the kernel that freed it */
	__u32 reason;
	__u32 consumed; /* it was consumed, not dropped: there is no reason */
};

/* Key: reason and place; value: packets. Drops only. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct drop_key);
	__type(value, __u64);
} drops SEC(".maps");

static __always_inline struct tally *tally_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&tallies, &zero);
}

/*
 * Adds where a softirq may interrupt. Elsewhere packets are handled with softirqs
 * off, and a plain sum is enough.
 */
static __always_inline void tally_add(__u64 *counter, __u64 n)
{
	__sync_fetch_and_add(counter, n);
}

static __noinline void account_drop(__u64 where, __u32 reason, __u32 consumed)
{
	struct drop_key key = {.where = where, .reason = reason, .consumed = consumed};
	__u64 one = 1, *count = bpf_map_lookup_elem(&drops, &key);

	if (count || !bpf_map_update_elem(&drops, &key, &one, BPF_NOEXIST)) {
		if (count)
			__sync_fetch_and_add(count, 1);
		return;
	}
	count = bpf_map_lookup_elem(&drops, &key);
	if (count)
		__sync_fetch_and_add(count, 1);
}

#endif
