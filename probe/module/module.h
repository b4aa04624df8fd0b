/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What modules keep of a flow: a few words each, which the agent reads each interval. */
#ifndef PILLION_MODULE_H
#define PILLION_MODULE_H

#include <linux/bpf.h>

#include "option.h"

/*
 * Numbers of modules: those with an option of their own in marks have that option's id. The lower
 * 8 bits of blocks are zero.
 */
#define MODULE_BLOCKS 0 /* blocks of Alternate Marking, with their length in ms above: bpf/block.h */
#define MODULE_SEGMENTS 1 /* delays up to a waypoint and from there on */

struct module_key {
	struct flow_key flow;
	__u32 id;
};

/*
 * Key: flow and module. Value: what the module keeps of the flow. Written by modules; the agent
 * reads it, and removes the states of flows that it removes. The loader sets the size.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct module_key);
	__type(value, struct module_state);
} module_states SEC(".maps");

/* Key: 0. Value: an empty state. Never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct module_state);
} blank_module_states SEC(".maps");

/* Packets of which a module kept nothing, for lack of room in module_states. */
volatile __u64 module_states_full;

/* The state of a flow, begun if there is none. Returns 0 if there is no room. */
static __noinline __attribute__((unused)) struct module_state *module_state_of(const struct flow_key *flow, __u32 id)
{
	struct module_key key = { .flow = *flow, .id = id };
	struct module_state *state = bpf_map_lookup_elem(&module_states, &key), *blank;
	__u32 zero = 0;

	if (state)
		return state;
	blank = bpf_map_lookup_elem(&blank_module_states, &zero);
	if (blank)
		bpf_map_update_elem(&module_states, &key, blank, BPF_NOEXIST);
	state = bpf_map_lookup_elem(&module_states, &key);
	if (!state)
		__sync_fetch_and_add(&module_states_full, 1);
	return state;
}

#endif
