/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The layout of every histogram of nanoseconds, as measure/histogram reads it; the
 * golden vectors there hold for this file too.
 *
 * Values from 0 to HISTOGRAM_EXACT - 1 have a bucket each. From there each octave
 * has 2^HISTOGRAM_BITS buckets of equal width, so that a bucket is at most 1/32
 * (3.2 %) of its values wide; from 2^HISTOGRAM_WIDE (68.7 s) on, one bucket holds
 * a whole octave. Negative values mirror the others by their one's complement.
 */
#ifndef PILLION_HISTOGRAM_H
#define PILLION_HISTOGRAM_H

#include <linux/types.h>

#define HISTOGRAM_FIRST 6
#define HISTOGRAM_WIDE 36
#define HISTOGRAM_BITS 5
#define HISTOGRAM_EXACT (1 << HISTOGRAM_FIRST)
#define HISTOGRAM_WIDE_INDEX \
	(HISTOGRAM_EXACT + ((HISTOGRAM_WIDE - HISTOGRAM_FIRST) << HISTOGRAM_BITS))
#define HISTOGRAM_SIDE (HISTOGRAM_WIDE_INDEX + 63 - HISTOGRAM_WIDE) /* buckets of a sign */

/*
 * Buckets are kept in pages of 32: an octave each, but for the ends. A histogram
 * of both signs has HISTOGRAM_PAGES of them, zero in the middle.
 */
#define HISTOGRAM_PAGE 32
#define HISTOGRAM_SIDE_PAGES ((HISTOGRAM_SIDE + HISTOGRAM_PAGE - 1) / HISTOGRAM_PAGE)
#define HISTOGRAM_PAGES (2 * HISTOGRAM_SIDE_PAGES)

struct histogram_place {
	__u32 page, bucket; /* in the page */
	__u64 offset;	    /* value minus the bucket's lower bound */
};

/* Position of the highest bit of each byte. */
static const __u8 highest_bits[256] = {
	[2 ... 3] = 1,	 [4 ... 7] = 2,	  [8 ... 15] = 3,    [16 ... 31] = 4,
	[32 ... 63] = 5, [64 ... 127] = 6, [128 ... 255] = 7,
};

/*
 * Position of the highest bit of a value from HISTOGRAM_EXACT on. The steps are 16 us,
 * 4 ms and 1 s: most values of one kind lie between two of them, so the processor predicts
 * the branches. It mispredicts the branches of a binary search.
 */
static __always_inline __u32 highest_bit(__u64 value)
{
	__u32 bit = HISTOGRAM_FIRST;

	value >>= HISTOGRAM_FIRST;
	for (int i = 0; i < 7 && value > 255; i++)
		bit += 8, value >>= 8;
	return bit + highest_bits[value & 255];
}

/*
 * The number of the bucket of a value from zero on, below HISTOGRAM_SIDE. inside
 * masks the bits of the offset in it.
 */
static __always_inline __u32 histogram_side(__u64 value, __u64 *inside)
{
	__u32 octave, width; /* both as powers of two */

	*inside = 0;
	if (value < HISTOGRAM_EXACT)
		return value;
	octave = highest_bit(value);
	width = octave < HISTOGRAM_WIDE ? octave - HISTOGRAM_BITS : octave;
	*inside = (1ull << width) - 1;
	if (octave >= HISTOGRAM_WIDE)
		return HISTOGRAM_WIDE_INDEX + octave - HISTOGRAM_WIDE;
	return HISTOGRAM_EXACT + ((octave - HISTOGRAM_FIRST) << HISTOGRAM_BITS) +
	       ((value >> width) & ((1 << HISTOGRAM_BITS) - 1));
}

/* The number of a value's bucket, from -HISTOGRAM_SIDE to HISTOGRAM_SIDE - 1. */
static __always_inline __s32 histogram_index(__s64 value, __u64 *offset)
{
	__s64 sign = value >> 63; /* 0, or -1 for the one's complement */
	__s32 index = histogram_side(value ^ sign, offset);

	*offset &= value; /* of negative values too, since widths are powers of two */
	return index ^ (__s32)sign;
}

static __always_inline struct histogram_place histogram_find(__s64 value)
{
	struct histogram_place at;
	__s32 index = histogram_index(value, &at.offset);

	at.page = (index >> HISTOGRAM_BITS) + HISTOGRAM_SIDE_PAGES;
	at.bucket = index & (HISTOGRAM_PAGE - 1);
	return at;
}

#endif
