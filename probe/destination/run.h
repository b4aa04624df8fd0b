/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The shortest way to count a packet. Most packets of a fast flow are the next one: single,
 * in order, without a time. Such a run is counted in one word of the flow's slot, and
 * enters the flow when another packet comes or the agent collects it. The run of a sparse
 * flow consists of its packets without a mark.
 *
 * That word is also the lock of a flow with a slot.
 */
#ifndef PILLION_DESTINATION_RUN_H
#define PILLION_DESTINATION_RUN_H

#include "../bpf/slot.h"
#include "flow.h"
#include "peer.h"
#include "record.h"
#include "route.h"
#include "tag.h"

/* A flow in a cache line of its own, but for its key. */
struct slot {
	struct slot_key key; /* last: 0 if the slot is free, SLOT_BUSY while it is taken */
	__u64 run;	     /* generation, packets and bytes; RUN_LOCKED */
	__u64 begin;	     /* generation and the first number of the run, or RUN_SPARSE; RUN_CLOSED */
	__u32 peers;	     /* as in struct flow */
	__u16 generation;    /* grows whenever the flow is unlocked */
	__u8 route;	     /* as in struct flow */
	__u8 keyed;	     /* likewise, and key */
	struct mark_key mark_key;
};

#define RUN_PACKET (1ull << 32)
#define RUN_PACKETS_MAX 0xffff
#define RUN_LENGTH_MAX 0xffff
#define RUN_GENERATION_SHIFT 48
#define RUN_LOCKED ~0ull
#define RUN_CLOSED ~0ull
#define RUN_SPARSE 0xfffffffeu /* no number */

static __always_inline __u32 run_packets(__u64 run)
{
	return run >> 32 & RUN_PACKETS_MAX;
}

/*
 * Key: hash of a flow. Value: the first flow with this hash, until it is removed. Written
 * here; others have their lock in the flow.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

static __always_inline struct slot *slot_at(__u32 index)
{
	return bpf_map_lookup_elem(&slots, &index);
}

static __always_inline __u32 number_mask(const struct mark *m)
{
	return has_short_number(m) ? WIRE_SINGLE | 0xffff : ~0u;
}

/*
 * Counts the next packet of a run. Returns the route of the flow, or -1 for every other
 * packet. The generation says whether begin belongs to the run that was read.
 */
static __always_inline int run_next(struct mark *m, __u32 packets)
{
	const struct slot_key *key = (const void *)&m->key;
	struct slot *slot;
	__u64 run, begin;

	if ((MODULE_COUNT && m->carried) || records_wanted || flow_fields != FLOW_ALL || m->modules != WIRE_LOSS || m->aggregate || packets != 1)
		return -1;
	slot = slot_at(slot_index(key));
	if (!slot || !slot_has(&slot->key, key) || slot->peers != peers_state ||
	    (!slot->route && is_routed(m)))
		return -1;
	run = *(volatile __u64 *)&slot->run;
	begin = *(volatile __u64 *)&slot->begin;
	if (begin >> 32 != run >> RUN_GENERATION_SHIFT || run_packets(run) == RUN_PACKETS_MAX ||
	    (m->sequence ^ (((__u32)begin + run_packets(run)) | WIRE_SINGLE)) & number_mask(m) || m->length > RUN_LENGTH_MAX)
		return -1;
	if (slot->keyed && !tag_fits(&slot->mark_key, m, clock_coarse_utc_ns()))
		return -1;
	if (__sync_val_compare_and_swap(&slot->run, run, run + RUN_PACKET + m->length) != run)
		return -1;
	return slot->route;
}

#define RUN_OTHER 0   /* the slot belongs to another flow */
#define RUN_REFUSED 1 /* it is, but its run is in use, or full */
#define RUN_COUNTED 2

/*
 * Counts packets without a mark of a sparse flow. The run is read before the key, so that
 * it changes if another flow takes the slot.
 */
static __always_inline int run_unmarked(const struct mark *m, __u32 packets)
{
	const struct slot_key *key = (const void *)&m->key;
	struct slot *slot = slot_at(slot_index(key));
	__u64 run, begin;

	if (!slot)
		return RUN_OTHER;
	run = *(volatile __u64 *)&slot->run;
	begin = *(volatile __u64 *)&slot->begin;
	if (!slot_has(&slot->key, key))
		return RUN_OTHER;
	if ((__u32)begin != RUN_SPARSE || begin >> 32 != run >> RUN_GENERATION_SHIFT ||
	    slot->peers != peers_state || run_packets(run) + packets > RUN_PACKETS_MAX ||
	    m->length > RUN_LENGTH_MAX ||
	    __sync_val_compare_and_swap(&slot->run, run, run + RUN_PACKET * packets + m->length) != run)
		return RUN_REFUSED;
	return RUN_COUNTED;
}

/* A flow to be locked, and what its lock was. */
struct held {
	struct flow *flow;
	struct slot *slot; /* 0: it has none */
	__u64 run;
	__u64 locked;
};

/* Takes the lock of a flow, in its slot or else in the flow itself. Returns 0 if it is busy. */
static __always_inline long flow_try(struct held *held)
{
	__u32 place = *(volatile __u32 *)&held->flow->place;

	if (place == PLACE_GONE)
		return 1;
	if (!place) {
		if (!__sync_lock_test_and_set(&held->flow->free, 0))
			return 0;
	} else {
		held->slot = slot_at(place - 1);
		if (!held->slot)
			return 1;
		held->run = __sync_lock_test_and_set(&held->slot->run, RUN_LOCKED);
		if (held->run == RUN_LOCKED)
			return 0;
	}
	held->locked = 1;
	return 1;
}

static long flow_try_again(__u32 index, struct held *held)
{
	return flow_try(held);
}

/* The run enters the flow. */
static __always_inline void flow_flush(struct held *held)
{
	struct flow *flow = held->flow;
	__u32 packets = run_packets(held->run);

	if (!packets)
		return;
	if (flow->window.sparse) {
		window_unmarked(&flow->window, packets, (__u32)held->run);
		return;
	}
	flow->packets += packets;
	flow->bytes += (__u32)held->run;
	flow->touched = 1;
	window_run(&flow->window, packets);
}

/* The processor on which collect.h runs, plus 1. */
volatile __u32 collecting;

/*
 * Could the lock become free while this program waits? Before Linux 6.3, which runs
 * collect.h with softirqs disabled, a packet may interrupt it.
 */
static __always_inline int flow_waits(void)
{
	return collecting != bpf_get_smp_processor_id() + 1;
}

/*
 * A flow's packets may arrive on several CPUs at once. bpf_spin_lock would forbid the
 * calls that the window needs. Returns 0 without the lock: the flow stays busy, or has
 * been removed.
 */
static __always_inline int flow_lock(struct held *held, struct flow *flow, const struct flow_key *key,
				     int collects)
{
	*held = (struct held){ .flow = flow };
	if (!flow_try(held) && (collects || flow_waits()))
		bpf_loop(LOCK_TRIES, flow_try_again, held, 0);
	if (!held->locked)
		return 0;
	if (!held->slot)
		return 1;
	if (!slot_has(&held->slot->key, (const void *)key)) {
		__sync_lock_test_and_set(&held->slot->run, held->run);
		return 0;
	}
	flow_flush(held);
	return 1;
}

static __always_inline __u32 run_begin(const struct window *w)
{
	return w->sparse ? RUN_SPARSE : w->next;
}

/* From here on the next packets of a run count without the lock, if the flow has a slot. */
static __always_inline void flow_unlock(const struct held *held)
{
	struct flow *flow = held->flow;
	struct slot *slot = held->slot;
	__u64 generation;

	if (!slot) {
		__sync_lock_test_and_set(&flow->free, 1);
		return;
	}
	generation = (__u16)(slot->generation + 1);
	slot->generation = generation;
	slot->peers = flow->peers;
	slot->route = flow->route;
	slot->keyed = flow->keyed;
	if (flow->keyed)
		slot->mark_key = flow->key;
	*(volatile __u64 *)&slot->begin =
		flow->window.begun ? generation << 32 | run_begin(&flow->window) : RUN_CLOSED;
	__sync_lock_test_and_set(&slot->run, generation << RUN_GENERATION_SHIFT);
}

/* Takes the slot of a new flow, locked, if it is free. Returns 0 if not. */
static __always_inline struct slot *slot_take(struct flow *flow, const struct slot_key *key)
{
	__u32 index = slot_index(key);
	struct slot *slot = slot_at(index);

	if (!slot || __sync_val_compare_and_swap(&slot->key.last, 0, SLOT_BUSY))
		return 0;
	if (__sync_lock_test_and_set(&slot->run, RUN_LOCKED) == RUN_LOCKED) {
		/* A packet of the flow before it looks whose slot this is. */
		__sync_lock_test_and_set(&slot->key.last, 0);
		return 0;
	}
	slot_publish(&slot->key, key);
	*(volatile __u32 *)&flow->place = index + 1;
	return slot;
}

/* A flow is locked while it begins: nobody has it before it is known where its lock is. */
static __noinline struct flow *flow_start(const struct flow_key *key)
{
	__u32 zero = 0;
	struct flow *blank = bpf_map_lookup_elem(&blank_flows, &zero), *flow;
	struct held held = {};
	int failed;

	if (!key || !blank)
		return 0;
	failed = bpf_map_update_elem(&flows, key, blank, BPF_NOEXIST);
	flow = bpf_map_lookup_elem(&flows, key);
	if (failed || !flow)
		return flow;
	held.flow = flow;
	held.slot = slot_take(flow, (const void *)key);
	flow_unlock(&held);
	return flow;
}

/* The flow is locked, and its lock ends with it. */
static __always_inline void flow_remove(const struct held *held, const struct flow_key *key)
{
	struct slot *slot = held->slot;

	peer_leaves(held->flow);
	*(volatile __u32 *)&held->flow->place = PLACE_GONE;
	if (slot)
		__sync_lock_test_and_set(&slot->key.last, 0);
	bpf_map_delete_elem(&flows, key);
	if (slot)
		__sync_lock_test_and_set(&slot->run, 0);
}

#endif
