/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The path MTU, where it is below that of the device. A router reports it in an
 * ICMP error about one of our marked packets (RFC 1191, RFC 8201). The stack
 * does not recognize the packet that it sent when a mark hides it, and learns
 * nothing new when the packet fitted before it was marked. So the program learns
 * path MTUs itself (quote.h), and does not mark packets that would exceed them.
 */
#ifndef PILLION_SOURCE_PATH_H
#define PILLION_SOURCE_PATH_H

#include "subject.h"

volatile __u32 path_mtu; /* largest IP packet for this device, bytes; the agent follows the device */
volatile __u32 paths_state PER_PACKET; /* counted up when a path MTU is learned */
volatile __u32 paths_known; /* not zero: look paths up */

struct path {
	__be32 dst[4];
	__u32 family;
};

struct path_limit {
	__u32 mtu;  /* bytes */
	__u32 zero;
	__u64 learned; /* kernel ticks; the agent removes old limits */
};

/* Key: destination. Value: its path MTU. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct path);
	__type(value, struct path_limit);
} paths SEC(".maps");

__noinline int path_learn(const struct path *path, __u32 mtu)
{
	struct path_limit limit = { .mtu = mtu, .learned = bpf_jiffies64() };

	if (!path || mtu >= path_mtu)
		return 0;
	bpf_map_update_elem(&paths, path, &limit, BPF_ANY);
	paths_known = 1;
	__sync_fetch_and_add(&paths_state, 1);
	return 0;
}

__noinline __u32 path_look_up(const struct flow_key *key)
{
	struct path path = {};
	struct path_limit *limit;

	if (!key)
		return 0;
	copy_address(path.dst, key->dst);
	path.family = key->family;
	limit = bpf_map_lookup_elem(&paths, &path);
	return limit && limit->mtu < path_mtu ? limit->mtu : path_mtu;
}

/* Largest IP packet for this destination. */
static __always_inline __u32 path_limit(const struct flow_key *key)
{
	return paths_known ? path_look_up(key) : path_mtu;
}

#endif
