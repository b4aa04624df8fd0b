// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//go:build ignore

/*
 * Programs in front of one that is measured by BPF_PROG_TEST_RUN, of which every run would
 * meet the same packet, and as the program left it.
 */
#include "../../bpf/clock.h"
#include "../../bpf/packet.h"

#define DELAY_NS 500000

#define MEASURED 0 /* the program that is measured */
#define BETWEEN 1  /* one that runs before it, if any */

/* Key: as above. Value: program. Written by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} next SEC(".maps");

/* Returns only if there is no next program. */
static __always_inline int proceed(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &next, BETWEEN);
	bpf_tail_call(skb, &next, MEASURED);
	return TC_ACT_SHOT;
}

/* Set by the loader. */
const volatile __u32 option_at;   /* offset in the frame */
const volatile __u32 stamp_every; /* 0: never */
const volatile __u32 spread_mask; /* of the delays' variation, ns */

__u32 number;

static __always_inline __be32 time_of(__u32 now)
{
	__u64 sent_ns;

	if (!stamp_every || now % stamp_every)
		return 0;
	sent_ns = clock_utc_ns() - DELAY_NS - (bpf_get_prandom_u32() & spread_mask);
	return bpf_htonl((__u32)(sent_ns >> WIRE_TIME_SHIFT));
}

/* Makes each run meet the next packet of a flow, with a number and, if one is due, a time. */
SEC("tc")
int advance(struct __sk_buff *skb)
{
	struct wire_udp_option *option = packet_start(skb) + (option_at & 0x7ff);
	__u16 *words = (void *)option;
	__u32 sum = bpf_htons(WIRE_UDP_OPTION);

	if ((void *)(option + 1) > packet_end(skb))
		return TC_ACT_SHOT;
	option->mark.number = bpf_htonl((number & WIRE_SEQUENCE_MASK) | WIRE_SINGLE);
	option->mark.time = time_of(number);
	number++;
	option->check = 0;
#pragma unroll
	for (int i = 1; i < WIRE_UDP_OPTION / 2; i++)
		sum += words[i];
	option->check = fold_checksum(sum);
	skb->cb[0] = skb->cb[1] = 0;
	return proceed(skb);
}

/* Set by the loader: the packet before it is marked. */
const volatile __u32 whole;	/* length of its frame */
const volatile __u16 ip_length; /* the length field of its IP header, as on the wire */
const volatile __u16 ip_check;	/* of IPv4 */

/* Makes each run of BPF_PROG_TEST_RUN meet the packet as it was before the source marked it. */
SEC("tc")
int again(struct __sk_buff *skb)
{
	void *l3;

	if (skb->len != whole && bpf_skb_change_tail(skb, whole, 0))
		return TC_ACT_SHOT;
	l3 = packet_start(skb) + ETHERNET_LENGTH;
	if (l3 + sizeof(struct ipv6hdr) > packet_end(skb))
		return TC_ACT_SHOT;
	if (skb->protocol == PROTOCOL_IPV6) {
		((struct ipv6hdr *)l3)->payload_len = ip_length;
	} else {
		((struct iphdr *)l3)->tot_len = ip_length;
		((struct iphdr *)l3)->check = ip_check;
	}
	return proceed(skb);
}

#define CACHE (48 << 10) /* bytes, of a first-level cache and more */
#define CACHE_LINE 64

/* Key: 0. Value: memory that is only read. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8[CACHE]);
} memory SEC(".maps");

/*
 * Leaves nothing of what runs next in the first-level caches, as the network stack does
 * between two packets.
 */
SEC("tc")
int evict(struct __sk_buff *skb)
{
	__u32 zero = 0;
	volatile __u8 *bytes = bpf_map_lookup_elem(&memory, &zero);

	if (!bytes)
		return TC_ACT_SHOT;
	for (__u32 at = 0; at < CACHE; at += CACHE_LINE)
		(void)bytes[at];
	asm volatile("r0 = 0\n"
		     ".rept 8192\n"
		     "r0 += 0x11111\n"
		     ".endr\n" ::: "r0");
	bpf_tail_call(skb, &next, MEASURED);
	return TC_ACT_SHOT;
}

/* What the kernel takes for a longer packet. */
SEC("tc")
int lengthen(struct __sk_buff *skb)
{
	return bpf_skb_change_tail(skb, skb->len + WIRE_UDP_OPTION, 0) ? TC_ACT_SHOT : AGAIN;
}

char _license[] SEC("license") = "GPL";
