/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Whose marks count: hosts by prefix, their keys, which of their flows, and how many. */
#ifndef PILLION_DESTINATION_PEER_H
#define PILLION_DESTINATION_PEER_H

#include "../bpf/prefix.h"
#include "../bpf/rule.h"
#include "flow.h"
#include "tag.h"

#define PEERS_MAX 4096

const volatile __u32 any_peer;
const volatile __u32 flows_per_peer = ~0u;

#define PEER_KEYS 4 /* sessions may have different ones */

struct peer {
	struct mark_key keys[PEER_KEYS];
	__u32 count; /* of keys; 0: marks need no tag */
	__u32 zero;
	__u64 rules[2]; /* bit n: rules[n] is one of its own, of which one must fit; without any, all packets count */
};

/* Key: prefix of the hosts whose marks count. Value: their position in the tables below. Written by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PEERS_MAX);
	__type(key, struct host_prefix);
	__type(value, __u32);
} positions SEC(".maps");

/* Key: position of a peer; 0 for those that are in no prefix, if any_peer. Value: what its marks must have. Written by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PEERS_MAX + 1);
	__type(key, __u32);
	__type(value, struct peer);
} peers SEC(".maps");

#define PEER_RULES (2 * RULES_MAX) /* those in use, and those that replace them */

struct rule rules[PEER_RULES]; /* of all peers; written by the agent */

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
	struct host_prefix host;
	__u32 *position;

	if (!m)
		return -1;
	if (any_peer)
		return 0;
	prefix_host(&host, m->key.family, m->peer);
	position = bpf_map_lookup_elem(&positions, &host);
	return position ? (int)(*position & 0xffff) : -1;
}

static __always_inline int is_peer(const struct mark *m)
{
	return peer_find(m) >= 0;
}

static __always_inline const struct peer *peer_at(__u32 position)
{
	return bpf_map_lookup_elem(&peers, &position);
}

/* Path probes are in no flow: they ask whether marks of the peer are read at all. */
static __always_inline int is_path_probe(const struct mark *m)
{
	return m->key.dport == bpf_htons(WIRE_PROBE_PORT) && m->key.protocol == IPPROTO_UDP;
}

/* Is the flow to be measured? A global function: proven once. */
__noinline int peer_wants(const struct peer *peer, const struct flow_key *key)
{
	if (!peer || !key)
		return 0;
	if (!(peer->rules[0] | peer->rules[1]))
		return 1;
	for (__u32 i = 0; i < PEER_RULES; i++) {
		if ((peer->rules[i / 64] >> i % 64 & 1) && rule_fits(&rules[i], key))
			return 1;
	}
	return 0;
}

/* Is the packet of a peer and of a flow that is to be measured? A global function, as above. */
__noinline int is_wanted(const struct mark *m)
{
	const struct peer *peer;
	int found;

	if (!m)
		return 0;
	found = peer_find(m);
	if (found < 0)
		return 0;
	peer = peer_at(found);
	return peer && peer_wants(peer, &m->key);
}

/* Is the source a peer, and the mark its own? Returns a verdict. A global function: proven once. */
__noinline int peer_accept(const struct mark *m, __u64 now_ns, struct accepted *accepted)
{
	const struct peer *peer;
	int found;

	if (!m || !accepted)
		return VERDICT_PEER;
	found = peer_find(m);
	if (found < 0)
		return VERDICT_PEER;
	accepted->peer = found;
	accepted->keyed = accepted->known = 0;
	peer = peer_at(found);
	if (!peer)
		return VERDICT_PEER;
	if (!is_path_probe(m) && !peer_wants(peer, &m->key))
		return VERDICT_FILTER;
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
