/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Destinations whose path drops segments with the tcp-option encoding. A connection
 * finds that out by a retransmission timeout (connection.h); after BLACKHOLE_STRIKES of
 * them in a row new connections to the same destination are not marked for a while, as
 * the kernel does with TCP Fast Open and MPTCP. Evidence is what got through without a
 * mark after segments with one did not, so that a destination that is down is none, and a
 * marked segment that is acknowledged clears the record.
 */
#ifndef PILLION_SOURCE_BLACKHOLE_H
#define PILLION_SOURCE_BLACKHOLE_H

#include "rule.h"

#define BLACKHOLE_STRIKES 3
#define BLACKHOLE_NS (10 * 60 * 1000000000ull)

struct blackhole {
	__u64 since;   /* monotonic ns of the last strike */
	__u64 strikes; /* up to BLACKHOLE_STRIKES */
};

/* Key: destination address. Value: the connections in a row that lost their marks. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct rule_target);
	__type(value, struct blackhole);
} blackholes SEC(".maps");

static __always_inline struct rule_target blackhole_key(const struct flow_key *key)
{
	struct rule_target target = { .family = key->family };

	copy_address(target.address, key->dst);
	return target;
}

/* After the time one connection may try, and the next strike is enough. */
static __always_inline int blackhole_known(const struct flow_key *key)
{
	struct rule_target target = blackhole_key(key);
	struct blackhole *hole = bpf_map_lookup_elem(&blackholes, &target);

	return hole && hole->strikes >= BLACKHOLE_STRIKES && bpf_ktime_get_ns() - hole->since < BLACKHOLE_NS;
}

/* A connection knows whether what it marked arrives. */
static __always_inline void blackhole_learn(const struct flow_key *key, int dropped)
{
	struct rule_target target = blackhole_key(key);
	struct blackhole *hole = bpf_map_lookup_elem(&blackholes, &target);
	struct blackhole fresh = { .since = bpf_ktime_get_ns(), .strikes = 1 };

	if (!dropped) {
		if (hole)
			bpf_map_delete_elem(&blackholes, &target);
		return;
	}
	if (!hole) {
		bpf_map_update_elem(&blackholes, &target, &fresh, BPF_ANY);
		return;
	}
	hole->since = fresh.since;
	if (hole->strikes < BLACKHOLE_STRIKES)
		__sync_fetch_and_add(&hole->strikes, 1);
}

#endif
