// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//go:build ignore

/*
 * Records when the tagged packets of one flow arrive at an interface, before GRO merges them
 * and before the network stack batches them.
 */
#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/in6.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define TAG_MAGIC 0x504c534e /* send/frame/tag.go */
#define UDP_HEADER 8 /* as long as the header of ICMP echo requests */

volatile const __u32 device; /* index of the interface */
volatile const __u32 namespace; /* inode number of its network namespace */
volatile const __u8 version; /* of IP: 4 or 6 */
volatile const __u8 protocol;
volatile const __u8 raw; /* 1: nothing between IP and the tag */
volatile const __u8 source[16]; /* 4 bytes of IPv4 */
volatile const __be16 source_port, destination_port; /* not compared of ICMP */

/* The round: trains before the first one are of an earlier round. Written by the agent. */
volatile __u32 first_train, packets;

struct tag {
	__be32 magic;
	__be32 train;
	__be32 number;
};

/* By (train - first_train) * packets + number: CLOCK_MONOTONIC in ns, 0 until it arrives. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} arrivals SEC(".maps");

struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} __attribute__((preserve_access_index)) possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

struct sk_buff {
	struct net_device *dev;
	unsigned char *data;
	__u32 len, data_len;
} __attribute__((preserve_access_index));

static __always_inline int same_address(const __u8 *a, int size)
{
	for (int i = 0; i < size; i++)
		if (a[i] != source[i])
			return 0;
	return 1;
}

/* Returns the length of the IP header, or 0 if the packet is not one of the flow. */
static __always_inline int network(const __u8 *h)
{
	if (h[0] >> 4 != version)
		return 0;
	if (version == 4)
		return h[9] == protocol && same_address(h + 12, 4) ? (h[0] & 15) * 4 : 0;
	return h[6] == protocol && same_address(h + 8, 16) ? 40 : 0;
}

/* Returns the length of the transport header likewise. */
static __always_inline int transport(unsigned char *at)
{
	__u8 h[14];

	if (bpf_probe_read_kernel(h, sizeof(h), at))
		return 0;
	if (protocol != IPPROTO_ICMP && protocol != IPPROTO_ICMPV6 &&
	    (*(__be16 *)h != source_port || *(__be16 *)(h + 2) != destination_port))
		return 0;
	return protocol == IPPROTO_TCP ? (h[12] >> 4) * 4 : UDP_HEADER;
}

static __always_inline void note(struct sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns(), *arrival;
	struct net_device *dev = skb->dev;
	unsigned char *at = skb->data;
	__u8 head[40];
	struct tag t;
	__u32 index;
	int length;

	if (dev->ifindex != device || dev->nd_net.net->ns.inum != namespace)
		return;
	if (bpf_probe_read_kernel(head, sizeof(head), at) || !(length = network(head)))
		return;
	at += length;
	if (!raw && !(length = transport(at)))
		return;
	if (!raw)
		at += length;
	/* Behind a shorter packet there may be the remains of an earlier one. */
	if (at + sizeof(t) > skb->data + skb->len - skb->data_len)
		return;
	if (bpf_probe_read_kernel(&t, sizeof(t), at))
		return;
	if (t.magic != bpf_htonl(TAG_MAGIC) || bpf_ntohl(t.train) < first_train || bpf_ntohl(t.number) >= packets)
		return;
	index = (bpf_ntohl(t.train) - first_train) * packets + bpf_ntohl(t.number);
	arrival = bpf_map_lookup_elem(&arrivals, &index);
	if (arrival)
		__sync_val_compare_and_swap(arrival, 0, now);
}

/* Drivers with NAPI. */
SEC("tp_btf/napi_gro_receive_entry")
int BPF_PROG(arrival_gro, struct sk_buff *skb)
{
	note(skb);
	return 0;
}

/* Taps, and drivers without GRO. */
SEC("tp_btf/netif_receive_skb_entry")
int BPF_PROG(arrival_receive, struct sk_buff *skb)
{
	note(skb);
	return 0;
}

/* veth and loopback. */
SEC("tp_btf/netif_rx_entry")
int BPF_PROG(arrival_rx, struct sk_buff *skb)
{
	note(skb);
	return 0;
}

char _license[] SEC("license") = "GPL";
