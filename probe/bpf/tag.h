/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The tag of a mark (wire.h): SipHash-2-4 with a key that belongs to the flow, so that five
 * words of addresses and ports are hashed when a flow begins, and two words for each mark.
 */
#ifndef PILLION_TAG_H
#define PILLION_TAG_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../wire/wire.h"
#include "slot.h"

struct mark_key {
	__u64 words[2];
};

struct siphash {
	__u64 v0, v1, v2, v3;
};

static __always_inline __u64 rotate_left(__u64 word, int bits)
{
	return word << bits | word >> (64 - bits);
}

static __always_inline void siphash_round(struct siphash *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = rotate_left(s->v1, 13) ^ s->v0;
	s->v3 = rotate_left(s->v3, 16) ^ s->v2;
	s->v0 = rotate_left(s->v0, 32);
	s->v2 += s->v1;
	s->v0 += s->v3;
	s->v1 = rotate_left(s->v1, 17) ^ s->v2;
	s->v3 = rotate_left(s->v3, 21) ^ s->v0;
	s->v2 = rotate_left(s->v2, 32);
}

static __always_inline void siphash_begin(struct siphash *s, const struct mark_key *key)
{
	s->v0 = key->words[0] ^ 0x736f6d6570736575ull;
	s->v1 = key->words[1] ^ 0x646f72616e646f6dull;
	s->v2 = key->words[0] ^ 0x6c7967656e657261ull;
	s->v3 = key->words[1] ^ 0x7465646279746573ull;
}

static __always_inline void siphash_word(struct siphash *s, __u64 word)
{
	s->v3 ^= word;
	siphash_round(s);
	siphash_round(s);
	s->v0 ^= word;
}

static __always_inline __u64 siphash_end(struct siphash *s)
{
	s->v2 ^= 0xff;
	siphash_round(s);
	siphash_round(s);
	siphash_round(s);
	siphash_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* Words of a flow key in memory as SipHash reads them. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SIPHASH_WORD(word) (word)
#else
#define SIPHASH_WORD(word) __builtin_bswap64(word)
#endif

#define FLOW_MESSAGE 39 /* bytes: addresses, ports, protocol, version, index */
#define MARK_MESSAGE 13 /* bytes: time, number, kind */

/*
 * The key of a flow, derived from the key of its pair of hosts. A global function: the verifier proves
 * it once, apart from its callers.
 */
__noinline int tag_flow_key(const struct mark_key *pair, const struct flow_key *flow, struct mark_key *key)
{
	const struct slot_key *words = (const void *)flow;
	struct siphash begun, hash;
	__u64 last;

	if (!pair || !flow || !key)
		return -1;
	siphash_begin(&begun, pair);
	siphash_word(&begun, SIPHASH_WORD(words->words[0]));
	siphash_word(&begun, SIPHASH_WORD(words->words[1]));
	siphash_word(&begun, SIPHASH_WORD(words->words[2]));
	siphash_word(&begun, SIPHASH_WORD(words->words[3]));
	last = (SIPHASH_WORD(words->last) & 0xffffffffffffull) | (__u64)FLOW_MESSAGE << 56;
	hash = begun;
	siphash_word(&hash, last);
	key->words[0] = siphash_end(&hash);
	hash = begun;
	siphash_word(&hash, last | 1ull << 48);
	key->words[1] = siphash_end(&hash);
	return 0;
}

/*
 * SipHash-2-4 of two words. A static function by itself: hashing takes all registers, and its
 * caller needs them for other things.
 */
static __noinline __u64 siphash_two(__u64 key_first, __u64 key_second, __u64 first, __u64 second)
{
	struct mark_key key = { { key_first, key_second } };
	struct siphash hash;

	siphash_begin(&hash, &key);
	siphash_word(&hash, first);
	siphash_word(&hash, second);
	return siphash_end(&hash);
}

/* time: as wire.h says, whole; number: as it travels, in host order; kind: see there */
static __always_inline __u32 tag_compute(const struct mark_key *flow, __u64 time, __u32 number, __u32 kind)
{
	return siphash_two(flow->words[0], flow->words[1], time,
			   number | (__u64)kind << 32 | (__u64)MARK_MESSAGE << 56);
}

/* The time of a mark that carries none, from UTC in nanoseconds. */
static __always_inline __u64 tag_epoch(__u64 utc_ns)
{
	return utc_ns >> WIRE_TAG_EPOCH;
}

/* The most by which a mark's time and the clock of its destination may differ. */
#define TAG_FRESH_NS (1ll << 35)
/* Up to this difference, half an epoch, marks without a time are always accepted, too. */
#define TAG_NEAR_NS (1ll << (WIRE_TAG_EPOCH - 1))

#endif
