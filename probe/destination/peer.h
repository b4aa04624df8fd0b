/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Whose marks count: hosts by prefix, their keys, and how many flows each may have. */
#ifndef PILLION_DESTINATION_PEER_H
#define PILLION_DESTINATION_PEER_H

#include "flow.h"
#include "tag.h"

#define PEERS_MAX 4096

struct peer {
	__u32 prefix; /* bits: 8 of the family, then of the address */
	__u8 family;
	__u8 address[16];
} __attribute__((packed));

const volatile __u32 any_peer;
const volatile __u32 flows_per_peer = ~0u;

/* Key: prefix of the hosts whose marks count. Value: their position in the tables below. Written by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PEERS_MAX);
	__type(key, struct peer);
	__type(value, __u32);
} peers SEC(".maps");

#define PEER_KEYS 4 /* sessions may have different ones */

struct peer_key {
	struct mark_key keys[PEER_KEYS];
	__u32 count; /* 0: marks need no tag */
	__u32 zero;
};

/* Key: position of a peer; 0 for those that are in no prefix, if any_peer. Value: its keys. Written by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PEERS_MAX + 1);
	__type(key, __u32);
	__type(value, struct peer_key);
} peer_keys SEC(".maps");

/* Key: position of a peer. Value: its flows in the table. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PEERS_MAX + 1);
	__type(key, __u32);
	__type(value, __u32);
} peer_flows SEC(".maps");

/* What is found out about the source of a mark. */
struct accepted {
	struct mark_key key; /* of the flow, if keyed */
	__u32 peer;	     /* position */
	__u8 keyed;
	__u8 known; /* all of it was known before */
	__u8 zero[2];
};

/* Key: 0. Value: what a CPU finds out about a mark, which would fill its stack. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct accepted);
} findings SEC(".maps");

/* Returns the position of the peer, or -1. A global function, for the sake of the stack. */
__noinline int peer_find(const struct mark *m)
{
	struct peer peer = { .prefix = 8 + 128 };
	__u32 *position;

	if (!m)
		return -1;
	if (any_peer)
		return 0;
	peer.family = m->key.family;
	__builtin_memcpy(peer.address, m->peer, sizeof(peer.address));
	position = bpf_map_lookup_elem(&peers, &peer);
	return position ? (int)(*position & 0xffff) : -1;
}

static __always_inline int is_peer(const struct mark *m)
{
	return peer_find(m) >= 0;
}

/* Is the source a peer, and the mark its own? Returns a verdict. A global function: proven once. */
__noinline int peer_accept(const struct mark *m, __u64 now_ns, struct accepted *accepted)
{
	const struct peer_key *peer;
	__u32 position;
	int found;

	if (!m || !accepted)
		return VERDICT_PEER;
	found = peer_find(m);
	if (found < 0)
		return VERDICT_PEER;
	accepted->peer = position = found;
	accepted->keyed = accepted->known = 0;
	peer = bpf_map_lookup_elem(&peer_keys, &position);
	if (!peer)
		return VERDICT_PEER;
	if (!peer->count)
		return VERDICT_MARKED;
	accepted->keyed = 1;
	for (__u32 i = 0; i < PEER_KEYS; i++) {
		if (i >= peer->count)
			break;
		tag_flow_key(&peer->keys[i], &m->key, &accepted->key);
		if (tag_fits(&accepted->key, m, now_ns))
			return VERDICT_MARKED;
	}
	return VERDICT_FORGED;
}

/* One more flow of a peer. Returns 0 if it has too many. */
static __always_inline int peer_enters(__u32 position)
{
	__u32 *flows = bpf_map_lookup_elem(&peer_flows, &position);

	if (!flows)
		return 0;
	if (__sync_fetch_and_add(flows, 1) < flows_per_peer)
		return 1;
	__sync_fetch_and_add(flows, -1);
	return 0;
}

static __always_inline void peer_unused(__u32 position)
{
	__u32 *flows = bpf_map_lookup_elem(&peer_flows, &position);

	if (flows)
		__sync_fetch_and_add(flows, -1);
}

/* The flow is removed. */
static __always_inline void peer_leaves(const struct flow *flow)
{
	if (flow->peer)
		peer_unused(flow->peer - 1);
}

#endif
