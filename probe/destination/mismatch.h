/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Sources that number other flows than this destination tells apart. */
#ifndef PILLION_DESTINATION_MISMATCH_H
#define PILLION_DESTINATION_MISMATCH_H

#include "mark.h"

#define MISMATCHES_MAX 256

struct marker {
	__be32 address[4]; /* as in a flow_key; source of the outermost header */
	__u32 family;
	__u32 ingress; /* number of the agent in the mark, or 0 */
};

struct mismatch {
	__u64 seen_ns; /* UTC */
	__u32 fields;  /* of the flows that its marks number */
	__u32 wanted;  /* those that tell flows apart here */
};

/* Key: who writes the marks. Value: the last of its marks that counts in no flow for that reason. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MISMATCHES_MAX);
	__type(key, struct marker);
	__type(value, struct mismatch);
} mismatches SEC(".maps");

/* A global function, for the sake of the stack. */
__noinline int mismatch_note(const struct mark *m, __u32 wanted, __u64 now_ns)
{
	struct mismatch value = { .seen_ns = now_ns, .wanted = wanted };
	struct marker key = {};

	if (!m)
		return 0;
	value.fields = mark_fields(m);
	__builtin_memcpy(key.address, m->peer, sizeof(key.address));
	key.family = m->key.family;
	key.ingress = m->ingress;
	return bpf_map_update_elem(&mismatches, &key, &value, BPF_ANY);
}

#endif
