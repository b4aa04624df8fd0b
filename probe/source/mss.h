/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * TCP makes room for marks: the MSS that the peer announces in its SYN or SYN-ACK is
 * lowered, before the kernel or a host behind this one reads it, by what a mark adds
 * (RFC 9293, 3.7.1). What this side announces limits the packets that come: their source
 * does the same.
 */
#ifndef PILLION_SOURCE_MSS_H
#define PILLION_SOURCE_MSS_H

#include "../bpf/tcp.h"
#include "encoding.h"
#include "path.h"

#define TCP_OPTION_MSS 2

/* key: of the packets that the announced MSS limits */
static __always_inline __u32 mss_limit(const struct subject *s, __u32 announced)
{
	__u32 headers = s->l4 - link_length + sizeof(struct tcphdr);
	__u32 least = s->key.family == 6 ? PATH_LEAST_6 : PATH_LEAST_4, path = path_limit(&s->key);
	__u32 class = packet_class(s);
	__u32 add = mark_length(encoding_of(class), modules);
	__u32 segmented = mark_length(encoding_of(class | WIRE_INDEX_GSO), modules);
	__u32 limit;

	if (add < segmented)
		add = segmented;
	if (path <= headers + add)
		return 0;
	limit = headers + announced;
	if (limit < least) /* every link takes that */
		limit = least;
	if (limit > path)
		limit = path;
	return limit - headers - add;
}

struct mss_walk {
	__u8 options[TCP_OPTIONS_MAX + 4];
	__u32 length;
	__u32 at;
	__u32 found; /* offset of the MSS value among the options, or 0 */
};

/* One option; a callback, which the verifier need not follow 40 times. */
static long mss_step(__u32 index, struct mss_walk *walk)
{
	__u32 at = walk->at, step;
	__u8 kind, length;

	if (at > TCP_OPTIONS_MAX - 4 || at + 4 > walk->length)
		return 1;
	kind = walk->options[at];
	length = walk->options[at + 1];
	if (kind == TCP_OPTION_MSS && length == 4)
		walk->found = at + 2;
	if (kind == TCP_OPTION_MSS)
		return 1;
	step = tcp_option_step(kind, length);
	walk->at = at + step;
	return !step;
}

__noinline int mss_clamp(struct __sk_buff *skb, struct subject *s, struct tally *tally)
{
	struct mss_walk walk = {};
	__u32 length, at, limit;
	__be16 from, to;

	if (!s || !tally)
		return 0;
	length = bounded_length(s->l4_length - sizeof(struct tcphdr), TCP_OPTIONS_MAX);
	if (!length || bpf_skb_load_bytes(skb, s->l4 + sizeof(struct tcphdr), walk.options, length))
		return 0;
	walk.length = length;
	bpf_loop(TCP_OPTIONS_MAX, mss_step, &walk, 0);
	at = walk.found;
	if (at < 2 || at > TCP_OPTIONS_MAX - 2)
		return 0;
	from = walk.options[at] | walk.options[at + 1] << 8;
	limit = mss_limit(s, bpf_ntohs(from));
	if (!limit || bpf_ntohs(from) <= limit)
		return 0;
	to = bpf_htons(limit);
	/* The value may lie on an odd offset, where its bytes swap places in the sum. */
	if (at & 1) {
		bpf_l4_csum_replace(skb, s->l4 + TCP_CHECK_OFFSET, __builtin_bswap16(from),
				    __builtin_bswap16(to), 2);
	} else {
		bpf_l4_csum_replace(skb, s->l4 + TCP_CHECK_OFFSET, from, to, 2);
	}
	bpf_skb_store_bytes(skb, s->l4 + sizeof(struct tcphdr) + at, &to, sizeof(to), 0);
	tally->mss_clamped++;
	return 0;
}

#endif
