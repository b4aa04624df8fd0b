/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Path probes (struct wire_probe): whether their mark was read is noted in the
 * probe, for the source that sent it. They are no part of any flow.
 */
#ifndef PILLION_DESTINATION_PATH_PROBE_H
#define PILLION_DESTINATION_PATH_PROBE_H

#include "account.h"

/* What comes before the pair of words that changes, and the pair. */
struct probe_head {
	__be32 magic;
	__be16 read;
	__be16 balance;
};

/* Where the data of the probe begins in its packet, once the mark is taken out. */
static __always_inline __u32 probe_data(const struct mark *m)
{
	return (m->key.family == 6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) + sizeof(struct udphdr);
}

/* The sum of the two words stays the same, and with it every checksum. */
static __always_inline int probe_note(struct probe_head *head, int verdict)
{
	__u16 read = (verdict & ROUTE_MASK) == VERDICT_MARKED ? WIRE_PROBE_READ : WIRE_PROBE_MALFORMED;

	if (head->magic != bpf_htonl(WIRE_PROBE_MAGIC) || head->read != bpf_htons(WIRE_PROBE_UNREAD) ||
	    head->balance != (__be16)~bpf_htons(WIRE_PROBE_UNREAD))
		return -1;
	head->read = bpf_htons(read);
	head->balance = ~bpf_htons(read);
	return 0;
}

/* Would marks without a time be rejected, now or a few seconds later? Their packets would be lost. */
static __always_inline int clocks_differ(const struct mark *m, __u64 now_ns)
{
	__s64 delay = delay_of(m, now_ns);

	return delay >= TAG_NEAR_NS || delay <= -TAG_NEAR_NS;
}

/* Instead of account_packet: to the destination a probe is a packet without a mark. */
static __noinline int probe_verdict(struct mark *m, struct tally *tally, int verdict)
{
	struct accepted *accepted = finding_of_cpu();
	__u64 now_ns = clock_utc_ns();

	if (!m || !tally || !accepted)
		return VERDICT_PEER;
	tally->verdicts[VERDICT_UNMARKED]++;
	if (m->route == ROUTE_ELSEWHERE)
		return VERDICT_TRANSIT;
	if (verdict != VERDICT_MARKED)
		return is_peer(m) ? verdict : VERDICT_PEER;
	verdict = peer_accept(m, now_ns, accepted);
	if (verdict == VERDICT_FORGED || (verdict == VERDICT_MARKED && accepted->keyed && clocks_differ(m, now_ns)))
		return VERDICT_MALFORMED;
	return verdict == VERDICT_MARKED ? VERDICT_MARKED | m->route << ROUTE_SHIFT : verdict;
}

/* Only the marks of peers are read. */
static __always_inline int is_noted(int verdict)
{
	verdict &= ROUTE_MASK;
	return verdict == VERDICT_MARKED || verdict == VERDICT_MALFORMED;
}

static __always_inline void probe_confirm(struct __sk_buff *skb, const struct mark *m, int verdict)
{
	__u32 at = link_length + probe_data(m);
	struct probe_head head;

	if (!is_noted(verdict) || bpf_skb_load_bytes(skb, at, &head, sizeof(head)) ||
	    probe_note(&head, verdict))
		return;
	bpf_skb_store_bytes(skb, at, &head, sizeof(head), 0);
}

/* l3: where IP begins in the frame */
static __always_inline void probe_confirm_frame(struct xdp_md *ctx, const struct mark *m, __u32 l3, int verdict)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct probe_head *head = data + (l3 & 0x1f) + probe_data(m);

	if (is_noted(verdict) && (void *)(head + 1) <= end)
		probe_note(head, verdict);
}

#endif
