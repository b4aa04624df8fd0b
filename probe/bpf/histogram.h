/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The layout of every histogram of nanoseconds, as measure/histogram reads it; the
 * golden vectors there are those of this file too.
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
