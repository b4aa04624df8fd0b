/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The key of a direct-mapped table of flows, which costs less than a hash table. */
#ifndef PILLION_SLOT_H
#define PILLION_SLOT_H

#include "flow.h"

/* A flow key in words of 64 bits. The last one is never zero. */
#define SLOT_WORDS 4
struct slot_key {
	__u64 words[SLOT_WORDS];
	__u64 last;
};

_Static_assert(sizeof(struct slot_key) == sizeof(struct flow_key), "flow key in words");

/* The end of a key in one word, as it is read again. */
static __always_inline void key_end(struct flow_key *key, __u8 family, __u8 protocol, __be16 sport,
				    __be16 dport)
{
	struct slot_key *words = (void *)key;

	words->last = sport | (__u32)dport << 16 | (__u64)protocol << 32 | (__u64)family << 40;
}

#define SLOT_BUSY ~0ull /* last, while a slot is taken */

#define SLOTS 4096
const volatile __u32 slot_mask = SLOTS - 1;

/* The position of a flow in the table. */
static __always_inline __u32 slot_index(const struct slot_key *key)
{
	__u64 mix = key->words[0] + key->words[1] * 0x9e3779b97f4a7c15ull;

	mix ^= key->words[2] * 0xc2b2ae3d27d4eb4full + key->words[3] * 0x165667b19e3779f9ull;
	mix = (mix ^ mix >> 32 ^ key->last * 0xd6e8feb86659fd93ull) * 0x9e3779b97f4a7c15ull;
	return mix >> 40 & slot_mask;
}

/* The last word is compared first: it is written last. */
static __always_inline int slot_has(const struct slot_key *slot, const struct slot_key *key)
{
	return *(volatile __u64 *)&slot->last == key->last && slot->words[0] == key->words[0] &&
	       slot->words[1] == key->words[1] && slot->words[2] == key->words[2] &&
	       slot->words[3] == key->words[3];
}

/* Ends the taking of a slot, whose last word is SLOT_BUSY: what else it holds is complete. */
static __always_inline void slot_publish(struct slot_key *slot, const struct slot_key *key)
{
	slot->words[0] = key->words[0];
	slot->words[1] = key->words[1];
	slot->words[2] = key->words[2];
	slot->words[3] = key->words[3];
	__sync_lock_test_and_set(&slot->last, key->last);
}

#endif
