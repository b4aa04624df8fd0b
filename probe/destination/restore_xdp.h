/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Takes the mark out of a frame that has no socket buffer yet. */
#ifndef PILLION_DESTINATION_RESTORE_XDP_H
#define PILLION_DESTINATION_RESTORE_XDP_H

#include "restore_tc.h"

/* Ethernet with two tags, an IP header, a Hop-by-Hop header. */
#define FRAME_HEAD_MAX (ETHERNET_LENGTH + 2 * VLAN_LENGTH + 40 + HOP_BY_HOP_MAX)

struct frame_head {
	__u8 bytes[128];
};

_Static_assert(FRAME_HEAD_MAX <= sizeof(struct frame_head), "frame head");

static __always_inline void frame_edit_ipv6(const struct mark *m, __u32 l3, struct frame_head *head)
{
	struct ipv6hdr *ip = (void *)head->bytes + l3;

	/* Or it is computed again as an offset plus the frame, which verifiers take for the caller's frame. */
	asm volatile("" : "+r"(ip));
	ip->payload_len = bpf_htons(m->length - sizeof(*ip));
	if (m->hop_by_hop)
		*(__u8 *)(ip + 1) = m->next;
	else
		ip->nexthdr = m->next;
}

/* The inner header takes the place of the outer one. */
static __always_inline int frame_decapsulate(struct xdp_md *ctx, const struct mark *m, __u32 l3,
					     struct frame_head *head)
{
	struct iphdr *ip = (void *)head->bytes + l3;
	__u32 inner = m->at > m->outer ? m->outer : m->outer + m->size;
	__u8 tos = ip->tos, ttl = ip->ttl;

	if (bpf_xdp_load_bytes(ctx, l3 + inner, ip, sizeof(*ip)))
		return -1;
	ipv4_follow(ip, tos, ttl);
	return 0;
}

/* What stays in front, as it will be. Returns its length, or 0. */
static __always_inline __u32 frame_restored(struct xdp_md *ctx, const struct mark *m, __u32 l3,
					    struct frame_head *head)
{
	__u32 keep = bounded_length(l3 + (m->outer ? sizeof(struct iphdr) : m->at), FRAME_HEAD_MAX);

	if (!keep || bpf_xdp_load_bytes(ctx, 0, head, keep))
		return 0;
	l3 &= 0x1f;
	if (m->key.family == 6) {
		frame_edit_ipv6(m, l3, head);
		return keep;
	}
	if (m->outer && frame_decapsulate(ctx, m, l3, head))
		return 0;
	if (m->at > m->outer) /* a shim behind this header */
		ipv4_restore((void *)head->bytes + l3, m->next, m->length);
	return keep;
}

static __noinline int restore_frame(struct xdp_md *ctx, const struct mark *m, __u32 l3)
{
	struct frame_head head;
	__u32 keep = frame_restored(ctx, m, l3, &head);

	if (!keep || bpf_xdp_adjust_head(ctx, m->size + m->outer))
		return -1;
	keep = bounded_length(keep, FRAME_HEAD_MAX);
	return !keep || bpf_xdp_store_bytes(ctx, 0, &head, keep);
}

static __always_inline void amend_frame(struct xdp_md *ctx, const struct mark *m, __u32 l3, __u64 now_ns)
{
	struct wire_timestamp now = clock_to_wire(now_ns);

	if (can_amend(m))
		bpf_xdp_store_bytes(ctx,
				    l3 + delay_offset(m) +
					    __builtin_offsetof(struct wire_delay, received),
				    &now, sizeof(now));
}

#endif
