// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//go:build ignore

/* Holds packets, or a processor, back for a known time, and writes down when. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define SPANS_MAX 65536
#define SPINS_MAX (1 << 22)

struct span {
	__u64 begin, end; /* CLOCK_MONOTONIC, ns */
};

/* Key: order; value: when a packet or a processor was held. Written by the programs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SPANS_MAX);
	__type(key, __u32);
	__type(value, struct span);
} spans SEC(".maps");

/* Set by the loader. */
const volatile __u64 hold_ns;
const volatile __u32 length_min; /* of the packets that are held */

__u32 held;

struct spin {
	__u64 until;
};

static long spin_once(__u32 i, struct spin *s)
{
	return bpf_ktime_get_ns() >= s->until;
}

static __always_inline void hold(__u64 ns)
{
	__u64 begin = bpf_ktime_get_ns();
	struct spin s = {.until = begin + ns};
	struct span *span;
	__u32 order;

	if (ns)
		bpf_loop(SPINS_MAX, spin_once, &s, 0);
	order = __sync_fetch_and_add(&held, 1);
	span = bpf_map_lookup_elem(&spans, &order);
	if (!span)
		return;
	span->begin = begin;
	span->end = bpf_ktime_get_ns();
}

struct sk_buff {
	unsigned int len;
} __attribute__((preserve_access_index));

struct bpf_nf_ctx {
	const void *state;
	struct sk_buff *skb;
} __attribute__((preserve_access_index));

/* Packets differ: each eighth of the time up to the whole of it. */
SEC("netfilter")
int hold_packet(struct bpf_nf_ctx *ctx)
{
	if (ctx->skb->len >= length_min)
		hold(hold_ns * (held % 8 + 1) / 8);
	return 1; /* NF_ACCEPT */
}

/* Run by hand, not on packets: softirqs are off meanwhile, so none of them runs. */
SEC("tc")
int hold_processor(struct __sk_buff *skb)
{
	hold(hold_ns);
	return 0;
}

const struct span *span_type __attribute__((unused));

char _license[] SEC("license") = "GPL";
