/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The tcp-option encoding: a mark in the room that the kernel reserved (connection.h). */
#ifndef PILLION_SOURCE_TCP_OPTION_H
#define PILLION_SOURCE_TCP_OPTION_H

#include "../bpf/summed.h"
#include "../bpf/tcp.h"
#include "connection.h"
#include "room.h"
#include "stamp.h"

#define TCP_REACH 0xff /* no option of a packet that may be marked lies further back */

/*
 * Is there a mark, or room for one? That of a forwarded packet is the sender's. A global
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
	if (option->kind == WIRE_TCP_OPTION_KIND)
		s->blocked = OUTCOME_EXISTING_OPTION;
	else
		s->room = !s->forwarded && skb->sk;
	return 0;
}

/* How a 32-bit word adds to a checksum. */
static __always_inline __u32 halves(__be32 word)
{
	return (word & 0xffff) + (word >> 16);
}

/* Numbers are never zero as a whole, so that zero can stand for none. */
static __always_inline __be32 tcp_option_number(struct numbering *numbers, const struct room *room)
{
	__be32 number = number_take(numbers, room->packets);

	if (!number) {
		numbers->next = WIRE_FLOW_STRIDE; /* as if the flow began here */
		number = number_take(numbers, room->packets);
	}
	return number;
}

/* The room is all zeros behind its head. */
static __always_inline int tcp_option_insert(struct __sk_buff *skb, const struct subject *s,
					     struct numbering *numbers, const struct room *room)
{
	struct wire_experiment *option = packet_start(skb) + (s->option & TCP_REACH);
	__be32 number = 0, time = 0;
	__u32 change;

	if ((void *)(option + 1) > packet_end(skb))
		return OUTCOME_NO_ROOM;
	if (room->carried & WIRE_DELAY)
		time = clock_ticks();
	if (room->carried & WIRE_LOSS)
		number = tcp_option_number(numbers, room);
	option->kind = WIRE_TCP_OPTION_KIND;
	option->exid = stamp_exid();
	option->number = number;
	option->time = time;
	change = halves(number) + halves(time) + bpf_htons(WIRE_TCP_OPTION_KIND << 8) +
		 (__u16)~bpf_htons(WIRE_TCP_ROOM_KIND << 8) + stamp_exid() + (__u16)~bpf_htons(WIRE_EXID);
	/* Nothing to do where the device, or the kernel later, computes the checksum: it saves the call. */
	if (!summed_partial_field(skb))
		bpf_l4_csum_replace(skb, s->l4 + TCP_CHECK_OFFSET, 0, change, 0);
	return OUTCOME_MARKED;
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

	if (!tcp_option_families)
		return encoding_after(WIRE_ENCODING_TCP_OPTION, packet_class(s));
	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (sk)
		c = bpf_sk_storage_get(&connections, sk, 0, 0);
	if (s->syn)
		s->blocked = OUTCOME_HANDSHAKE;
	else if (c && (c->paused || c->stopped || c->no_acks || c->avoided))
		s->blocked = OUTCOME_TIMEOUT;
	else if (s->key.family == 4 || (sparse_marks && c && c->segments))
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
	    !(tcp_option_families & (s->key.family == 6 ? WIRE_IPV6 : WIRE_IPV4)))
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
