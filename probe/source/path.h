/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The path MTU, where it is below the MTU of the device. A router reports it in an
 * ICMP error about one of our marked packets (RFC 1191, RFC 8201). The stack
 * does not recognize the packet that it sent when a mark hides it, and learns
 * nothing new when the packet fitted before it was marked. So the program learns
 * path MTUs itself (quote.h), and does not mark packets that would exceed them.
 * Where no router reports it, the retransmissions of TCP do (retransmit.h): then
 * large packets are left alone for some time, longer each time that it did not help.
 */
#ifndef PILLION_SOURCE_PATH_H
#define PILLION_SOURCE_PATH_H

#include "subject.h"

/* No path MTU is believed to be less. */
#define PATH_LEAST_4 576  /* what every host can receive (RFC 791) */
#define PATH_LEAST_6 1280 /* the least of any link (RFC 8200) */

volatile __u32 path_mtu; /* largest IP packet for this device, bytes; the agent follows the device */
volatile __u32 paths_state PER_PACKET; /* counted up when a path MTU is learned */
volatile __u32 paths_known; /* not zero: look paths up */

struct path {
	__be32 dst[4];
	__u32 family;
};

struct path_limit {
	__u32 mtu;     /* bytes; 0: none was reported */
	__u32 held;    /* bytes; 0, or what limits packets for some time */
	__u64 learned; /* kernel ticks; the agent removes old limits */
	__u64 until;   /* coarse monotonic ns: held counts before */
	__u32 strikes; /* how often it had to be held since packets were seen to arrive */
	__u32 zero;
};

/* Key: destination. Value: its path MTU. Written here, and by the agent, which tests sizes. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct path);
	__type(value, struct path_limit);
} paths SEC(".maps");

/* Has flows look their limit up again. */
static __always_inline void paths_changed(void)
{
	paths_known = 1;
	__sync_fetch_and_add(&paths_state, 1);
}

__noinline int path_learn(const struct path *path, __u32 mtu)
{
	struct path_limit limit = { .mtu = mtu, .learned = bpf_jiffies64() };
	struct path key;

	if (!path || mtu >= path_mtu)
		return 0;
	key = *path;
	bpf_map_update_elem(&paths, &key, &limit, BPF_ANY);
	paths_changed();
	return 0;
}

static __always_inline struct path path_to(const struct flow_key *key)
{
	struct path path = { .family = key->family };

	copy_address(path.dst, key->dst);
	return path;
}

/* What limits packets to the destination of a flow, or NULL. */
static __always_inline struct path_limit *path_limit_of(const struct flow_key *key)
{
	struct path path = path_to(key);

	return bpf_map_lookup_elem(&paths, &path);
}

__noinline __u32 path_look_up(const struct flow_key *key)
{
	struct path_limit *limit;
	__u32 mtu = path_mtu;

	if (!key)
		return 0;
	limit = path_limit_of(key);
	if (!limit)
		return mtu;
	if (limit->mtu && limit->mtu < mtu)
		mtu = limit->mtu;
	if (limit->held && limit->held < mtu && bpf_ktime_get_coarse_ns() < limit->until)
		mtu = limit->held;
	return mtu;
}

#define HOLD_NS 2000000000ull /* for the first time; twice as long each time after */
#define HOLD_DOUBLINGS 8      /* to 512 s: less than the agent keeps a limit */

/* Larger packets to this destination are not marked for some time. */
__noinline int path_hold(const struct flow_key *key, __u32 size)
{
	struct path_limit *limit, fresh = { .held = size, .strikes = 1 };
	__u64 now = bpf_ktime_get_coarse_ns();
	struct path path;

	if (!key)
		return 0;
	limit = path_limit_of(key);
	if (!limit) {
		path = path_to(key);
		fresh.until = now + HOLD_NS;
		fresh.learned = bpf_jiffies64();
		bpf_map_update_elem(&paths, &path, &fresh, BPF_ANY);
	} else if (limit->held && now < limit->until) { /* another flow just found it */
		if (size < limit->held)
			limit->held = size;
	} else {
		limit->until = now + (HOLD_NS << (limit->strikes & 15));
		limit->held = size;
		if (limit->strikes < HOLD_DOUBLINGS)
			limit->strikes++;
		if (!limit->mtu)
			limit->learned = bpf_jiffies64();
	}
	paths_changed();
	return 0;
}

/* A packet was too large to be marked. Tries again once the time is over. */
__noinline int path_resume(const struct flow_key *key)
{
	struct path_limit *limit;

	if (!key)
		return 0;
	limit = path_limit_of(key);
	if (!limit || !limit->held || bpf_ktime_get_coarse_ns() < limit->until)
		return 0;
	limit->held = 0;
	paths_changed();
	return 0;
}

/* Large marked packets do arrive. */
__noinline int path_proven(const struct flow_key *key)
{
	struct path_limit *limit;

	if (!key)
		return 0;
	limit = path_limit_of(key);
	if (limit)
		limit->strikes = 0;
	return 0;
}

/*
 * Whether a packet of this many bytes may be sent. The device is asked too: when its MTU
 * is lowered, packets are sent before the agent has set the new one.
 */
static __always_inline int path_fits(struct __sk_buff *skb, __u32 size, __u32 limit)
{
	__u32 mtu = size;

	if (size > limit)
		return 0;
	return size <= PATH_LEAST_4 || bpf_check_mtu(skb, 0, &mtu, 0, 0) < 0 || size <= mtu;
}

/* Largest IP packet for this destination. */
static __always_inline __u32 path_limit(const struct flow_key *key)
{
	return paths_known ? path_look_up(key) : path_mtu;
}

#endif
