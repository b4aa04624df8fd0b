/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * GRO merges buffers of one flow into the first of them, which it holds. What became
 * of a buffer it says at its exit, on the same processor; into which one it went it
 * does not say: that is the one that it holds of the same flow and device.
 */
#ifndef PILLION_GRO_H
#define PILLION_GRO_H

#include "match.h"
#include "table.h"

/* enum gro_result of the kernel, since 5.x. */
#define GRO_MERGED 0
#define GRO_MERGED_FREE 1
#define GRO_HELD 2

#define GRO_FLOWS 256

#define FREED_DROPPED 1
#define FREED_CONSUMED 2

struct gro_flow {
	__u64 flow;
	__u64 held; /* key of the buffer */
};

struct gro {
	__u64 entered;    /* key of the buffer between entry and exit */
	__u64 unfollowed; /* the same of one without a record; it stays after the exit */
	__u64 t1;
	__u64 flow;
	__u32 wire;     /* packets on the wire in it */
	__u32 credited; /* already counted as merged */
	/* How the buffer was freed, if it was before the exit. */
	__u64 where;
	__u32 reason;
	__u32 freed;
	struct gro_flow flows[GRO_FLOWS];
};

/* Key: 0; value: what GRO does on one processor. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gro);
} gros SEC(".maps");

static __always_inline struct gro *gro_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&gros, &zero);
}

/*
 * A buffer may be freed before its own exit: merged, and sent on at once with what it
 * was merged into; or dropped on its way. The exit shows which.
 */
static __always_inline int gro_defers(struct packet *p, __u64 key, __u64 where, __u32 reason, __u32 freed)
{
	struct gro *g = p->t2 ? 0 : gro_here();

	if (!g || g->entered != key)
		return 0;
	g->where = where;
	g->reason = reason;
	g->freed = freed;
	return 1;
}

static __always_inline struct gro_flow *gro_flow(struct gro *g, __u64 flow)
{
	return &g->flows[(flow >> 40) & (GRO_FLOWS - 1)];
}

static __always_inline void gro_credit(struct packet *p, struct gro *g)
{
	p->merged++;
	p->wire += g->wire;
	p->last_t1 = g->t1;
}

/* The buffer that entered was merged. */
static __always_inline void gro_merged(struct gro *g)
{
	struct gro_flow *f = gro_flow(g, g->flow);
	struct packet *p;

	if (g->credited || f->flow != g->flow || !g->flow)
		return;
	p = table_find(f->held);
	if (p && p->flags & PACKET_HELD && !p->t2)
		gro_credit(p, g);
}

/*
 * A packet that was held begins. It may do so before the exit of the buffer that was
 * merged into it last: then the kernel counts more in it than was counted here.
 */
static __always_inline void gro_released(struct packet *p, struct sk_buff *skb, __u64 key)
{
	struct gro *g = gro_here();

	if (!g || !g->entered || g->entered == key || g->credited)
		return;
	if (gro_flow(g, g->flow)->held != key || gro_flow(g, g->flow)->flow != g->flow)
		return;
	if (shared_info(skb)->gso_segs == p->wire + g->wire) {
		gro_credit(p, g);
		g->credited = 1;
	}
}

#endif
