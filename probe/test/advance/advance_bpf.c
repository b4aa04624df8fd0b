// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//go:build ignore

/*
 * Makes each run of BPF_PROG_TEST_RUN meet the next packet of a flow: writes the next
 * number, and a time if one is due, into a UDP option, and calls the program that is
 * measured.
 */
#include "../../bpf/clock.h"
#include "../../bpf/packet.h"

#define DELAY_NS 500000

/* Key: 0. Value: the program that is measured. Written by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} measured SEC(".maps");

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
	bpf_tail_call(skb, &measured, 0);
	return TC_ACT_SHOT;
}

char _license[] SEC("license") = "GPL";
