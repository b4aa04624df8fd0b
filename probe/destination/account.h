/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Counts every accepted mark: in totals, in its flow, as a record. */
#ifndef PILLION_DESTINATION_ACCOUNT_H
#define PILLION_DESTINATION_ACCOUNT_H

#include "../bpf/clock.h"
#include "run.h"

/* Per CPU; packets on the wire. seen = accepted + counted + unmarked + rejected. */
struct tally {
	__u64 verdicts[VERDICTS];
	__u64 bytes;	   /* of accepted packets, restored, and of counted ones */
	__u64 restored;	   /* accepted, and the mark taken out */
	__u64 amended;	   /* accepted, and the mark left in on purpose */
	__u64 kept;	   /* accepted, and the option left in: the socket does not see it */
	__u64 unrestored;  /* accepted, but the kernel refused to take the mark out */
	__u64 flows_full;  /* accepted, but no flow could be entered */
	__u64 contended;   /* accepted, but the flow stayed busy on another CPU */
	__u64 uncounted;   /* delays and variations in no histogram, for lack of room */
	__u64 records;
	__u64 records_dropped;
};

/* Key: 0. Value: what became of the packets of each CPU. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tally);
} tallies SEC(".maps");

struct peer {
	__u32 prefix; /* bits: 8 of the family, then of the address */
	__u8 family;
	__u8 address[16];
} __attribute__((packed));

const volatile __u32 any_peer;

/* Key: prefix of the hosts whose marks count. Value: nothing. Written by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct peer);
	__type(value, __u8);
} peers SEC(".maps");

static __always_inline int is_peer(const struct mark *m)
{
	struct peer peer = { .prefix = 8 + 128, .family = m->key.family };

	if (any_peer)
		return 1;
	__builtin_memcpy(peer.address, m->peer, sizeof(peer.address));
	return !!bpf_map_lookup_elem(&peers, &peer);
}

static __always_inline __u64 sent_raw(const struct mark *m)
{
	return m->ticks ? m->ticks : (__u64)m->sent.seconds << 32 | m->sent.fraction;
}

/*
 * Enters the packets of a mark by their number. counted: zero, and then what is to be added
 * to the flow. Returns 1 on a first arrival.
 */
static __always_inline int account_number(struct flow *flow, const struct mark *m, __u32 packets,
					  struct window_sum *counted)
{
	if (m->modules & WIRE_SPARSE)
		return window_sparse(&flow->window, m->sequence, packets, m->length, counted);
	if (flow->window.sparse)
		window_count(&flow->window, counted);
	counted->packets += packets;
	counted->bytes += m->length;
	if (m->modules & WIRE_LOSS)
		return window_next(&flow->window, m->sequence, packets) ||
		       window_arrive(&flow->window, m->sequence, packets);
	if (m->modules & WIRE_DELAY)
		return !flow->delays || sent_raw(m) != flow->sent_last;
	return 1;
}

/*
 * The packets of a burst carry one timestamp; only the first that arrives has the
 * delay of the path. The same holds for a duplicate.
 */
static __always_inline int account_flow(struct flow *flow, const struct flow_key *key,
					const struct mark *m, __u64 now_ns, __s64 delay,
					__u32 packets)
{
	struct window_sum counted = {};
	int fresh;

	if (!flow->packets)
		flow->first_ns = now_ns;
	flow->last_ns = now_ns;
	flow->touched = 1;
	fresh = account_number(flow, m, packets, &counted);
	flow->packets += counted.packets;
	flow->bytes += counted.bytes;
	if (!(m->modules & WIRE_DELAY) || !fresh)
		return 0;
	flow->sent_last = sent_raw(m);
	return flow_delay(flow, key, delay);
}

static __always_inline __s64 delay_of(const struct mark *m, __u64 now_ns)
{
	if (!(m->modules & WIRE_DELAY))
		return 0;
	return m->ticks ? clock_since_ticks(now_ns, m->ticks) : clock_since(now_ns, m->sent);
}

/* Flows of which only some packets carry a mark. */
#define SPARSE_NONE 0
#define SPARSE_SLOTS 1 /* there may be some, all in slots */
#define SPARSE_FLOWS 2 /* there may be others */

/* Grows; shared with a program that takes the place of this one. */
volatile __u32 sparse_flows PER_PACKET = SPARSE_NONE;

static __always_inline void sparse_note(const struct slot *slot)
{
	__u32 now = slot ? SPARSE_SLOTS : SPARSE_FLOWS;

	if (sparse_flows < now)
		sparse_flows = now;
}

static __always_inline void account(struct flow *flow, const struct flow_key *key, const struct mark *m,
				    struct tally *tally, __u64 now_ns, __u32 packets)
{
	__s64 delay = delay_of(m, now_ns);
	struct held held;

	tally->bytes += m->length;
	if (!flow) {
		tally->flows_full += packets;
	} else if (!flow_lock(&held, flow, key, 0)) {
		tally->contended += packets;
	} else {
		tally->uncounted += account_flow(flow, key, m, now_ns, delay, packets);
		if (flow->window.sparse)
			sparse_note(held.slot);
		flow_unlock(&held);
	}
	if (!records_wanted)
		return;
	if (record_write(m, now_ns, delay, packets))
		tally->records_dropped++;
	else
		tally->records++;
}

/* A packet without a time needs ours only to know when its flow was last seen. */
static __always_inline __u64 account_time(const struct mark *m)
{
	return (m->modules & WIRE_DELAY) || records_wanted ? clock_utc_ns() : clock_coarse_utc_ns();
}

/* Flows of several sources are one where the source is a wildcard. */
#define PEERS_KEPT (flow_fields & FLOW_SRC)

/* The next packet of a run. Returns what account_packet would, or -1 for every other packet. */
static __always_inline int account_next(const struct mark *m, struct tally *tally, int verdict,
					__u32 packets)
{
	int route = verdict == VERDICT_MARKED ? run_next(m, packets) : -1;

	if (route < 0)
		return -1;
	tally->verdicts[VERDICT_MARKED]++;
	tally->bytes += m->length;
	return VERDICT_MARKED | route << ROUTE_SHIFT;
}

/*
 * Reads the mark, decides whether it counts, and enters it. The source of a flow
 * is looked up when the flow begins and when peers change. Returns a verdict, and
 * above ROUTE_SHIFT the route of the flow. A global function: the verifier proves
 * it once, apart from the ways to get here.
 */
__noinline int account_packet(const struct mark *m, struct tally *tally, int verdict, __u64 now_ns,
			      __u32 packets)
{
	struct flow_key key;
	struct flow *flow = 0;
	__u32 state = peers_state;

	if (!m || !tally)
		return VERDICT_UNMARKED;
	key = m->key;
	if (verdict == VERDICT_MARKED) {
		flow_aggregate(&key);
		flow = bpf_map_lookup_elem(&flows, &key);
		if (!(PEERS_KEPT && flow && flow->peers == state) && !is_peer(m))
			verdict = VERDICT_PEER;
	}
	if (verdict >= 0 && verdict < VERDICTS)
		tally->verdicts[verdict] += packets;
	if (verdict != VERDICT_MARKED)
		return verdict;
	if (!flow)
		flow = flow_start(&key);
	if (flow)
		flow->peers = state;
	account(flow, &key, m, tally, now_ns, packets);
	return VERDICT_MARKED | (flow ? flow->route : 0) << ROUTE_SHIFT;
}

#endif
