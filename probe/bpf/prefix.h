/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Hosts of either family by prefix: the key of a trie. */
#ifndef PILLION_PREFIX_H
#define PILLION_PREFIX_H

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

struct host_prefix {
	__u32 prefix; /* bits: 8 of the family, then of the address */
	__u8 family;
	__u8 address[16];
} __attribute__((packed));

/* address: 16 bytes as in a flow_key */
static __always_inline void prefix_host(struct host_prefix *host, __u8 family, const void *address)
{
	host->prefix = 8 + 128;
	host->family = family;
	__builtin_memcpy(host->address, address, sizeof(host->address));
}

#endif
