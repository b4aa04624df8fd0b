/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Protocol headers, and how to find the way through them. */
#ifndef PILLION_PACKET_H
#define PILLION_PACKET_H

#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "flow.h"

#define PROTOCOL_IPV4 bpf_htons(0x0800)
#define PROTOCOL_IPV6 bpf_htons(0x86dd)
#define PROTOCOL_VLAN bpf_htons(0x8100)
#define PROTOCOL_QINQ bpf_htons(0x88a8)

#define NEXT_HOP_BY_HOP 0
#define HOP_BY_HOP_MAX 64 /* the longest that is moved out of the way of a mark, bytes */
#define NEXT_ROUTING 43
#define NEXT_FRAGMENT 44
#define NEXT_AUTHENTICATION 51
#define NEXT_NONE 59 /* nothing follows */
#define NEXT_OPTIONS 60
#define NEXT_MOBILITY 135
#define NEXT_HIP 139
#define NEXT_SHIM6 140

#define IPV4_DONT_FRAGMENT bpf_htons(0x4000)
#define IPV4_FRAGMENT bpf_htons(0x3fff) /* more fragments, or an offset */

#define ETHERNET_LENGTH 14
#define VLAN_LENGTH 4

/* A variable that every packet needs: all of them in few cache lines, apart from the tables. */
#define PER_PACKET SEC(".data")

/* Length of the device's own header: 14 on Ethernet, 0 on tun and the like. */
const volatile __u32 link_length = ETHERNET_LENGTH;

/* What most packets do comes first in the program, without jumps. */
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#define AGAIN TC_ACT_UNSPEC /* let the next program on the hook decide; TCX_NEXT has the same value */

/*
 * First byte of the packet, and the one behind the last that can be read
 * directly. Written in assembly because the compiler takes the 32-bit fields
 * for numbers and moves them where the verifier no longer knows a pointer.
 */
static __always_inline void *packet_start(struct __sk_buff *skb)
{
	void *start;

	asm volatile("%0 = *(u32 *)(%1 + %2)"
		     : "=r"(start)
		     : "r"(skb), "i"(__builtin_offsetof(struct __sk_buff, data)));
	return start;
}

static __always_inline void *packet_end(struct __sk_buff *skb)
{
	void *end;

	asm volatile("%0 = *(u32 *)(%1 + %2)"
		     : "=r"(end)
		     : "r"(skb), "i"(__builtin_offsetof(struct __sk_buff, data_end)));
	return end;
}

/*
 * A length for a call, or 0 if it is not from 1 to limit. The verifier of Linux 6.1 takes no lower
 * bound from a comparison with 0: the length less 1 is compared, right before the call.
 */
static __always_inline __u32 bounded_length(__u32 length, __u32 limit)
{
	length--;
	asm volatile("" : "+r"(length)); /* or the compiler compares the length itself */
	if (length >= limit)
		return 0;
	asm volatile("" : "+r"(length)); /* or it adds before it compares */
	return length + 1;
}

static __always_inline int protocol_has_ports(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE ||
	       protocol == IPPROTO_SCTP || protocol == IPPROTO_DCCP;
}

/*
 * Copies length bytes, a multiple of four, word by word: the compiler would
 * copy what may be unaligned byte by byte, and the JIT does not mind.
 */
static __always_inline void copy_words(void *to, const void *from, __u32 length)
{
#pragma unroll
	for (__u32 i = 0; i < length / 4; i++)
		((volatile __u32 *)to)[i] = ((const volatile __u32 *)from)[i];
}

static __always_inline void copy_address(__be32 *to, const void *from)
{
	copy_words(to, from, 16);
}

/*
 * The same to where it is aligned to 8 bytes. A processor that reads wider words than it
 * wrote just before waits for them.
 */
static __always_inline void copy_address_aligned(void *to, const void *from)
{
	((volatile __u64 *)to)[0] = ((const volatile __u64 *)from)[0];
	((volatile __u64 *)to)[1] = ((const volatile __u64 *)from)[1];
}

static __always_inline int is_multicast(const struct flow_key *key)
{
	if (key->family == 6)
		return *(const __u8 *)key->dst == 0xff;
	return (bpf_ntohl(key->dst[0]) >> 28) == 0xe || key->dst[0] == 0xffffffff;
}

static __always_inline __u16 fold_checksum(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)~sum;
}

/* Checksum of an IPv4 header without options (RFC 791). */
static __always_inline void ipv4_checksum(struct iphdr *ip)
{
	const __u16 *words = (const __u16 *)ip;
	__u32 sum = 0;

	ip->check = 0;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += words[i];
	ip->check = fold_checksum(sum);
}

/* Change of one 16-bit word under a checksum (RFC 1624, equation 3). */
static __always_inline __u16 update_checksum(__u16 check, __u16 from, __u16 to)
{
	return fold_checksum((__u16)~check + (__u32)(__u16)~from + to);
}

/* The header as it was before a mark: its checksum follows from the change. */
static __always_inline void ipv4_restore(struct iphdr *ip, __u8 protocol, __u32 length)
{
	__be16 total = bpf_htons(length);

	ip->check = update_checksum(ip->check, ip->tot_len, total);
	ip->check = update_checksum(ip->check, bpf_htons(ip->protocol), bpf_htons(protocol));
	ip->tot_len = total;
	ip->protocol = protocol;
}

#define ECN_MASK 3
#define ECN_NOT_ECT 0
#define ECN_ECT_1 1
#define ECN_CE 3

/* ECN field of a decapsulated packet (RFC 6040, figure 4), but nothing is dropped. */
static __always_inline __u8 ecn_decapsulate(__u8 inner, __u8 outer)
{
	if (inner == ECN_NOT_ECT || inner == ECN_CE)
		return inner;
	return outer == ECN_CE || outer == ECN_ECT_1 ? outer : inner;
}

/*
 * Gives a decapsulated header what routers did to the outer one, which began as its
 * copy: congestion marks, the DSCP (RFC 2983, uniform model) and the hops.
 */
static __always_inline void ipv4_follow(struct iphdr *ip, __u8 outer_tos, __u8 outer_ttl)
{
	__u8 tos = (outer_tos & ~ECN_MASK) | ecn_decapsulate(ip->tos & ECN_MASK, outer_tos & ECN_MASK);
	__u8 ttl = outer_ttl < ip->ttl ? outer_ttl : ip->ttl;

	if (tos != ip->tos) {
		ip->check = update_checksum(ip->check, bpf_htons(ip->tos), bpf_htons(tos));
		ip->tos = tos;
	}
	if (ttl != ip->ttl) {
		ip->check = update_checksum(ip->check, bpf_htons(ip->ttl << 8), bpf_htons(ttl << 8));
		ip->ttl = ttl;
	}
}

#endif
