/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Durations of PDM (RFC 8250): 16 bits times 2^scale attoseconds. A nanosecond is 5^9 * 2^9 of
 * these, so that 64 bits suffice. The reference is Delta in wire/test/codec.
 */
#ifndef PILLION_SOURCE_DELTA_H
#define PILLION_SOURCE_DELTA_H

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#define DELTA_NS 1953125ull /* 5^9 */
#define DELTA_SCALE 9	    /* of 2^9 attoseconds */
#define DELTA_NS_MAX (~0ull / DELTA_NS) /* 2.6 h; longer ones are taken for it */

struct delta {
	__u16 value;
	__u8 scale;
};

#define DELTA_SHIFT(above, by)                \
	if (value >> (above)) {               \
		value >>= (by);               \
		scale += (by);                \
	}

static __always_inline struct delta delta_of(__u64 ns)
{
	__u64 value = (ns < DELTA_NS_MAX ? ns : DELTA_NS_MAX) * DELTA_NS;
	__u8 scale = DELTA_SCALE;

	if (!value)
		scale = 0;
	DELTA_SHIFT(48, 32)
	DELTA_SHIFT(32, 16)
	DELTA_SHIFT(24, 8)
	DELTA_SHIFT(20, 4)
	DELTA_SHIFT(18, 2)
	DELTA_SHIFT(17, 1)
	DELTA_SHIFT(16, 1)
	return (struct delta){ .value = value, .scale = scale };
}

/* In nanoseconds, rounded down. Scales of others that 64 bits do not hold give the longest. */
static __always_inline __u64 delta_ns(struct delta d)
{
	__u64 value = d.value;
	__u32 shift = d.scale - DELTA_SCALE;

	if (d.scale < DELTA_SCALE)
		return (value >> (DELTA_SCALE - d.scale)) / DELTA_NS;
	if (shift > 63 || value << shift >> shift != value)
		return value ? DELTA_NS_MAX : 0;
	return (value << shift) / DELTA_NS;
}

/* By how much that can be too small, nanoseconds, rounded up. */
static __always_inline __u64 delta_unit_ns(struct delta d)
{
	__u32 shift = d.scale - DELTA_SCALE;

	if (d.scale < DELTA_SCALE)
		return 1;
	return shift > 63 ? DELTA_NS_MAX : (1ull << shift) / DELTA_NS + 1;
}

#endif
