/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which sequence numbers of a flow have arrived: loss (RFC 7680), duplication
 * (RFC 5560) and reordering (RFC 4737).
 *
 * A single packet owns its number. The packets of a burst all carry the
 * burst's first number; they fill the numbers from there upward, up to the
 * next first number that was seen. What finds no free number is a duplicate.
 *
 * packets = unique + duplicated + late; lost = expected - unique.
 *
 * Of a sparse flow (WIRE_SPARSE) only some packets carry a number, which counts the
 * others, too: between two of them so many were sent, and so many arrived. Which one
 * was lost, or came twice, or late, is unknown: packets = unique + late, and a duplicate
 * offsets a loss.
 */
#ifndef PILLION_DESTINATION_WINDOW_H
#define PILLION_DESTINATION_WINDOW_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "../../wire/wire.h"

#define WINDOW 1024 /* numbers that are remembered; a packet further behind is late */
#define WINDOW_WORDS (WINDOW / 64)
#define WINDOW_HEAD 64	      /* a flow this close to its base has just begun */
#define WINDOW_JUMP (1 << 24) /* further ahead is a restart, not loss */

struct window {
	__u32 begun;
	__u32 next;   /* behind the highest number in use */
	__u32 top;    /* highest first number seen: what RFC 4737 compares with */
	__u32 before; /* next as it was before the flow restarted */
	__u64 began;  /* expected as it was when the flow began */
	__u32 joined; /* we may have missed the beginning of the first burst */
	__u16 sparse;
	__u8 narrow; /* the flow began with a number of 16 bits: nobody knows the bits above */
	__u8 strayed; /* the last number was far behind, and stray is the next one */
	__u16 stray;
	__u16 zero[3];
	__u64 expected;
	__u64 unique;
	__u64 duplicated;
	__u64 reordered;
	__u64 late;
	__u64 restarts;
	__u64 unchecked;	      /* packets of a sparse flow */
	__u64 pending, pending_bytes; /* since the last number ahead: not counted yet */
	__u64 seen[WINDOW_WORDS];   /* bit of each number, modulo WINDOW */
	__u64 starts[WINDOW_WORDS]; /* numbers that were a first number */
};

#define WORD(number) (((number) / 64) & (WINDOW_WORDS - 1))
#define BIT(number) (1ull << ((number) & 63))

/* a - b as a distance on the ring of 31-bit numbers. */
static __always_inline __s32 window_apart(__u32 a, __u32 b)
{
	return (__s32)((a - b) << 1) >> 1;
}

static __always_inline __u32 window_add(__u32 number, __u32 count)
{
	return (number + count) & WIRE_SEQUENCE_MASK;
}

/* The lowest count bits. */
static __always_inline __u64 low_bits(__s32 count)
{
	if (count <= 0)
		return 0;
	return count >= 64 ? ~0ull : (1ull << (count & 63)) - 1;
}

/* What a range of numbers is set to: FILL_BURST is the inside of a burst. */
#define FILL_NONE 0
#define FILL_BURST 1
#define FILL_SINGLES 2

struct window_fill {
	struct window *window;
	__u32 first;
	__s32 length;
	int fill;
};

/* One word; a callback, or Linux 6.1 follows each way through each of the words. */
static long window_word(__u32 index, struct window_fill *range)
{
	__s32 begin = index * 64 - (range->first & 63); /* of the word, counted from first */
	__u32 word = (range->first / 64 + index) & (WINDOW_WORDS - 1);
	struct window *w = range->window;
	__u64 mask;

	if (begin >= range->length)
		return 1;
	mask = low_bits(range->length - begin) & ~low_bits(-begin);
	if (range->fill == FILL_NONE)
		w->seen[word] &= ~mask;
	else
		w->seen[word] |= mask;
	if (range->fill == FILL_SINGLES)
		w->starts[word] |= mask;
	else
		w->starts[word] &= ~mask;
	return 0;
}

/* Sets count numbers from first on. */
__noinline int window_range(struct window *w, __u32 first, __u32 count, int fill)
{
	struct window_fill range = { .window = w, .first = first, .length = count < WINDOW ? count : WINDOW, .fill = fill };

	if (w)
		bpf_loop(WINDOW_WORDS + 1, window_word, &range, 0);
	return 0;
}

/* Numbers up to first + count are now in use. */
static __always_inline void window_advance(struct window *w, __u32 first, __u32 count)
{
	__u32 gap = window_apart(first, w->next);

	if (gap)
		window_range(w, w->next, gap, FILL_NONE);
	window_range(w, first, count, FILL_BURST);
	w->starts[WORD(first)] |= BIT(first);
	w->expected += gap + count;
	w->unique += count;
	w->next = window_add(first, count);
	w->top = first;
}

/* A flow starts or restarts with this number. */
static __always_inline void window_start(struct window *w, __u32 first, int joined)
{
	if (w->begun)
		w->restarts++;
	w->before = w->next;
	if (!w->begun)
		w->before = window_add(first, 1u << 30);
	w->begun = 1;
	w->next = w->top = first;
	w->began = w->expected;
	w->joined = joined;
	w->narrow = w->strayed = 0;
	window_range(w, 0, WINDOW, FILL_NONE);
}

/* The same: what is missing since its base was lost. */
static __always_inline void window_begin(struct window *w, __u32 first, int single)
{
	__u32 head = first & (WIRE_FLOW_STRIDE - 1);

	window_start(w, head < WINDOW_HEAD ? first - head : first, head >= WINDOW_HEAD && !single);
}

/*
 * The burst during which we joined the flow is over. How much of it we missed is
 * unknown, so the account begins after it.
 */
static __always_inline void window_settle(struct window *w, __u32 first)
{
	w->joined = 0;
	w->began = w->expected;
	w->next = w->top = first;
}

/* A packet far from the expected number: did the flow restart? */
static __always_inline int window_strange(const struct window *w, __u32 first, __s32 ahead)
{
	__u32 head = first & (WIRE_FLOW_STRIDE - 1);

	if (ahead < 0)
		return ahead < -(__s32)WIRE_FLOW_STRIDE;
	return ahead > WINDOW_JUMP || (ahead > (__s32)WIRE_FLOW_STRIDE && head < WINDOW_HEAD);
}

/* A straggler from before the flow restarted. */
static __always_inline int window_past(const struct window *w, __u32 first)
{
	__s32 behind = window_apart(w->before, first);

	return w->begun && behind > 0 && behind <= WINDOW;
}

struct window_walk {
	struct window *window;
	__u32 first;
	__u32 left; /* packets still without a number */
	__u32 limit;
};

/* One number upward: stop at the next first number. */
static long window_step(__u32 index, struct window_walk *walk)
{
	struct window *w = walk->window;
	__u32 at = walk->first + index;

	if (!walk->left || index >= walk->limit)
		return 1;
	if (index && (w->starts[WORD(at)] & BIT(at)))
		return 1;
	if (!(w->seen[WORD(at)] & BIT(at))) {
		w->seen[WORD(at)] |= BIT(at);
		w->unique++;
		walk->left--;
	}
	return 0;
}

/* One number upward: take back what an earlier burst claimed in excess. */
static long window_give_back(__u32 index, struct window_walk *walk)
{
	struct window *w = walk->window;
	__u32 at = walk->first + index;

	if (index >= walk->limit || (w->starts[WORD(at)] & BIT(at)) ||
	    !(w->seen[WORD(at)] & BIT(at)))
		return 1;
	w->seen[WORD(at)] &= ~BIT(at);
	w->unique--;
	w->duplicated++;
	return 0;
}

/*
 * A number that is not ahead. Returns 1 if it is the first arrival of its
 * first number.
 */
static __always_inline int window_behind(struct window *w, __u32 first, __u32 count, int single)
{
	__u32 behind = window_apart(w->next, first);
	struct window_walk walk = { .window = w, .first = first, .left = count, .limit = behind };
	int fresh, overtaken = window_apart(first, w->top) < 0;

	/* What was sent before the flow began here is not expected. */
	if (behind > WINDOW || behind > w->expected - w->began) {
		w->late += count;
		return 0;
	}
	fresh = !(w->starts[WORD(first)] & BIT(first));
	if (fresh) {
		if (w->seen[WORD(first)] & BIT(first))
			bpf_loop(WINDOW, window_give_back, &walk, 0);
		w->starts[WORD(first)] |= BIT(first);
		if (!overtaken)
			w->top = first;
	}
	if (single)
		walk.limit = 1;
	bpf_loop(WINDOW, window_step, &walk, 0);
	if (walk.left && !single && w->top == first) {
		/* The newest burst: its end is not known yet. */
		window_range(w, w->next, walk.left, FILL_BURST);
		w->expected += walk.left;
		w->unique += walk.left;
		w->next = window_add(w->next, walk.left);
		walk.left = 0;
	}
	if (overtaken)
		w->reordered += count - walk.left;
	w->duplicated += walk.left;
	return fresh;
}

/* The common case: the next single packet, in order. Returns 1 if so. */
static __always_inline int window_next(struct window *w, __u32 sequence, __u32 count)
{
	__u32 first = w->next;

	if (sequence != (first | WIRE_SINGLE) || !w->begun || w->sparse || count != 1)
		return 0;
	w->seen[WORD(first)] |= BIT(first);
	w->starts[WORD(first)] |= BIT(first);
	w->expected++;
	w->unique++;
	w->next = window_add(first, 1);
	w->top = first;
	return 1;
}

/* A run of such packets. */
static __always_inline void window_run(struct window *w, __u32 count)
{
	w->strayed = 0;
	window_range(w, w->next, count, FILL_SINGLES);
	w->expected += count;
	w->unique += count;
	w->next = window_add(w->next, count);
	w->top = window_add(w->next, WIRE_SEQUENCE_MASK); /* one less */
}

/* More packets than this beyond those sent: not reordering, but marking was interrupted. */
#define WINDOW_EXCESS WINDOW

/* Packets of a sparse flow, and their bytes. */
struct window_sum {
	__u64 packets, bytes;
};

/* Packets of a sparse flow that no mark, or none with a number ahead, has come with. */
static __always_inline void window_unmarked(struct window *w, __u64 packets, __u64 bytes)
{
	w->pending += packets;
	w->pending_bytes += bytes;
}

/* Counts what is pending, though maybe nothing says how many were lost. */
static __always_inline void window_count(struct window *w, struct window_sum *sum)
{
	sum->packets += w->pending;
	sum->bytes += w->pending_bytes;
	w->unchecked += w->pending;
	w->pending = w->pending_bytes = 0;
}

/* So many packets were sent since the last number ahead, and these arrived. */
static __always_inline void window_close(struct window *w, __u32 sent, struct window_sum *sum)
{
	__u64 arrived = w->pending, most = (__u64)sent + WINDOW_EXCESS;

	w->expected += sent;
	w->unique += arrived < most ? arrived : most;
	window_count(w, sum);
}

/*
 * count packets of a sparse flow with this sequence field. Where there are several, they
 * are a burst, and the number belongs to the first. They count, as packets without a mark do,
 * when the next number ahead arrives. sum: zero, and then what counts now.
 * Returns 1 on a first arrival, which a copy of a single packet is taken for.
 */
static __always_inline int window_sparse(struct window *w, __u32 sequence, __u32 count, __u32 length,
					 struct window_sum *sum)
{
	__u32 first = sequence & WIRE_SEQUENCE_MASK;
	__s32 ahead = window_apart(first, w->next);

	if (!w->begun || !w->sparse || window_strange(w, first, ahead)) {
		if (window_past(w, first)) {
			w->late += count;
			sum->packets = count;
			sum->bytes = length;
			return 0;
		}
		window_count(w, sum);
		window_begin(w, first, 1);
		w->sparse = 1;
		ahead = window_apart(first, w->next);
	}
	window_unmarked(w, count, length);
	if (ahead < 0) /* overtaken, or the rest of a burst */
		return !!(sequence & WIRE_SINGLE);
	window_close(w, ahead + 1, sum);
	w->next = window_add(first, 1);
	return 1;
}

/*
 * count packets with this sequence field arrived. Returns 1 on a first arrival.
 * A global function: the verifier proves it once, apart from its callers.
 */
__noinline int window_arrive(struct window *w, __u32 sequence, __u32 count)
{
	__u32 first = sequence & WIRE_SEQUENCE_MASK;
	int single = !!(sequence & WIRE_SINGLE);
	__s32 ahead;

	if (!w)
		return 0;
	ahead = window_apart(first, w->next);
	if (!w->begun || w->sparse || window_strange(w, first, ahead)) {
		if (window_past(w, first)) {
			w->late += count;
			return 0;
		}
		window_begin(w, first, single);
		w->sparse = 0;
		ahead = window_apart(first, w->next);
	}
	if (ahead < 0)
		return window_behind(w, first, count, single);
	if (w->joined && w->expected != w->began)
		window_settle(w, first);
	window_advance(w, first, single ? 1 : count);
	if (single && count > 1)
		w->duplicated += count - 1;
	return 1;
}

#endif
