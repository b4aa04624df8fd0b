// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//go:build ignore

/* Notes when tagged packets enter or leave an interface: a witness that shares nothing with the sender. */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define TAG_MAGIC 0x504c534e /* send/frame/tag.go */

volatile const __u32 device; /* index of the interface */
volatile const __u32 namespace; /* inode number of its network namespace */
volatile const __u32 offset; /* bytes from the network header to the tag */
volatile const __u32 train; /* packets of a train */

struct tag {
	__be32 magic;
	__be32 train;
	__be32 number;
};

struct sight {
	__u64 at; /* CLOCK_MONOTONIC, ns, of the first copy */
	__u64 copies;
};

/* By train * packets of a train + number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sight);
} sights SEC(".maps");

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
	unsigned char *head;
	unsigned char *data;
	__u32 len;
	__u16 network_header;
} __attribute__((preserve_access_index));

static __always_inline void note(struct sk_buff *skb, struct net_device *dev, unsigned char *network)
{
	__u64 now = bpf_ktime_get_ns();
	struct tag t;
	struct sight *s;
	__u32 at;

	if (dev->ifindex != device || dev->nd_net.net->ns.inum != namespace)
		return;
	/* Behind a shorter packet there may be the remains of an earlier one. */
	if (network + offset + sizeof(t) > skb->data + skb->len)
		return;
	if (bpf_probe_read_kernel(&t, sizeof(t), network + offset))
		return;
	if (t.magic != bpf_htonl(TAG_MAGIC))
		return;
	at = bpf_ntohl(t.train) * train + bpf_ntohl(t.number);
	s = bpf_map_lookup_elem(&sights, &at);
	if (!s)
		return;
	if (!__sync_fetch_and_add(&s->copies, 1))
		s->at = now;
}

SEC("tp_btf/netif_rx_entry")
int BPF_PROG(observer_arrival, struct sk_buff *skb)
{
	note(skb, skb->dev, skb->data); /* the network header of packets of AF_XDP is not set yet */
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(observer_departure, struct sk_buff *skb, struct net_device *dev)
{
	note(skb, dev, skb->head + skb->network_header);
	return 0;
}

char _license[] SEC("license") = "GPL";
