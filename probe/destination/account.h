/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Counts every accepted mark: in totals, in its flow, as a record. */
#ifndef PILLION_DESTINATION_ACCOUNT_H
#define PILLION_DESTINATION_ACCOUNT_H

#include "../bpf/clock.h"
#include "altmark.h"
#include "mismatch.h"
#include "module.h"
#include "narrow.h"
#include "run.h"
#include "segment.h"

/* Per CPU; packets on the wire. seen = accepted + counted + unmarked + rejected. */
struct tally {
	__u64 verdicts[VERDICTS];
	__u64 bytes;	   /* of accepted packets, restored, and of counted ones */
	__u64 restored;	   /* accepted, and the mark taken out */
	__u64 amended;	   /* left in on purpose, with our time: accepted, or in transit */
	__u64 kept;	   /* accepted, and the mark left in: the socket does not see it, or its header is not ours alone */
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
	if (has_short_number(m))
		window_follow(&flow->window, m->sequence);
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
 * When a mark was sent, UTC; without a time: the beginning of its tag's epoch. The time of its arrival would
 * make a copy that comes in the next epoch newer than its original.
 */
static __always_inline __u64 sent_ns(const struct mark *m, __u64 now_ns, __s64 delay)
{
	return m->modules & WIRE_DELAY ? now_ns - delay : (tag_epoch(now_ns) + m->epoch) << WIRE_TAG_EPOCH;
}

static __always_inline void flow_sent(struct flow *flow, const struct mark *m, __u64 now_ns, __s64 delay)
{
	__u64 sent = sent_ns(m, now_ns, delay);

	if (sent > flow->newest)
		flow->newest = sent;
}

/*
 * A mark whose tag is right may be a copy that somebody kept. One that would begin the flow
 * anew, or lies behind the window, has to be younger than all before it: the first marks of
 * a flow have a time. One inside the window came twice; it is what RFC 5560 calls a
 * duplicate, unless it comes much later than the packets around it, which cannot be told
 * without a time. Numbers of 16 bits come again by themselves.
 */
static __always_inline int is_replayed(const struct flow *flow, const struct mark *m, __u64 now_ns, __s64 delay)
{
	const struct window *w = &flow->window;
	__u32 first = m->sequence & WIRE_SEQUENCE_MASK;
	__s32 ahead = window_apart(first, w->next);

	if (!w->begun || has_short_number(m) || !(m->modules & WIRE_LOSS))
		return 0;
	if (window_strange(w, first, ahead) || ahead < -WINDOW)
		return sent_ns(m, now_ns, delay) <= flow->newest;
	return ahead < 0 && (m->modules & WIRE_DELAY) && delay > flow->delay_last + REPLAY_NS &&
	       (w->sparse || (w->starts[WORD(first)] & BIT(first)));
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

	if (flow->keyed)
		flow_sent(flow, m, now_ns, delay);
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
	if (is_amended(m)) {
		flow->segmented = 1;
		segment_enter(m, key, now_ns, delay);
	}
	return flow_delay(flow, key, delay);
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

/* Returns a verdict. */
static __always_inline int account(struct flow *flow, const struct flow_key *key, struct mark *m,
				   struct tally *tally, __u64 now_ns, __u32 packets)
{
	__s64 delay = delay_of(m, now_ns);
	struct held held;
	int locked = flow && flow_lock(&held, flow, key, 0);

	if (locked && (has_short_number(m) || flow->window.narrow))
		m->sequence = window_near(&flow->window, m->sequence);
	if (!flow) {
		tally->flows_full += packets;
	} else if (!locked) {
		tally->contended += packets;
		if (has_block(m))
			__sync_fetch_and_add(&blocks_missed, packets);
	} else if (flow->keyed && is_replayed(flow, m, now_ns, delay)) {
		flow_unlock(&held);
		return VERDICT_REPLAYED;
	} else {
		tally->uncounted += account_flow(flow, key, m, now_ns, delay, packets);
		if (MODULE_COUNT && m->carried)
			modules_enter(m, key, now_ns, packets);
		if (has_block(m))
			block_arrive(m, key, now_ns, packets);
		if (flow->window.sparse)
			sparse_note(held.slot);
		flow_unlock(&held);
	}
	tally->bytes += m->length;
	if (!records_wanted)
		return VERDICT_MARKED;
	if (record_write(m, now_ns, delay, packets))
		tally->records_dropped++;
	else
		tally->records++;
	return VERDICT_MARKED;
}

/* A packet without a time needs ours only to know when its flow was last seen. */
static __always_inline __u64 account_time(const struct mark *m)
{
	return (m->modules & WIRE_DELAY) || has_block(m) || records_wanted ? clock_utc_ns() : clock_coarse_utc_ns();
}

/* The next packet of a run. Returns what account_packet would, or -1 for every other packet. */
static __always_inline int account_next(struct mark *m, struct tally *tally, int verdict,
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
 * Whether a mark counts, as far as it depends on who wrote it. known: the flow is not an
 * aggregate, so that it has one key, and its source is a peer. Returns a verdict.
 */
static __always_inline int account_peer(struct mark *m, struct flow *flow, __u64 now_ns, __u32 known,
					struct accepted *accepted)
{
	if (known && flow && (!flow->keyed || tag_fits(&flow->key, m, now_ns))) {
		accepted->known = 1;
		return VERDICT_MARKED;
	}
	return peer_accept(m, now_ns, accepted);
}

/* What is known of the source of a flow; peers comes last: it says that the rest is complete. */
static __always_inline void flow_accept(struct flow *flow, const struct accepted *accepted, __u32 state)
{
	if (accepted->known)
		return;
	flow->keyed = accepted->keyed;
	if (accepted->keyed)
		flow->key = accepted->key;
	__sync_lock_test_and_set(&flow->peers, state);
}

static __noinline struct flow *account_start(const struct flow_key *key, const struct accepted *accepted)
{
	struct flow *flow;

	if (!key || !accepted || !peer_enters(accepted->peer))
		return 0;
	flow = flow_start(key);
	if (!flow || __sync_val_compare_and_swap(&flow->peer, 0, accepted->peer + 1))
		peer_unused(accepted->peer);
	return flow;
}

/* The route of the mark has to be looked up, which takes the packet. */
#define ACCOUNT_ROUTE -2

/* Is the mark on its way to another host, also to one of own_prefixes, and not read here? */
static __always_inline int is_others(const struct mark *m, int verdict)
{
	return m->route == ROUTE_ELSEWHERE ? verdict == VERDICT_TRANSIT :
	       m->route == ROUTE_FORWARD && (verdict == VERDICT_PEER || verdict == VERDICT_FILTER);
}

/* Does the flow know its route? It is looked up again when peers change. */
static __always_inline int has_route(const struct flow *flow, __u32 state)
{
	return ROUTES_KEPT && flow && flow->route && flow->peers == state;
}

#define FLOW_FAMILY_BITS 3

/*
 * The flow of a key by some of its fields. Where these differ, an aggregate names them above the
 * family, so that it is another flow than a five-tuple without ports.
 */
static __always_inline struct flow *account_find(struct flow_key *key, __u32 fields)
{
	flow_aggregate_by(key, fields);
	if (fields_differ && fields != FLOW_ALL)
		key->family |= fields << FLOW_FAMILY_BITS;
	return bpf_map_lookup_elem(&flows, key);
}

/*
 * Reads the mark, decides whether it counts, and enters it. The source of a flow
 * is looked up when the flow begins and when peers change. Returns a verdict, and
 * above ROUTE_SHIFT the route of the packet; or ACCOUNT_ROUTE, and nothing was done. A global
 * function: the verifier proves it once, apart from the ways to get here.
 */
__noinline int account_packet(struct mark *m, struct tally *tally, int verdict, __u64 now_ns,
			      __u32 packets)
{
	__u32 state = peers_state, fields = FLOW_ALL;
	struct accepted *accepted = finding_of_cpu();
	struct flow_key key;
	struct flow *flow = 0;

	if (!m || !tally || !accepted)
		return VERDICT_UNMARKED;
	key = m->key;
	if (verdict == VERDICT_MARKED && m->route == ROUTE_ELSEWHERE)
		verdict = VERDICT_TRANSIT;
	if (verdict == VERDICT_MARKED) {
		fields = fields_differ ? mark_fields(m) : flow_fields;
		flow = account_find(&key, fields);
		if (is_routed(m) && !m->route && !has_route(flow, state))
			return ACCOUNT_ROUTE;
		verdict = account_peer(m, flow, now_ns, fields == FLOW_ALL && flow && flow->peers == state, accepted);
	}
	if (fields_differ && verdict == VERDICT_MARKED && !accepted->known && accepted->fields != fields) {
		fields = accepted->fields;
		key = m->key;
		flow = account_find(&key, fields);
	}
	if (verdict == VERDICT_MARKED && (m->modules & WIRE_LOSS) && mark_fields(m) != fields) {
		verdict = VERDICT_FLOW;
		mismatch_note(m, fields, now_ns);
	}
	if (verdict == VERDICT_MARKED) {
		if (!flow)
			flow = account_start(&key, accepted);
		if (flow && m->route)
			flow->route = m->route;
		if (flow)
			flow_accept(flow, accepted, state);
		verdict = account(flow, &key, m, tally, now_ns, packets);
	}
	if (verdict >= 0 && verdict < VERDICTS)
		tally->verdicts[verdict] += packets;
	m->amends = is_others(m, verdict) && can_amend(m) && peer_amends(m);
	if (verdict != VERDICT_MARKED && verdict != VERDICT_FLOW)
		return verdict;
	if (m->route)
		return verdict | m->route << ROUTE_SHIFT;
	return verdict | (flow ? flow->route : 0) << ROUTE_SHIFT;
}

#endif
