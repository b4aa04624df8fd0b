/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Whether the transport checksum of a packet is still to be computed (CHECKSUM_PARTIAL). */
#ifndef PILLION_SUMMED_H
#define PILLION_SUMMED_H

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "packet.h"

#define SUMMED_PARTIAL 3

/* The fields that are read of the kernel's sk_buff; the loader relocates them. */
struct sk_buff {
	__u8 ip_summed : 2;
	__u8 encapsulation : 1;
} __attribute__((preserve_access_index));

extern void *bpf_cast_to_kern_ctx(void *context) __ksym __weak; /* 6.2 */

const volatile __u32 summed_by_field = 1; /* a test switches it off */

/*
 * Without access to ip_summed: update the checksum as for a changed word of the pseudo-header,
 * see whether the kernel treats it as still to be computed, and restore it.
 */
static __noinline int summed_by_trial(struct __sk_buff *skb, __u32 at)
{
	const __u64 flags = BPF_F_PSEUDO_HDR | 2;
	__u16 before, after, added;

	if (bpf_skb_load_bytes(skb, at, &before, sizeof(before)))
		return -1;
	if (!before)
		return 0;
	if (bpf_l4_csum_replace(skb, at, 0, bpf_htons(1), flags) ||
	    bpf_skb_load_bytes(skb, at, &after, sizeof(after)) ||
	    bpf_l4_csum_replace(skb, at, bpf_htons(1), 0, flags) ||
	    bpf_skb_store_bytes(skb, at, &before, sizeof(before), 0))
		return -1;
	added = ~fold_checksum(before + bpf_htons(1));
	return after == added;
}

/* Whether ip_summed says that the checksum is still to be computed; 0 also where the field cannot be read. */
static __always_inline int summed_partial_field(struct __sk_buff *skb)
{
	return summed_by_field && bpf_cast_to_kern_ctx &&
	       BPF_CORE_READ_BITFIELD((struct sk_buff *)bpf_cast_to_kern_ctx(skb), ip_summed) == SUMMED_PARTIAL;
}

/* at: offset of the checksum. Returns 1 if it is still to be computed, 0 if not, negative if an access fails. */
static __always_inline int summed_partial(struct __sk_buff *skb, __u32 at)
{
	if (summed_by_field && bpf_cast_to_kern_ctx)
		return summed_partial_field(skb);
	return summed_by_trial(skb, at);
}

/* Whether the packet is inside a tunnel of this host; 0 also before Linux 6.2, which does not say. */
static __always_inline int is_encapsulated(struct __sk_buff *skb)
{
	if (!bpf_cast_to_kern_ctx)
		return 0;
	return BPF_CORE_READ_BITFIELD((struct sk_buff *)bpf_cast_to_kern_ctx(skb), encapsulation);
}

#endif
