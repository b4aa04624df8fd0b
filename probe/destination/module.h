/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Modules at the destination: the data of their options is kept beside the mark, and enters
 * the states of the flow once the mark is accepted, under the lock of the flow. States are
 * collected and removed with the flow.
 */
#ifndef PILLION_DESTINATION_MODULE_H
#define PILLION_DESTINATION_MODULE_H

#include "../module/module.h"
#include "mark.h"

#define MODULE_TAKE(name)                                                                        \
	case name##_id:                                                                          \
		if (bytes != name##_bytes || (m->carried & MODULE_BIT(name)))                    \
			return -1;                                                               \
		for (__u32 i = 0; i < name##_bytes; i++)                                         \
			m->module_data[MODULE_##name][i] = data[i];                              \
		m->carried |= MODULE_BIT(name);                                                  \
		break;

/* An option of a module. Returns 0, also if the module is unknown, unless it is malformed. */
static __always_inline int module_take(struct mark *m, __u8 id, __u8 bytes, const __u8 *data)
{
	switch (id) {
		MODULES(MODULE_TAKE)
	}
	return 0;
}

/* Key: 0. Value: what modules are told of a packet. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct module_packet);
} module_packets SEC(".maps");

#define MODULE_ENTER(name)                                                                       \
	if (m->carried & MODULE_BIT(name)) {                                                     \
		struct module_state *state = module_state_of(key, name##_id);                    \
                                                                                                 \
		if (state) {                                                                     \
			name##_read(p, m->module_data[MODULE_##name], state);                    \
			state->last_ns = now_ns;                                                 \
		}                                                                                \
	}

/* The mark is accepted. key: of the flow, which is locked */
static __noinline void modules_enter(const struct mark *m, const struct flow_key *key, __u64 now_ns, __u32 packets)
{
	__u32 zero = 0;
	struct module_packet *p = bpf_map_lookup_elem(&module_packets, &zero);

	if (!p)
		return;
	p->key = m->key;
	p->now_ns = now_ns;
	p->length = m->length;
	p->packets = packets;
	p->hop_limit = m->hop_limit;
	p->traffic_class = m->traffic_class;
	MODULES(MODULE_ENTER)
}

struct collected_state {
	__u32 flow; /* position in collected_flows */
	__u32 id;
	struct module_state state;
};

#define COLLECT_STATES 512 /* in one run */

/* Key: position. Value: the states of a run. Written by modules_collect. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COLLECT_STATES);
	__type(key, __u32);
	__type(value, struct collected_state);
} collected_states SEC(".maps");

volatile __u32 collected_modules; /* entries of collected_states */

/* Moves a state, if there is any news in it, to those that were collected. */
static __noinline int module_collect(const struct flow_key *flow, __u32 id, __u32 position)
{
	struct module_key key = { .flow = *flow, .id = id };
	struct module_state *state = bpf_map_lookup_elem(&module_states, &key);
	__u32 at = collected_modules;
	struct collected_state *to = bpf_map_lookup_elem(&collected_states, &at);

	if (!state || !to || !state->last_ns)
		return 0;
	to->flow = position;
	to->id = id;
	to->state = *state;
	collected_modules = at + 1;
	__builtin_memset(state, 0, sizeof(*state));
	return 0;
}

#define MODULE_COLLECT(name) module_collect(flow, name##_id, position);

/* position: of the flow, which is locked; segmented: as in struct flow */
static __always_inline void modules_collect(const struct flow_key *flow, __u32 position, int segmented)
{
	if (segmented)
		module_collect(flow, MODULE_SEGMENTS, position);
	MODULES(MODULE_COLLECT)
}

/* Is there no room for the states of one more flow? */
static __always_inline int modules_are_full(void)
{
	return collected_modules + MODULE_COUNT + 1 > COLLECT_STATES; /* 1: segments */
}

static __noinline int module_remove(const struct flow_key *flow, __u32 id)
{
	struct module_key key = { .flow = *flow, .id = id };

	bpf_map_delete_elem(&module_states, &key);
	return 0;
}

#define MODULE_REMOVE(name) module_remove(flow, name##_id);

/* The flow ends. */
static __always_inline void modules_remove(const struct flow_key *flow, int segmented)
{
	if (segmented)
		module_remove(flow, MODULE_SEGMENTS);
	MODULES(MODULE_REMOVE)
}

#endif
