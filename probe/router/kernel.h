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

/* A plain number to read what is none through. */
struct timespec64 {
	__s64 tv_sec;
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

/* The verifier makes a plain move of it; loads behind it may fault and give 0. */
extern void *bpf_rdonly_cast(const void *object, __u32 btf_id) __ksym;

#define AT(type, address) \
	((const type *)bpf_rdonly_cast(address, bpf_core_type_id_kernel(type)))

/*
 * Distance of two addresses, in bytes. Verifiers let addresses be subtracted but not,
 * as a compiler would, be added up otherwise. The two have to be of one kind: what
 * skb->head holds is a number to that of 6.12, and an address to that of 6.18.
 */
static __always_inline __u64 distance(const void *to, const void *from)
{
	__u64 apart = (__u64)to;

	asm("%0 -= %1" : "+r"(apart) : "r"(from));
	return apart;
}

/* Offset to an address, for who goes on to cast it. */
static __always_inline const void *address(const void *base, __u64 offset)
{
	__u64 sum = (__u64)base;

	asm("%0 += %1" : "+r"(sum) : "r"(offset));
	return (const void *)sum;
}

/* The address that a field of a structure holds, as a number to all verifiers. */
#define NUMBER(field) ((__u64)AT(struct timespec64, &(field))->tv_sec)

/* A word of a packet. It needs some structure of the kernel's to be read through. */
static __always_inline __be32 word_at(const void *base, __u64 offset)
{
	return AT(struct iphdr, address(base, offset - __builtin_offsetof(struct iphdr, saddr)))->saddr;
}

static __always_inline const struct skb_shared_info *shared_info(struct sk_buff *skb)
{
	return AT(struct skb_shared_info, address(skb->head, skb->end));
}

/* Bytes of the buffer in reach from the IP header on. */
static __always_inline __s64 linear_ip(struct sk_buff *skb)
{
	return (__s64)distance(skb->data, skb->head) - skb->network_header + skb->len - skb->data_len;
}

#endif
