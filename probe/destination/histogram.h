/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Log-linear histograms of nanoseconds, without a ceiling.
 *
 * Fine (delays of zero and more): below 2^FINE_FIRST linear in steps of
 * 2^(FINE_FIRST - 5); then 32 buckets an octave, so that a bucket's width is
 * at most 1/32 (3.2 %) of its lower edge, up to 2^FINE_LAST (68.7 s); then one
 * bucket an octave.
 *
 * Coarse (variation, and delays below zero, which a clock offset makes): by
 * magnitude, below 2^COARSE_FIRST linear, then 8 buckets an octave (12.5 %) up
 * to 2^COARSE_LAST, then one for the rest.
 */
#ifndef PILLION_DESTINATION_HISTOGRAM_H
#define PILLION_DESTINATION_HISTOGRAM_H

#include <linux/types.h>

#define FINE_FIRST 10
#define FINE_LAST 36
#define FINE_SUB 5
#define FINE_LINEAR (1 << FINE_SUB)
#define FINE_OCTAVES (FINE_LAST - FINE_FIRST)
#define FINE_BUCKETS (FINE_LINEAR + FINE_OCTAVES * (1 << FINE_SUB))
#define FINE_TOTAL (FINE_BUCKETS + 64 - FINE_LAST)

/*
 * Where in its bucket a value lies, in 1/256 of the bucket's width. The sum over
 * a bucket gives its centroid: a delay that hardly varies would otherwise be
 * known no better than the bucket is wide.
 */
#define FINE_OFFSET 8

#define COARSE_FIRST 8
#define COARSE_LAST 36
#define COARSE_SUB 3
#define COARSE_LINEAR (1 << COARSE_SUB)
#define COARSE_OCTAVES (COARSE_LAST - COARSE_FIRST)
#define COARSE_BUCKETS (COARSE_LINEAR + COARSE_OCTAVES * (1 << COARSE_SUB))
#define COARSE_TOTAL (COARSE_BUCKETS + 1)

/* Position of the highest bit that is set; value must not be zero. */
static __always_inline __u32 highest_bit(__u64 value)
{
	__u32 bit = 0;

	if (value >> 32)
		bit += 32, value >>= 32;
	if (value >> 16)
		bit += 16, value >>= 16;
	if (value >> 8)
		bit += 8, value >>= 8;
	if (value >> 4)
		bit += 4, value >>= 4;
	if (value >> 2)
		bit += 2, value >>= 2;
	return bit + (value >> 1);
}

static __always_inline __u32 fine_bucket(__u64 value, __u32 *offset)
{
	__u32 octave, width; /* both as powers of two */

	if (value < (1ull << FINE_FIRST)) {
		*offset = (value << (FINE_OFFSET - FINE_FIRST + FINE_SUB)) & ((1 << FINE_OFFSET) - 1);
		return value >> (FINE_FIRST - FINE_SUB);
	}
	octave = highest_bit(value);
	width = octave >= FINE_LAST ? octave : octave - FINE_SUB;
	*offset = ((width < FINE_OFFSET ? value << (FINE_OFFSET - width) : value >> (width - FINE_OFFSET))) &
		  ((1 << FINE_OFFSET) - 1);
	if (octave >= FINE_LAST)
		return FINE_BUCKETS + octave - FINE_LAST;
	return FINE_LINEAR + ((octave - FINE_FIRST) << FINE_SUB) +
	       ((value >> width) & ((1 << FINE_SUB) - 1));
}

static __always_inline __u32 coarse_bucket(__u64 value)
{
	__u32 octave;

	if (value < (1ull << COARSE_FIRST))
		return value >> (COARSE_FIRST - COARSE_SUB);
	octave = highest_bit(value);
	if (octave >= COARSE_LAST)
		return COARSE_BUCKETS;
	return COARSE_LINEAR + ((octave - COARSE_FIRST) << COARSE_SUB) +
	       ((value >> (octave - COARSE_SUB)) & ((1 << COARSE_SUB) - 1));
}

#endif
