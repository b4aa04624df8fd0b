/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The fields that are read of the kernel's TCP sockets; their offsets come from the kernel's BTF. */
#ifndef PILLION_SOURCE_SOCK_H
#define PILLION_SOURCE_SOCK_H

#include <bpf/bpf_core_read.h>

#include "../bpf/packet.h"

#define KERNEL __attribute__((preserve_access_index))

#define FAMILY_IPV4 2
#define FAMILY_IPV6 10
#define SOCK_LISTEN 10 /* of skc_state */

struct net_device {
	int ifindex;
} KERNEL;

struct dst_entry {
	struct net_device *dev;
} KERNEL;

struct netns_ipv4 {
	__u8 sysctl_tcp_dsack;
} KERNEL;

struct net {
	struct netns_ipv4 ipv4;
} KERNEL;

typedef struct {
	struct net *net;
} KERNEL possible_net_t;

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	possible_net_t skc_net;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
	struct dst_entry *sk_dst_cache;
} KERNEL;

struct inet_sock {
	struct sock sk;
} KERNEL;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u8 icsk_probes_out;
	struct {
		__u32 lrcvtime; /* kernel ticks */
	} icsk_ack;
} KERNEL;

struct tcp_options_received {
	__u16 saw_tstamp : 1, tstamp_ok : 1, dsack : 1, wscale_ok : 1, sack_ok : 3;
} KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	struct tcp_options_received rx_opt;
	__u32 rcv_wnd;
	__u8 bpf_sock_ops_cb_flags;
} KERNEL;

static __always_inline struct sock *sock_of(struct tcp_sock *tcp)
{
	return &tcp->inet_conn.icsk_inet.sk;
}

/* An IPv6 socket that talks IPv4: ::ffff:0:0/96 (RFC 4291). */
static __always_inline int sock_is_mapped(const struct sock_common *c)
{
	return !c->skc_v6_daddr.in6_u.u6_addr32[0] && !c->skc_v6_daddr.in6_u.u6_addr32[1] &&
	       c->skc_v6_daddr.in6_u.u6_addr32[2] == bpf_htonl(0xffff);
}

/* The flow of the packets that the socket sends. */
static __always_inline void sock_flow(struct tcp_sock *tcp, struct flow_key *key)
{
	const struct sock_common *c = &sock_of(tcp)->__sk_common;

	key->protocol = IPPROTO_TCP;
	key->sport = bpf_htons(c->skc_num);
	key->dport = c->skc_dport;
	key->family = 4;
	if (c->skc_family == FAMILY_IPV6 && !sock_is_mapped(c)) {
		key->family = 6;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			key->src[i] = c->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			key->dst[i] = c->skc_v6_daddr.in6_u.u6_addr32[i];
		}
		return;
	}
	key->src[0] = c->skc_rcv_saddr;
	key->dst[0] = c->skc_daddr;
}

/* Whether acknowledgements report duplicate data (D-SACK, RFC 2883). */
static __always_inline int sock_reports_duplicates(struct tcp_sock *tcp)
{
	struct net *net = sock_of(tcp)->__sk_common.skc_net.net;

	return BPF_CORE_READ_BITFIELD(tcp, rx_opt.sack_ok) && net && net->ipv4.sysctl_tcp_dsack;
}

static __always_inline int sock_has_duplicate(struct tcp_sock *tcp)
{
	return BPF_CORE_READ_BITFIELD(tcp, rx_opt.dsack);
}

/* Number of unanswered probes of the peer (keepalive, zero window), which are empty segments. */
static __always_inline int sock_probes(struct tcp_sock *tcp)
{
	return tcp->inet_conn.icsk_probes_out;
}

/* Kernel ticks since new data arrived. */
static __always_inline __u32 sock_idle(struct tcp_sock *tcp)
{
	return (__u32)bpf_jiffies64() - tcp->inet_conn.icsk_ack.lrcvtime;
}

/* Index of the device that its route leads to, or 0 where it has none at the moment. */
static __always_inline int sock_device(struct tcp_sock *tcp)
{
	struct dst_entry *route = sock_of(tcp)->sk_dst_cache;
	struct net_device *device;

	if (!route)
		return 0;
	device = route->dev;
	return device ? device->ifindex : 0;
}

#endif
