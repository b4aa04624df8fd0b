/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Numbers of 16 bits (PDM) in the window of 31 bits. */
#ifndef PILLION_DESTINATION_NARROW_H
#define PILLION_DESTINATION_NARROW_H

#include "window.h"

/* The sequence field with the number that is nearest to the next one and has its lower 16 bits. */
static __always_inline __u32 window_near(const struct window *w, __u32 sequence)
{
	__s16 ahead = sequence - w->next;

	return w->begun ? window_add(w->next, ahead) | (sequence & WIRE_SINGLE) : sequence;
}

/*
 * A number of 16 bits, as window_near returned it, comes. The flow begins with the first, and anew where a
 * number far behind is not late: the one behind it follows (as in RFC 3550, A.1).
 */
static __always_inline void window_follow(struct window *w, __u32 sequence)
{
	__u32 first = sequence & WIRE_SEQUENCE_MASK;
	int far = window_apart(first, w->next) < -WINDOW;

	if (!w->begun || w->sparse || (far && w->strayed && (__u16)first == w->stray)) {
		window_start(w, first, 0);
		w->sparse = 0;
		w->narrow = 1;
		return;
	}
	w->strayed = far;
	w->stray = first + 1;
}

#endif
