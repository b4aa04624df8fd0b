/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * TCP segments that a path may drop because of their mark: segments that, due to the mark, are
 * larger than any unmarked segment of the connection. If no router reports the path MTU, the
 * retransmission of such segments reveals it.
 *   - A retransmission of that size carries no mark, so every connection continues after at most
 *     one retransmission timeout.
 *   - One marked segment of a flow at a time is watched. If it is retransmitted, packets that a mark
 *     would make larger than unmarked ones are not marked for some time, and the agent is asked to
 *     test the path MTU. Segments are lost for other reasons, too: the test requires the loss of most of
 *     the last watched segments to a destination, or of three in a row of one flow.
 *   - If the flow continues for a second after the segment, packets of that size do arrive: a later
 *     loss then proves nothing.
 * Segments of a GSO buffer that are too large are made smaller by the size of the mark (room.h): only
 * they are marked meanwhile. With the tcp-option encoding, the kernel leaves room in segments.
 */
#ifndef PILLION_SOURCE_RETRANSMIT_H
#define PILLION_SOURCE_RETRANSMIT_H

#include "encoding.h"
#include "number.h"
#include "path.h"
#include "quote.h"
#include "verdict.h"
#include "work.h"

/* Bytes; a sequence number that is lower by more belongs to a new connection with the same ports. */
#define REPEATED_MOST (1u << 26)

#define WATCH_SHIFT 27 /* coarse ns to units of 134 ms */
#define WATCH_UNITS 8  /* after which a segment that was not retransmitted has arrived */
#define WATCH_WINDOW 16
#define WATCH_FAILURES 3

/* Arrival of watched segments at a destination. */
struct arrival {
	struct path path;
	__u32 proven; /* bytes: marked packets of this size arrive */
	__u32 watched; /* larger segments that were watched: about the last WATCH_WINDOW */
	__u32 failed; /* retransmitted ones of the watched segments */
};

#define ARRIVALS 1024

/* Key: hash of a destination. Value: the last destination with this hash. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ARRIVALS);
	__type(key, __u32);
	__type(value, struct arrival);
} arrivals SEC(".maps");

/* Key: five-tuple. Value: its TCP state, if packets are numbered by aggregate. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct flow_key);
	__type(value, struct sending);
} sendings SEC(".maps");

/* Numbers belong to one connection. */
#define SENDINGS_NUMBERED (VERDICTS_KEPT && (modules & WIRE_LOSS))

/* numbers: of the packet's aggregate, or 0 if it is in no slot */
static __always_inline struct sending *sending_of(struct work *w, struct numbering *numbers, struct tally *tally)
{
	struct sending fresh = {}, *sending;
	struct flow_key key;

	if (SENDINGS_NUMBERED) {
		if (!numbers)
			numbers = number_other(&w->flow, tally);
		if (!numbers)
			return 0;
		asm volatile("" : "+r"(numbers)); /* or the offset is added before the check */
		return &numbers->sending;
	}
	key = w->subject.key; /* see number_other */
	sending = bpf_map_lookup_elem(&sendings, &key);
	if (sending)
		return sending;
	bpf_map_update_elem(&sendings, &key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&sendings, &key);
}

static __always_inline struct arrival *arrival_at(const struct flow_key *key)
{
	__u64 mix = (key->dst[0] ^ (__u64)key->dst[1] << 32) * 0x9e3779b97f4a7c15ull;
	struct path path = path_to(key);
	struct arrival *arrival;
	__u32 index;

	mix = (mix ^ key->dst[2] ^ (__u64)key->dst[3] << 32) * 0xc2b2ae3d27d4eb4full;
	index = mix >> 32 & (ARRIVALS - 1);
	arrival = bpf_map_lookup_elem(&arrivals, &index);
	if (!arrival)
		return 0;
	if (arrival->path.family != path.family || !same_address(arrival->path.dst, path.dst)) {
		arrival->path = path;
		arrival->proven = arrival->watched = arrival->failed = 0;
	}
	return arrival;
}

/*
 * Notes what a flow sends. size: bytes of a packet without a mark. Returns whether some of
 * it was sent before.
 */
static __always_inline int sending_advance(struct sending *sending, __u32 first, __u32 data, __u32 size)
{
	__u32 behind = sending->top - first;

	if (!sending->largest || ((__s32)behind > 0 && behind > REPEATED_MOST)) {
		sending->top = first + data;
		sending->largest = size;
		sending->when = sending->failed = 0;
		return 0;
	}
	if (sending->largest < size)
		sending->largest = size;
	else /* a path MTU that TCP has learned is noticed in time */
		sending->largest -= (sending->largest - size) >> 8;
	if ((__s32)(behind - data) < 0)
		sending->top = first + data;
	return (__s32)behind > 0;
}

static __always_inline __u8 watch_units(void)
{
	return bpf_ktime_get_coarse_ns() >> WATCH_SHIFT | 1; /* never 0 */
}

/* The watched segment was retransmitted. least: what every link takes */
static __always_inline void watch_failed(const struct flow_key *key, struct sending *sending, __u32 marked,
					 __u32 least)
{
	struct arrival *arrival = arrival_at(key);
	struct path path;

	sending->when = 0;
	sending->failed++;
	if (!arrival)
		return;
	if (marked > arrival->proven)
		arrival->failed++;
	if (sending->failed < WATCH_FAILURES && (marked <= arrival->proven || arrival->failed * 2 < arrival->watched))
		return;
	arrival->proven = arrival->watched = arrival->failed = 0;
	sending->failed = 0;
	path_hold(key, sending->largest > least ? sending->largest : least);
	path = path_to(key);
	path_hint(&path);
}

/*
 * Looks at a segment that is to be marked. Returns an outcome if it is to stay as it is. A
 * global function: the verifier proves it once.
 */
__noinline int segment_look(struct work *w, struct numbering *numbers, __u32 encoding, __u32 limit,
			    struct tally *tally)
{
	__u32 headers, data, first, size, marked, least;
	struct sending *sending;
	struct subject *s;
	int repeated;

	if (!w || !tally)
		return 0;
	s = &w->subject;
	headers = s->l4 - link_length + s->l4_length;
	if (s->length <= headers)
		return 0; /* acknowledgements and SYN, which carry no data, and probes of a window */
	sending = sending_of(w, numbers, tally);
	if (!sending)
		return 0;
	data = s->length - headers;
	first = bpf_ntohl(s->sequence);
	size = s->gso_size ? headers + s->gso_size : s->length;
	repeated = sending_advance(sending, first, data, size);
	marked = size + mark_length(encoding, modules);
	least = s->key.family == 6 ? PATH_LEAST_6 : PATH_LEAST_4;
	if (repeated && sending->when && sending->watched - first < data)
		watch_failed(&s->key, sending, marked, least);
	if (marked > limit) {
		if (paths_known)
			path_resume(&s->key);
		return 0;
	}
	if (marked <= least || marked <= sending->largest)
		return 0;
	if (repeated)
		return OUTCOME_RETRANSMITTED;
	w->watch = marked;
	return 0;
}

/* A large segment was marked. Watches it, unless another one is. */
__noinline int segment_watch(struct work *w, struct numbering *numbers, struct tally *tally)
{
	struct arrival *arrival;
	struct sending *sending;
	struct subject *s;
	__u8 now;

	if (!w || !tally)
		return 0;
	s = &w->subject;
	sending = sending_of(w, numbers, tally);
	now = watch_units();
	if (!sending || (sending->when && (__u8)(now - sending->when) < WATCH_UNITS))
		return 0;
	arrival = arrival_at(&s->key);
	if (!arrival)
		return 0;
	if (sending->when) { /* the one before has arrived */
		sending->failed = 0;
		if (w->watch > arrival->proven) {
			arrival->proven = w->watch;
			arrival->watched = arrival->failed = 0;
			if (paths_known)
				path_proven(&s->key);
		}
	}
	sending->watched = bpf_ntohl(s->sequence);
	sending->when = now;
	if (w->watch <= arrival->proven)
		return 0;
	if (++arrival->watched > WATCH_WINDOW) {
		arrival->watched /= 2;
		arrival->failed /= 2;
	}
	return 0;
}

#endif
