/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The tcp-option encoding: a mark in the room that the kernel reserved (connection.h). */
#ifndef PILLION_SOURCE_TCP_OPTION_H
#define PILLION_SOURCE_TCP_OPTION_H

#include "../bpf/summed.h"
#include "../bpf/tcp.h"
#include "connection.h"
#include "headers.h"
#include "stamp.h"
#include "work.h"

#define TCP_REACH 0xff /* no option of a packet that may be marked lies further back */

/*
 * Is there a mark, or room for one? The mark of a forwarded packet is the sender's,
 * and stays beside the mark of a router. A global
 * function: what follows is verified once, not once for each way through this one.
 */
__noinline int tcp_option_look(struct __sk_buff *skb, struct subject *s)
{
	struct wire_experiment *option;
	struct tcphdr *tcp;
	__u32 at;

	if (!s)
		return 0;
	if (s->key.protocol != IPPROTO_TCP || s->fragment || s->l4 > TCP_REACH ||
	    s->l4_length < sizeof(struct tcphdr) + sizeof(*option))
		return 0;
	if (pull(skb, s->l4 + s->l4_length))
		return 0;
	tcp = packet_start(skb) + (s->l4 & TCP_REACH);
	asm volatile("" : "+r"(tcp)); /* or it is computed again after its checks */
	at = tcp_find(tcp, packet_end(skb));
	if (!at)
		return 0;
	s->option = s->l4 + at;
	option = packet_start(skb) + (s->option & TCP_REACH);
	if ((void *)(option + 1) > packet_end(skb))
		return 0;
	if (option->kind == WIRE_TCP_OPTION_KIND && !ingress_number)
		s->blocked = OUTCOME_EXISTING_OPTION;
	else if (option->length == TCP_OPTION_LENGTH)
		s->room = !s->forwarded && skb->sk;
	return 0;
}

/* How a 32-bit word adds to a checksum. */
static __always_inline __u32 halves(__be32 word)
{
	return (word & 0xffff) + (word >> 16);
}

/* Numbers are never zero as a whole, so that zero can stand for none. */
static __always_inline __be32 tcp_option_number(struct numbering *numbers, __u32 packets)
{
	__be32 number = number_take(numbers, packets);

	if (UNLIKELY(!number)) {
		numbers->next = WIRE_FLOW_STRIDE; /* as if the flow began here */
		number = number_take(numbers, packets);
	}
	return number;
}

#define TCP_HEAD(kind, exid) bpf_htonl((__u32)(kind) << 24 | TCP_OPTION_LENGTH << 16 | (exid))

/* The room is all zeros behind its head. carried: modules of the mark; l4: offset of the TCP header */
static __always_inline void tcp_option_fill(struct __sk_buff *skb, struct wire_experiment *option, __u32 l4,
					    struct numbering *numbers, __u32 packets, __u32 carried,
					    const struct mark_key *key)
{
	__be32 number = 0, time, tag = 0;
	__u64 ticks = 0;
	volatile __be32 *words = (void *)option; /* packed fields would be written byte by byte */
	__u32 change;

	if (carried & WIRE_DELAY)
		ticks = clock_ticks();
	time = bpf_htonl((__u32)ticks);
	if (carried & WIRE_LOSS)
		number = tcp_option_number(numbers, packets);
	words[0] = TCP_HEAD(WIRE_TCP_OPTION_KIND, STAMP_EXID);
	words[1] = number;
	words[2] = time;
	if (tagged_marks)
		words[3] = tag = stamp_tag(key, ticks, number);
	change = halves(number) + halves(time) + halves(tag) + bpf_htons(WIRE_TCP_OPTION_KIND << 8) +
		 (__u16)~bpf_htons(WIRE_TCP_ROOM_KIND << 8) + stamp_exid() + (__u16)~bpf_htons(WIRE_EXID);
	/* Nothing to do where the device, or the kernel later, computes the checksum: it saves the call. */
	if (UNLIKELY(!summed_partial_field(skb)))
		bpf_l4_csum_replace(skb, l4 + TCP_CHECK_OFFSET, 0, change, 0);
}

static __always_inline int tcp_option_insert(struct __sk_buff *skb, const struct work *w, struct numbering *numbers)
{
	const struct subject *s = &w->subject;
	const struct room *room = &w->room;
	struct wire_experiment *option = packet_start(skb) + (s->option & TCP_REACH);

	if ((void *)option + TCP_OPTION_LENGTH > packet_end(skb))
		return OUTCOME_NO_ROOM;
	tcp_option_fill(skb, option, s->l4, numbers, room->packets, room->carried, &room->key);
	return OUTCOME_MARKED;
}

#define TCP_OPTION_INSERT tcp_option_insert

/*
 * The room in a segment of this host, if it lies behind nothing but timestamps. Returns 0
 * for every segment that the general path decides about.
 */
static __always_inline struct wire_experiment *tcp_option_room(struct __sk_buff *skb, const struct headers *h,
							       void *l4, __u32 gso_size)
{
	__u32 class = (h->size == sizeof(struct ipv6hdr) ? WIRE_INDEX_IPV6 : WIRE_INDEX_IPV4) | WIRE_INDEX_TCP;
	struct tcphdr *tcp = l4;
	__be32 *words = (void *)(tcp + 1);

	if (gso_size)
		class |= WIRE_INDEX_GSO;
	if (UNLIKELY((void *)(words + TCP_OPTION_LENGTH / 4) > packet_end(skb) || !skb->sk ||
		     encoding_of(class) != WIRE_ENCODING_TCP_OPTION))
		return 0;
	if (LIKELY(tcp->doff * 4 == sizeof(*tcp) + TCP_TIMESTAMPS_LENGTH + TCP_OPTION_LENGTH)) {
		if (UNLIKELY(*words != TCP_TIMESTAMPS))
			return 0;
		words += TCP_TIMESTAMPS_LENGTH / 4;
		if (UNLIKELY((void *)(words + TCP_OPTION_LENGTH / 4) > packet_end(skb)))
			return 0;
	} else if (tcp->doff * 4 != sizeof(*tcp) + TCP_OPTION_LENGTH) {
		return 0;
	}
	return LIKELY(*words == TCP_HEAD(WIRE_TCP_ROOM_KIND, WIRE_EXID)) ? (void *)words : 0;
}

/*
 * What marks a segment that has no room: the next encoding of the list. But
 * connections whose program is attached may go to hosts that do not know marks:
 * for IPv4 no other encoding leaves such a segment readable to them. Nothing marks
 * segments of a handshake, of a connection whose marks may not arrive, or, with sparse
 * marks, of one whose other segments have room.
 */
static __noinline __u32 tcp_option_missing(struct __sk_buff *skb, struct subject *s)
{
	struct connection *c = 0;
	struct bpf_sock *sk = skb->sk;

	if (!TCP_OPTION_FAMILIES)
		return encoding_after(WIRE_ENCODING_TCP_OPTION, packet_class(s));
	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (sk)
		c = bpf_sk_storage_get(&connections, sk, 0, 0);
	if (s->syn)
		s->blocked = OUTCOME_HANDSHAKE;
	else if (c && (c->paused || c->stopped || c->no_acks || c->avoided))
		s->blocked = OUTCOME_TIMEOUT;
	else if (c && connection_cleared(sk)) {
		CONNECTION_COUNT(callbacks_cleared);
		if (s->key.family == 4)
			s->blocked = OUTCOME_CALLBACKS;
	} else if (s->key.family == 4 || (sparse_marks && c && c->segments))
		s->blocked = OUTCOME_TCP_OPTIONS;
	return encoding_after(WIRE_ENCODING_TCP_OPTION, packet_class(s));
}

/* A SYN from the peer: will our own segments have room that the MSS allows for? */
static __always_inline int tcp_option_expected(struct __sk_buff *skb, const struct subject *s)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *sk;
	__u32 size;

	if (!ENCODING_USED(TCP_OPTION) ||
	    !(TCP_OPTION_FAMILIES & (s->key.family == 6 ? WIRE_IPV6 : WIRE_IPV4)))
		return 0;
	if (s->key.family == 6) {
		size = sizeof(tuple.ipv6);
		copy_address(tuple.ipv6.saddr, s->key.src);
		copy_address(tuple.ipv6.daddr, s->key.dst);
		tuple.ipv6.sport = s->key.sport;
		tuple.ipv6.dport = s->key.dport;
	} else {
		size = sizeof(tuple.ipv4);
		tuple.ipv4.saddr = s->key.src[0];
		tuple.ipv4.daddr = s->key.dst[0];
		tuple.ipv4.sport = s->key.sport;
		tuple.ipv4.dport = s->key.dport;
	}
	sk = bpf_skc_lookup_tcp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return 0;
	bpf_sk_release(sk);
	return 1;
}

#endif
