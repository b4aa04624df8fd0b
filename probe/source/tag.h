/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Authenticated marks: each carries a tag that proves to its destination which host wrote
 * it. Packets to a destination for which there is no key stay unmarked.
 */
#ifndef PILLION_SOURCE_TAG_H
#define PILLION_SOURCE_TAG_H

#include "../bpf/clock.h"
#include "../bpf/prefix.h"
#include "number.h"
#include "rule.h"

const volatile __u32 tagged_marks;

/* Key: prefix of destinations. Value: the key that this host shares with them. Written by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 131072);
	__type(key, struct host_prefix);
	__type(value, struct mark_key);
} pair_keys SEC(".maps");

static __always_inline const struct mark_key *tag_pair_key(const struct flow_key *flow)
{
	struct host_prefix host;

	prefix_host(&host, flow->family, flow->dst);
	return bpf_map_lookup_elem(&pair_keys, &host);
}

/* A global function: the verifier proves it once. */
__noinline int tag_key_missing(const struct flow_key *flow)
{
	return tagged_marks && (!flow || !tag_pair_key(flow));
}

/* Returns 0 and the key of a flow. A global function, as above. */
__noinline int tag_key_find(const struct flow_key *flow, struct mark_key *key)
{
	const struct mark_key *pair;

	if (!flow || !key)
		return -1;
	pair = tag_pair_key(flow);
	return pair ? tag_flow_key(pair, flow, key) : -1;
}

/*
 * The key of a flow, cached in numbers if these are of this flow alone (kept). Returns 0 also
 * where no key is needed.
 */
static __always_inline int tag_key(struct numbering *numbers, const struct flow_key *flow, int kept,
				   struct mark_key *key)
{
	__u32 state = rules_state;

	if (!tagged_marks)
		return 0;
	if (kept && LIKELY(*(volatile __u32 *)&numbers->key_state == state)) {
		*key = numbers->key;
		return 0;
	}
	if (tag_key_find(flow, key))
		return -1;
	if (!kept)
		return 0;
	numbers->key = *key;
	__sync_lock_test_and_set(&numbers->key_state, state); /* the key is complete */
	return 0;
}

/* number: in network byte order; kind and time: see wire.h */
static __always_inline __be32 tag_make(const struct mark_key *key, __u64 time, __be32 number, __u32 kind)
{
	return bpf_htonl(tag_compute(key, time, bpf_ntohl(number), kind));
}

/* The time with which a mark without a time stamp is tagged: the current epoch. */
static __always_inline __u64 tag_epoch_now(void)
{
	return tag_epoch(clock_coarse_utc_ns());
}

static __always_inline __u64 tag_timestamp(struct wire_timestamp stamp)
{
	return (__u64)bpf_ntohl(stamp.seconds) << 32 | bpf_ntohl(stamp.fraction);
}

#endif
