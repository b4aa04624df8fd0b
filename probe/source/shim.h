/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The IPv4 encodings: a shim, alone (shim) or inside IPv4 (ipip) or UDP (udp). */
#ifndef PILLION_SOURCE_SHIM_H
#define PILLION_SOURCE_SHIM_H

#include "../bpf/clock.h"
#include "module.h"
#include "number.h"
#include "work.h"

#define SHIM_OWN(carried)                                     \
	(((carried) == WIRE_DELAY ? WIRE_SHIM_DELAY :         \
	  (carried) == WIRE_LOSS  ? WIRE_SHIM_LOSS :          \
				    WIRE_SHIM_BOTH) +         \
	 (tagged_marks ? WIRE_TAG_LENGTH : 0))

/* With options of modules. */
#define SHIM_LENGTH(carried) (SHIM_OWN(carried) + OPTION_BYTES)

/* Bytes before the shim that were not in the packet. */
#define SHIM_OUTER(encoding)                                                             \
	((encoding) == WIRE_ENCODING_UDP  ? sizeof(struct iphdr) + sizeof(struct udphdr) : \
	 (encoding) == WIRE_ENCODING_IPIP ? sizeof(struct iphdr) :                         \
					    0)

/* Where the shim begins in the marked packet. */
#define SHIM_AT(encoding) \
	(SHIM_OUTER(encoding) + ((encoding) == WIRE_ENCODING_UDP ? 0 : sizeof(struct iphdr)))

#define SOURCE_PORT_BASE 0xc000 /* the dynamic ports of RFC 6335 */
#define SOURCE_PORT_MASK 0x3fff

/* carried: a constant here and below, so that offsets in the packet are constants, too */

/* The same as shim_write for a mark with a tag, which never carries a time alone. */
static __always_inline void shim_write_tagged(void *at, struct wire_shim head, __u32 carried, __be32 number,
					      const struct mark_key *key)
{
	struct wire_timestamp now;

	head.type |= WIRE_TAGGED;
	if (carried == WIRE_LOSS) {
		struct wire_shim_tagged_loss shim __attribute__((aligned(8))) = {
			{ head, number }, tag_make(key, tag_epoch_now(), number, carried),
		};
		copy_words(at, &shim, sizeof(shim));
		return;
	}
	now = clock_to_wire(clock_utc_ns());
	struct wire_shim_tagged_both shim __attribute__((aligned(8))) = {
		{ head, { now, {} }, number }, tag_make(key, tag_timestamp(now), number, carried),
	};
	copy_words(at, &shim, sizeof(shim));
}

static __always_inline void shim_write(void *at, __u8 next, __u32 carried, __be32 number, const struct mark_key *key)
{
	struct wire_shim head = { .type = carried, .next_protocol = next,
				  .length = SHIM_LENGTH(carried) - WIRE_SHIM_HEAD,
				  .flags = FLOW_AGGREGATE ? WIRE_AGGREGATE | FLOW_AGGREGATE : 0 };

	if (OPTIONS_USED)
		head.type |= WIRE_MODULES;
	if (tagged_marks) {
		shim_write_tagged(at, head, carried, number, key);
		return;
	}

	if (carried == WIRE_DELAY) {
		struct wire_shim_delay shim __attribute__((aligned(8))) = { head, { clock_to_wire(clock_utc_ns()), {} } };
		copy_words(at, &shim, sizeof(shim));
	} else if (carried == WIRE_LOSS) {
		struct wire_shim_loss shim __attribute__((aligned(8))) = { head, number };
		copy_words(at, &shim, sizeof(shim));
	} else {
		struct wire_shim_both shim __attribute__((aligned(8))) = { head, { clock_to_wire(clock_utc_ns()), {} }, number };
		copy_words(at, &shim, sizeof(shim));
	}
}

/* The same for each packet of a flow, so that its packets keep one path. */
static __always_inline __be16 shim_source_port(const struct flow_key *key)
{
	__u32 mix = key->src[0] ^ (key->dst[0] * 0x9e3779b1) ^
		    (((__u32)key->sport << 16 | key->dport) * 0x85ebca6b) ^ key->protocol;

	mix ^= mix >> 15;
	mix *= 0xc2b2ae35;
	mix ^= mix >> 13;
	return bpf_htons(SOURCE_PORT_BASE | (mix & SOURCE_PORT_MASK));
}

static __always_inline void shim_length(struct iphdr *ip, __u32 add)
{
	__be16 length = bpf_htons(bpf_ntohs(ip->tot_len) + add);

	ip->check = update_checksum(ip->check, ip->tot_len, length);
	ip->tot_len = length;
}

static __always_inline void shim_protocol(struct iphdr *ip, __u8 protocol)
{
	__u16 from = bpf_htons(ip->protocol), to = bpf_htons(protocol);

	ip->check = update_checksum(ip->check, from, to);
	ip->protocol = protocol;
}

/* frame: the new bytes begin behind the link header; the old packet follows. */
static __always_inline void shim_write_udp(void *frame, const struct subject *s, __u32 carried,
					   __be32 number, const struct mark_key *key)
{
	struct iphdr *outer = frame;
	struct udphdr *udp = (void *)(outer + 1);
	void *shim = udp + 1;
	struct iphdr *inner = shim + SHIM_LENGTH(carried);
	__u32 length = bpf_ntohs(inner->tot_len) + SHIM_OUTER(WIRE_ENCODING_UDP) + SHIM_LENGTH(carried);

	__builtin_memcpy(outer, inner, sizeof(*outer));
	outer->ihl = 5;
	outer->frag_off &= IPV4_DONT_FRAGMENT;
	outer->protocol = IPPROTO_UDP;
	outer->tot_len = bpf_htons(length);
	ipv4_checksum(outer);
	udp->source = shim_source_port(&s->key);
	udp->dest = bpf_htons(udp_port);
	udp->len = bpf_htons(length - sizeof(*outer));
	udp->check = 0;
	shim_write(shim, IPPROTO_IPIP, carried, number, key);
}

static __always_inline void shim_write_ipip(void *frame, const struct subject *s, __u32 carried,
					    __be32 number, const struct mark_key *key)
{
	struct iphdr *outer = frame, *inner = outer + 1;
	struct iphdr header;

	/*
	 * The old header lies where the shim ends; bring it before the shim. A
	 * short shim leaves the two overlapping: not in one copy.
	 */
	copy_words(&header, frame + SHIM_OUTER(WIRE_ENCODING_IPIP) + SHIM_LENGTH(carried), sizeof(header));
	copy_words(inner, &header, sizeof(header));
	shim_length(inner, SHIM_LENGTH(carried));
	shim_protocol(inner, WIRE_PROTOCOL);
	__builtin_memcpy(outer, inner, sizeof(*outer));
	outer->frag_off &= IPV4_DONT_FRAGMENT;
	outer->protocol = IPPROTO_IPIP;
	outer->tot_len = bpf_htons(bpf_ntohs(inner->tot_len) + sizeof(*outer));
	ipv4_checksum(outer);
	shim_write(inner + 1, s->next, carried, number, key);
}

static __always_inline void shim_write_bare(void *frame, const struct subject *s, __u32 carried,
					    __be32 number, const struct mark_key *key)
{
	struct iphdr *ip = frame;

	shim_length(ip, SHIM_LENGTH(carried));
	shim_protocol(ip, WIRE_PROTOCOL);
	shim_write(ip + 1, s->next, carried, number, key);
}

static __always_inline int shim_make_room(struct __sk_buff *skb, __u32 encoding, const struct room *room)
{
	__u64 flags = room->flags;

	if (encoding == WIRE_ENCODING_SHIM)
		return bpf_skb_adjust_room(skb, room->add, BPF_ADJ_ROOM_NET, flags);
	if (encoding == WIRE_ENCODING_UDP)
		flags |= BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP |
			 BPF_F_ADJ_ROOM_ENCAP_L2(room->add - SHIM_OUTER(WIRE_ENCODING_UDP));
	return bpf_skb_adjust_room(skb, room->add, BPF_ADJ_ROOM_MAC, flags);
}

/* The packet is sent unchanged. */
static __always_inline int shim_undo(struct __sk_buff *skb, __u32 encoding, const struct room *room)
{
	bpf_skb_adjust_room(skb, -(int)room->add,
			    encoding == WIRE_ENCODING_SHIM ? BPF_ADJ_ROOM_NET : BPF_ADJ_ROOM_MAC,
			    room->flags);
	return OUTCOME_NO_ROOM;
}

/* Fills the room that was made, and takes the numbers, unless the packet is too short. */
static __always_inline int shim_fill(struct __sk_buff *skb, const struct subject *s, __u32 encoding,
				     __u32 carried, struct numbering *numbers, const struct room *room)
{
	void *frame = packet_start(skb) + link_length;
	__be32 number = 0;

	if (frame + SHIM_OUTER(encoding) + SHIM_LENGTH(carried) + sizeof(struct iphdr) > packet_end(skb))
		return -1;
	if (carried & WIRE_LOSS)
		number = number_take(numbers, room->packets);
	if (encoding == WIRE_ENCODING_UDP)
		shim_write_udp(frame, s, carried, number, &room->key);
	else if (encoding == WIRE_ENCODING_IPIP)
		shim_write_ipip(frame, s, carried, number, &room->key);
	else
		shim_write_bare(frame, s, carried, number, &room->key);
	return 0;
}

/* encoding: a constant, so that each has its own code */
static __always_inline int shim_insert(struct __sk_buff *skb, const struct work *w, __u32 encoding,
				       struct numbering *numbers)
{
	const struct subject *s = &w->subject;
	const struct room *room = &w->room;
	int failed;

	if (shim_make_room(skb, encoding, room))
		return s->gso_size ? OUTCOME_GSO : OUTCOME_NO_ROOM;
	if (!tagged_marks && room->carried == WIRE_DELAY)
		failed = shim_fill(skb, s, encoding, WIRE_DELAY, numbers, room);
	else if (room->carried == WIRE_LOSS)
		failed = shim_fill(skb, s, encoding, WIRE_LOSS, numbers, room);
	else
		failed = shim_fill(skb, s, encoding, WIRE_DELAY | WIRE_LOSS | (room->carried & WIRE_SPARSE),
				   numbers, room);
	if (!failed && OPTIONS_USED)
		failed = modules_store(skb, w, link_length + SHIM_AT(encoding) + SHIM_OWN(room->carried), OPTION_BYTES);
	return failed ? shim_undo(skb, encoding, room) : OUTCOME_MARKED;
}

#define SHIM_INSERT(skb, w, numbers) shim_insert(skb, w, WIRE_ENCODING_SHIM, numbers)
#define IPIP_INSERT(skb, w, numbers) shim_insert(skb, w, WIRE_ENCODING_IPIP, numbers)
#define UDP_INSERT(skb, w, numbers) shim_insert(skb, w, WIRE_ENCODING_UDP, numbers)

#endif
