/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Whose marks count: hosts by prefix, their keys, which of their flows, and how many. */
#ifndef PILLION_DESTINATION_PEER_H
#define PILLION_DESTINATION_PEER_H

#include "../bpf/prefix.h"
#include "../bpf/rule.h"
#include "flow.h"
#include "tag.h"

#define PEER_PAGE 1024 /* peers in one page of a table, which the agent adds as they are needed */
#define PEER_PAGES 128
#define PEERS_MAX (PEER_PAGES * PEER_PAGE)

const volatile __u32 any_peer;
const volatile __u32 flows_per_peer = ~0u;

/* Flows are told apart by the fields in the rule of their packets, rather than all by flow_fields, which are all of them then. */
const volatile __u32 fields_differ;

#define PEER_KEYS 4 /* sessions may have different ones */

struct peer {
	struct mark_key keys[PEER_KEYS];
	__u32 count; /* of keys; 0: marks need no tag */
	__u32 unread; /* none of its marks counts */
	__u64 rules[2]; /* bit n: rules[n] is one of its own, of which one must fit; without any, all packets count */
	__u64 amends[2]; /* likewise: into marks of which packets on their way to another host we write */
	__u64 untagged[2]; /* of rules: those that want no tag in spite of the keys, where no other rule fits */
};

const struct peer *peer_described __attribute__((unused)); /* the map's definition below has its size only */

/* Key: prefix of the hosts whose marks count. Value: their position in the tables below. Written by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PEERS_MAX);
	__type(key, struct host_prefix);
	__type(value, __u32);
} positions SEC(".maps");

/*
 * Key: number of an agent that marks packets of others, divided by PEER_PAGE. Value: for each of the
 * page, its position, as above; 0: none of it counts. Written by the agent.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, INGRESS_MAX / PEER_PAGE + 1);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(max_entries, PEER_PAGE);
		__type(key, __u32);
		__type(value, __u32);
	});
} ingresses SEC(".maps");

/*
 * Key: position of a peer, divided by PEER_PAGE; position 0 is of those that are in no prefix, if
 * any_peer. Value: for each of the page, what its marks must have. Written by the agent.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PEER_PAGES);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(max_entries, PEER_PAGE);
		__uint(key_size, sizeof(__u32));
		__uint(value_size, sizeof(struct peer));
	});
} peers SEC(".maps");

#define PEER_RULES (2 * RULES_MAX) /* those in use, and those that replace them */

struct rule rules[PEER_RULES]; /* of all peers; written by the agent */

/* Key: position of a peer, divided by PEER_PAGE. Value: for each of the page, its flows in the table. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PEER_PAGES);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(max_entries, PEER_PAGE);
		__type(key, __u32);
		__type(value, __u32);
	});
} peer_flows SEC(".maps");

/* The entry of a table of pages, or NULL. */
static __always_inline void *peer_entry(void *table, __u32 number)
{
	__u32 page = number / PEER_PAGE, entry = number % PEER_PAGE;
	void *entries = bpf_map_lookup_elem(table, &page);

	return entries ? bpf_map_lookup_elem(entries, &entry) : NULL;
}

/* What is found out about the source of a mark. */
struct accepted {
	struct mark_key key; /* of the flow, if keyed */
	__u32 peer;	     /* position */
	__u8 keyed;
	__u8 known; /* all of it was known before */
	__u8 fields; /* that tell flows apart, unless known */
	__u8 zero;
};

/* Key: 0. Value: what a CPU finds out about a mark, which would fill its stack. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct accepted);
} findings SEC(".maps");

/* Not inlined: Linux 6.1 counts the stack of XDP in steps of 32 bytes, and the caller's is full. */
static __noinline struct accepted *finding_of_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&findings, &zero);
}

/* The peer that the mark names, or else the source of the packet. Returns its position, or -1. A global function, for the sake of the stack. */
__noinline int peer_find(const struct mark *m)
{
	struct host_prefix host;
	__u32 *position;

	if (!m || m->ingress > INGRESS_MAX)
		return -1;
	if (any_peer)
		return 0;
	if (m->ingress) {
		position = peer_entry(&ingresses, m->ingress);
		return position && *position ? (int)(*position & (PEERS_MAX - 1)) : -1;
	}
	prefix_host(&host, m->key.family, m->peer);
	position = bpf_map_lookup_elem(&positions, &host);
	return position ? (int)(*position & (PEERS_MAX - 1)) : -1;
}

static __always_inline const struct peer *peer_at(__u32 position)
{
	return peer_entry(&peers, position);
}

/* The peer that wrote the mark, or NULL, and its position. */
static __always_inline const struct peer *peer_of(const struct mark *m, __u32 *position)
{
	int found = peer_find(m);
	const struct peer *peer = found < 0 ? NULL : peer_at(found);

	*position = found;
	return peer && !peer->unread ? peer : NULL;
}

static __always_inline int is_peer(const struct mark *m)
{
	__u32 position;

	return peer_of(m, &position) != NULL;
}

/* Path probes are in no flow: they ask whether marks of the peer are read at all. */
static __always_inline int is_path_probe(const struct mark *m)
{
	return m->key.dport == bpf_htons(WIRE_PROBE_PORT) && m->key.protocol == IPPROTO_UDP;
}

/*
 * Does one of the rules fit? Returns the fields that tell flows apart where it does: those asked
 * for if one has them; or 0. A global function: proven once.
 */
__noinline int rules_fit(__u64 first, __u64 second, const struct flow_key *key, __u32 fields)
{
	__u32 found = 0;

	if (!key)
		return 0;
	for (__u32 i = 0; i < PEER_RULES; i++) {
		if (!((i < 64 ? first : second) >> i % 64 & 1) || !rule_fits(&rules[i], key))
			continue;
		if (!fields_differ)
			return flow_fields;
		if (rules[i].policy == fields)
			return fields;
		if (!found)
			found = rules[i].policy;
	}
	return found;
}

/* Is the flow to be measured? Returns the fields that tell its flow apart, as above. */
static __always_inline int peer_wants(const struct peer *peer, const struct flow_key *key, __u32 fields)
{
	if (!(peer->rules[0] | peer->rules[1]))
		return flow_fields;
	return rules_fit(peer->rules[0], peer->rules[1], key, fields);
}

/*
 * The packet goes on to another host: is this the waypoint that writes the time of its arrival here
 * into the mark? Tags do not cover that time, so this host needs no key of the peer.
 */
static __always_inline int peer_amends(const struct mark *m)
{
	int position = peer_find(m);
	const struct peer *peer = position < 0 ? NULL : peer_at(position);

	return peer && (peer->amends[0] | peer->amends[1]) && rules_fit(peer->amends[0], peer->amends[1], &m->key, FLOW_ALL);
}

/* Is the packet of a peer and of a flow that is to be measured? A global function, as above. */
__noinline int is_wanted(const struct mark *m)
{
	const struct peer *peer;
	__u32 position;

	if (!m)
		return 0;
	peer = peer_of(m, &position);
	return peer && peer_wants(peer, &m->key, FLOW_ALL);
}

/* Is the probe one of marks without tags that some rule of the peer wants? */
static __always_inline int is_untagged_probe(const struct peer *peer, const struct mark *m)
{
	return is_path_probe(m) && !m->tagged && (peer->untagged[0] | peer->untagged[1]);
}

/*
 * Must the mark have a tag? Not in packets that only rules without authentication want: their flows
 * are others than those that are measured with it.
 */
static __always_inline int peer_wants_tag(const struct peer *peer, const struct mark *m)
{
	if (!peer->count || is_untagged_probe(peer, m))
		return 0;
	if (!(peer->untagged[0] | peer->untagged[1]) || is_path_probe(m))
		return 1;
	return rules_fit(peer->rules[0] & ~peer->untagged[0], peer->rules[1] & ~peer->untagged[1], &m->key, FLOW_ALL);
}

/* Is the source a peer, and the mark its own? Returns a verdict. A global function: proven once. */
__noinline int peer_accept(struct mark *m, __u64 now_ns, struct accepted *accepted)
{
	const struct peer *peer;
	__u32 fields = FLOW_ALL;

	if (!m || !accepted)
		return VERDICT_PEER;
	peer = peer_of(m, &accepted->peer);
	if (!peer)
		return VERDICT_PEER;
	accepted->keyed = accepted->known = 0;
	if (!is_path_probe(m))
		fields = peer_wants(peer, &m->key, mark_fields(m));
	if (!fields)
		return VERDICT_FILTER;
	accepted->fields = fields;
	if (!peer_wants_tag(peer, m))
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
	__u32 *flows = peer_entry(&peer_flows, position);

	if (!flows)
		return 0;
	if (__sync_fetch_and_add(flows, 1) < flows_per_peer)
		return 1;
	__sync_fetch_and_add(flows, -1);
	return 0;
}

static __always_inline void peer_unused(__u32 position)
{
	__u32 *flows = peer_entry(&peer_flows, position);

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
