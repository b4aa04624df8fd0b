/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What the general path knows of the packet under consideration, which would fill its stack. */
#ifndef PILLION_SOURCE_WORK_H
#define PILLION_SOURCE_WORK_H

#include "room.h"
#include "subject.h"

struct work {
	struct subject subject;
	struct flow_key flow __attribute__((aligned(8))); /* the aggregate that it is in */
	struct room room;
	__u8 mark[WIRE_MARK_MAX + 8] __attribute__((aligned(8))); /* an extension header, and what clearing its end may touch: see options.h */
	struct module_packet packet; /* what modules are told */
	__u8 options[64]; /* of modules, and padding behind them: see module.h */
	__u32 fast; /* why the fast path left the packet to the general one: OPTION_PASS ... */
	__u8 padding; /* bytes with which w->mark ends, if it is a header */
	__u32 watch; /* bytes: a marked segment of this size is to be watched, if not zero: see retransmit.h */
};

/*
 * Key: 0. Value: the packet that a CPU works on. One is enough: egress runs with bottom
 * halves off, and the program of an inner device has returned before the program of an outer
 * device begins. Written here.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct work);
} works SEC(".maps");

static __always_inline struct work *work_of_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&works, &zero);
}

/* Of the packet before, all but why the fast path left this one. */
static __always_inline void work_clear(struct work *w)
{
	__builtin_memset(&w->subject, 0, sizeof(w->subject));
	__builtin_memset(&w->room, 0, sizeof(w->room));
	w->watch = 0;
	w->padding = 0;
}

#endif
