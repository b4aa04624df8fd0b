/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What is read of the kernel's own structures; offsets come from its BTF. */
#ifndef PILLION_KERNEL_H
#define PILLION_KERNEL_H

#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define KERNEL __attribute__((preserve_access_index))

#define NF_ACCEPT 1
#define LOOPBACK 1 /* index of lo, in every namespace */

struct ns_common {
	unsigned int inum;
} KERNEL;

struct net {
	struct ns_common ns;
} KERNEL;

typedef struct {
	struct net *net;
} KERNEL possible_net_t;

struct net_device {
	int ifindex;
	unsigned int mtu;
	unsigned int flags;
	unsigned long priv_flags : 32; /* an int before 6.9 */
	possible_net_t nd_net;
} KERNEL;

struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	unsigned int data_len;
	__u32 hash;
	__be16 protocol;
	__u16 network_header;
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
} KERNEL;

struct skb_shared_info {
	unsigned short gso_size;
	unsigned short gso_segs;
} KERNEL;

enum skb_drop_reason {
	SKB_DROP_REASON_PACKET_SOCK_ERROR = 1, /* the value comes from BTF */
};

struct nf_hook_state {
	struct net_device *in;
	struct net_device *out;
} KERNEL;

struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff *skb;
} KERNEL;

/* The values come from BTF. */
enum netdev_priv_flags {
	IFF_802_1Q_VLAN = 1,
	IFF_EBRIDGE = 2,
	IFF_MACVLAN = 4,
	IFF_TEAM = 8,
};

#define MASTER_OF_BOND 0x400 /* IFF_MASTER in flags */

#define PRIVATE_FLAG(name)                                                                              \
	(bpf_core_enum_value_exists(enum netdev_priv_flags, name) ? bpf_core_enum_value(enum netdev_priv_flags, name) : 0)

/*
 * An interface on top of others: its driver passes packets to the queue of one of
 * them, in the same buffer.
 */
static __always_inline int is_upper(struct net_device *dev)
{
	__u64 upper = PRIVATE_FLAG(IFF_802_1Q_VLAN) | PRIVATE_FLAG(IFF_EBRIDGE) | PRIVATE_FLAG(IFF_MACVLAN) |
		      PRIVATE_FLAG(IFF_TEAM);

	return dev->flags & MASTER_OF_BOND || BPF_CORE_READ_BITFIELD(dev, priv_flags) & upper;
}

/* The verifier makes a plain move of it; loads behind it may fault and give 0. */
extern void *bpf_rdonly_cast(const void *object, __u32 btf_id) __ksym;

#define AT(type, address) \
	((const type *)bpf_rdonly_cast(address, bpf_core_type_id_kernel(type)))

/*
 * Pointers that are read through these are not looked up among the trusted ones, for
 * each of which the verifier searches all types of the kernel: that took it longer than
 * all else.
 */
static __always_inline struct net_device *device_of(struct sk_buff *skb)
{
	return AT(struct sk_buff, skb)->dev;
}

static __always_inline struct net_device *device_in(const struct nf_hook_state *state)
{
	return AT(struct nf_hook_state, state)->in;
}

static __always_inline struct net_device *device_out(const struct nf_hook_state *state)
{
	return AT(struct nf_hook_state, state)->out;
}

/*
 * Distance of two addresses, in bytes. Newer verifiers let addresses be subtracted but
 * not, as a compiler would, be added up otherwise.
 */
static __always_inline __u64 distance(const void *to, const void *from)
{
	__u64 apart = (__u64)to;

	asm("%0 -= %1" : "+r"(apart) : "r"(from));
	return apart;
}

/* Offset to an address, which the caller casts. */
static __always_inline const void *address(const void *base, __u64 offset)
{
	__u64 sum = (__u64)base;

	asm("%0 += %1" : "+r"(sum) : "r"(offset));
	return (const void *)sum;
}

/* A word of a packet. It needs some structure of the kernel's to be read through. */
static __always_inline __be32 word_at(const void *base, __u64 offset)
{
	return AT(struct iphdr, address(base, offset - __builtin_offsetof(struct iphdr, saddr)))->saddr;
}

static __always_inline const struct skb_shared_info *shared_info(struct sk_buff *skb)
{
	return AT(struct skb_shared_info, address(skb->head, skb->end));
}

/* Bytes of the buffer in reach from there on. */
static __always_inline __s64 linear_from(struct sk_buff *skb, const void *from)
{
	return (__s64)distance(skb->data, from) + skb->len - skb->data_len;
}

#endif
