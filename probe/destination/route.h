/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Where a marked packet goes: to this host, or on to another one. A router between two agents
 * reads, counts and takes out only those marks that are meant for it (deliver_only).
 */
#ifndef PILLION_DESTINATION_ROUTE_H
#define PILLION_DESTINATION_ROUTE_H

#include "../bpf/prefix.h"
#include "flow.h"
#include "mark.h"

/* Marks count only in packets that are delivered here, or that go to one of own_prefixes. */
const volatile __u32 deliver_only;

#define OWN_PREFIXES_MAX 1024

/* Key: prefix of hosts behind this one whose marks count as its own. Value: 1. Written by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, OWN_PREFIXES_MAX);
	__type(key, struct host_prefix);
	__type(value, __u8);
} own_prefixes SEC(".maps");

struct route_key {
	__be32 dst[4];
	__u32 family;
};

struct route {
	__u32 to;   /* ROUTE_HERE or ROUTE_FORWARD */
	__u32 tick; /* when it was looked up */
};

#define ROUTE_TICK_SHIFT 30 /* nanoseconds to ticks, of about a second */

/*
 * Key: destination of packets. Value: where they went in this tick, so that marks of others
 * cost no lookup in the kernel's table each. Written here.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct route_key);
	__type(value, struct route);
} routes SEC(".maps");

/* Does what becomes of the mark depend on where the packet goes? */
static __always_inline int is_routed(const struct mark *m)
{
	return deliver_only || (may_stay(m) && strip_options == STRIP_AUTO);
}

/* Is the route part of the flow? */
#define ROUTES_KEPT (flow_fields & FLOW_DST)

/* Will the kernel forward the packet? What it delivers here, and what it drops, it does not. */
static __always_inline int is_forwarded(void *ctx, __u32 device, const struct mark *m)
{
	struct bpf_fib_lookup fib = {
		.family = m->key.family == 6 ? 10 : 2, .l4_protocol = m->key.protocol,
		.sport = m->key.sport, .dport = m->key.dport, .tot_len = m->length, .ifindex = device,
	};

	if (m->key.family == 6) {
		copy_address(fib.ipv6_src, m->key.src);
		copy_address(fib.ipv6_dst, m->key.dst);
	} else {
		fib.ipv4_src = m->key.src[0];
		fib.ipv4_dst = m->key.dst[0];
	}
	switch (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0)) {
	case BPF_FIB_LKUP_RET_SUCCESS:
	case BPF_FIB_LKUP_RET_NO_NEIGH:
	case BPF_FIB_LKUP_RET_FRAG_NEEDED:
	case BPF_FIB_LKUP_RET_UNSUPP_LWT:
		return 1;
	}
	return 0;
}

static __always_inline int is_own(const struct mark *m)
{
	struct host_prefix host;

	prefix_host(&host, m->key.family, m->key.dst);
	return bpf_map_lookup_elem(&own_prefixes, &host) != 0;
}

/* ctx: of either hook; device: by which the packet came. Returns a route of flow.h. */
static __noinline int find_route(void *ctx, __u32 device, const struct mark *m)
{
	struct route_key key = { .family = m->key.family };
	struct route fresh, *route;
	__u32 tick = bpf_ktime_get_coarse_ns() >> ROUTE_TICK_SHIFT;

	copy_address(key.dst, m->key.dst);
	route = bpf_map_lookup_elem(&routes, &key);
	if (route && route->tick == tick) {
		fresh.to = route->to;
	} else {
		fresh.to = is_forwarded(ctx, device, m) ? ROUTE_FORWARD : ROUTE_HERE;
		fresh.tick = tick;
		bpf_map_update_elem(&routes, &key, &fresh, BPF_ANY);
	}
	if (deliver_only && fresh.to == ROUTE_FORWARD && !is_own(m))
		return ROUTE_ELSEWHERE;
	return fresh.to;
}

#endif
