/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Finds our option in a TCP header, as a mark or as room for one. */
#ifndef PILLION_TCP_H
#define PILLION_TCP_H

#include "packet.h"

#include "../../wire/wire.h"

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_CHECK_OFFSET 16
#define TCP_OPTION_END 0
#define TCP_OPTION_NOP 1
#define TCP_OPTIONS_MAX 40
#define TCP_HEADER_MASK 0x3f /* of an offset in the header */
#define TCP_TIMESTAMPS bpf_htonl(0x0101080a) /* as every stack begins: NOP NOP timestamps */
#define TCP_TIMESTAMPS_LENGTH 12

/* How the two experiment identifiers differ in the first word of an option. */
#define EXID_DIFFERENCE bpf_htonl(WIRE_EXID ^ WIRE_EXID_SPARSE)

/* The word without the fields of an aggregate. */
#define EXID_FIELDS bpf_htonl(WIRE_AGGREGATE_FIELDS)

static __always_inline int tcp_is_ours(const struct wire_experiment *o, __u32 length)
{
	const __be32 *head = (const void *)o; /* one comparison instead of three */

	return (*head & ~EXID_DIFFERENCE) == bpf_htonl((__u32)WIRE_TCP_OPTION_KIND << 24 | length << 16 | WIRE_EXID) ||
	       *head == bpf_htonl((__u32)WIRE_TCP_ROOM_KIND << 24 | length << 16 | WIRE_EXID) ||
	       (*head & ~EXID_FIELDS) == bpf_htonl((__u32)WIRE_TCP_OPTION_KIND << 24 | length << 16 | WIRE_EXID_AGGREGATE);
}

/* Bytes from an option of this kind and length field to the next; 0: there is none. */
static __always_inline __u32 tcp_option_step(__u8 kind, __u8 length)
{
	if (kind == TCP_OPTION_END)
		return 0;
	if (kind == TCP_OPTION_NOP)
		return 1;
	return length < 2 ? 0 : length;
}

struct tcp_options {
	__u8 bytes[TCP_OPTIONS_MAX];
	__u32 last; /* offset of the last option, if it is ours */
};

struct tcp_walk {
	const struct tcp_options *options;
	__u32 at;
	__u32 found;
};

/* One option; a callback, which the verifier need not follow 40 times. */
static long tcp_walk_step(__u32 index, struct tcp_walk *walk)
{
	__u32 at = walk->at, step;

	if (at >= walk->options->last || at > TCP_OPTIONS_MAX - 2) {
		walk->found = at == walk->options->last;
		return 1;
	}
	step = tcp_option_step(walk->options->bytes[at], walk->options->bytes[at + 1]);
	walk->at = at + step;
	return !step;
}

/* Do the options lead to the last one? What looks like it may lie inside another. */
__noinline int tcp_leads(const struct tcp_options *options)
{
	struct tcp_walk walk = { .options = options };

	if (!options)
		return 0;
	bpf_loop(TCP_OPTIONS_MAX, tcp_walk_step, &walk, 0);
	return walk.found;
}

/* Does the header end in an option of ours with this length? Returns its offset, or 0. */
static __always_inline __u32 tcp_last(const struct tcphdr *tcp, const void *end, __u32 length)
{
	__u32 at = tcp->doff * 4;

	if (at < sizeof(*tcp) + length)
		return 0;
	at -= length;
	return (const void *)tcp + at + length <= end && tcp_is_ours((const void *)tcp + at, length) ? at : 0;
}

/* Do the options lead to this offset? Behind nothing but timestamps, as nearly always, it is known at once. */
static __always_inline int tcp_is_led_to(const __be32 *words, struct tcp_options *options, const void *end, __u32 at)
{
	const __u32 plain = sizeof(struct tcphdr) + TCP_TIMESTAMPS_LENGTH;

	if (at == sizeof(struct tcphdr) || (at == plain && *words == TCP_TIMESTAMPS))
		return 1;
	options->last = at - sizeof(struct tcphdr);
#pragma unroll
	for (int i = 0; i < (TCP_OPTIONS_MAX - WIRE_TCP_OPTION) / 4; i++) {
		if ((const void *)(words + i + 1) > end)
			break;
		((__be32 *)options->bytes)[i] = words[i];
	}
	return tcp_leads(options);
}

/* The offset in the TCP header of its last option if it is ours, with a tag or without, else 0. */
static __always_inline __u32 tcp_find(const struct tcphdr *tcp, const void *end)
{
	const __be32 *words = (const void *)(tcp + 1);
	struct tcp_options options = {};
	__u32 at;

	if ((const void *)(words + 1) > end) /* also without options: nothing that long is ours */
		return 0;
	at = tcp_last(tcp, end, WIRE_TCP_OPTION_TAGGED);
	if (at && tcp_is_led_to(words, &options, end, at))
		return at;
	at = tcp_last(tcp, end, WIRE_TCP_OPTION);
	return at && tcp_is_led_to(words, &options, end, at) ? at : 0;
}

#endif
