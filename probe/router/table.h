/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The packets inside the router, by the address of their socket buffer. A set-
 * associative table in plain memory, so that no hook has to call anything: the keys
 * of a set are one cache line, and places are claimed by compare-and-swap. A buffer
 * is with one processor at a time, so no other one looks for the same key.
 */
#ifndef PILLION_TABLE_H
#define PILLION_TABLE_H

#include "kernel.h"
#include "packet.h"

#define TABLE_BITS 16
#define TABLE_SIZE (1 << TABLE_BITS)
#define TABLE_WAYS 8
#define TABLE_BLOCK (8 * TABLE_WAYS) /* places for the buffers of one page: their records fill a page too */
#define TABLE_OVERFLOW 0xffffffff /* p->slot of a packet that lies in the overflow */
#define OVERFLOW_SIZE 16384

#define BUFFER_BITS 8 /* a buffer has 256 bytes */
#define NEAR_BITS 12

#define GOLDEN 0x9e3779b97f4a7c15ull

__u64 packet_keys[TABLE_SIZE] __attribute__((aligned(64)));
struct packet packets[TABLE_SIZE] __attribute__((aligned(64)));
__u64 overflow_used;

/* Key: address of the buffer; value: its packet. For sets that are full. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OVERFLOW_SIZE);
	__type(key, __u64);
	__type(value, struct packet);
} overflows SEC(".maps");

/*
 * Key of a buffer's address. The verifier does not let us calculate with an address,
 * but with the distance of two; that to our own table is as good. Its lowest bits are
 * zero.
 */
static __always_inline __u64 key_of(const void *skb)
{
	return distance(skb, packet_keys);
}

/*
 * First place of a key's set. A hash selects the block, the place in the page the set in
 * it: the kernel allocates buffers that are in use together from few pages, so that their
 * records are in few cache lines and pages, too.
 */
static __always_inline __u32 table_set(__u64 key)
{
	__u64 block = ((key >> NEAR_BITS) * GOLDEN) >> (64 - TABLE_BITS) & (TABLE_SIZE - TABLE_BLOCK);

	return block | ((key >> BUFFER_BITS) * TABLE_WAYS & (TABLE_BLOCK - 1));
}

static __always_inline struct packet *table_find(__u64 key)
{
	__u32 set = table_set(key);

#pragma unroll
	for (int way = 0; way < TABLE_WAYS; way++)
		if (packet_keys[set + way] == key)
			return &packets[set + way];
	if (overflow_used)
		return bpf_map_lookup_elem(&overflows, &key);
	return 0;
}

static __noinline struct packet *table_overflow(__u64 key)
{
	struct packet empty = {.slot = TABLE_OVERFLOW};
	struct packet *p;

	if (bpf_map_update_elem(&overflows, &key, &empty, BPF_NOEXIST))
		return 0;
	__sync_fetch_and_add(&overflow_used, 1);
	p = bpf_map_lookup_elem(&overflows, &key);
	return p;
}

/* A place for a new packet; its fields but slot are the caller's to fill. 0: full. */
static __always_inline struct packet *table_claim(__u64 key)
{
	__u32 set = table_set(key);

#pragma unroll
	for (int way = 0; way < TABLE_WAYS; way++) {
		__u64 *place = &packet_keys[set + way];

		if (!*place && !__sync_val_compare_and_swap(place, 0, key)) {
			packets[set + way].slot = set + way;
			return &packets[set + way];
		}
	}
	return table_overflow(key);
}

static __always_inline void table_remove(struct packet *p, __u64 key)
{
	__u32 slot = p->slot;

	if (slot == TABLE_OVERFLOW) {
		bpf_map_delete_elem(&overflows, &key);
		__sync_fetch_and_add(&overflow_used, -1);
		return;
	}
	packet_keys[slot & (TABLE_SIZE - 1)] = 0;
}

/* Gives the record another key. 0: no room, and the record is gone. */
static __always_inline struct packet *table_move(struct packet *p, __u64 from, __u64 to)
{
	struct packet *next = table_claim(to);

	if (next) {
		__u32 slot = next->slot;

		*next = *p;
		next->slot = slot;
	}
	table_remove(p, from);
	return next;
}

#endif
