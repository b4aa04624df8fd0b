/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Round trips by PDM (RFC 8250). What returns in a flow says which packet of ours its host received
 * last, and how long it kept the answer: our clock alone measures the round trip, and theirs
 * the part of the host. What we send says the same of their packets.
 *
 * The first answer to a packet counts. Of a fast flow only one packet in 2^shift is remembered, so that those
 * of the last second are known.
 */
#ifndef PILLION_SOURCE_ECHO_H
#define PILLION_SOURCE_ECHO_H

#include "../bpf/note.h"
#include "delta.h"
#include "lease.h"
#include "rule.h"
#include "work.h"

#define ECHO_SENT 64
#define ECHO_SHIFT_MAX 9		/* 64 << 9 numbers are half of those that there are */
#define ECHO_SHORT_NS 1000000000ull	/* fewer packets are remembered where they leave the table before this, */
#define ECHO_LONG_NS (4 * ECHO_SHORT_NS) /* and more where they stay for so long */

/* Durations, nanoseconds. */
struct span {
	__u64 sum, min, max;
};

/* The round trips of an interval. */
struct rounds {
	__u64 interval; /* which one: round_interval */
	__u64 count;
	struct span round, host, network;
	__u64 unit;	/* the largest by which the host's part may be too small */
	__u64 strange;	/* answers of hosts that say they kept them longer than the round trip took */
};

struct echo {
	struct bpf_spin_lock lock; /* of rounds */
	__u16 last;	/* number of the newest packet received */
	__u8 shift;
	__u8 stored;	/* packets remembered since it changed, up to ECHO_SENT */
	__u64 received_ns; /* when it came, monotonic; 0: none did */
	__u64 round_ns;	   /* from the departure of the packet before it */
	__u64 sent_ns;	   /* when our newest packet left */
	__u64 sent[ECHO_SENT]; /* 48 bits of nanoseconds and the number of a packet; 0: none, or answered */
	struct rounds rounds[2]; /* of the interval that runs and of the one before */
};

/* Key: flow, as it is sent. Value: what it says of the packets that return. Written here; the agent only removes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct flow_key);
	__type(value, struct echo);
} echoes SEC(".maps");

struct blank_echo {
	__u64 words[sizeof(struct echo) / 8];
};

/* Key: 0. Value: an entry that begins. Never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct blank_echo);
} blank_echoes SEC(".maps");

volatile __u64 round_interval = 1; /* the agent adds 1 when it reads */
volatile __u64 echoes_full;	   /* packets of flows for which there was no room */

static __always_inline struct echo *echo_of(const struct flow_key *flow)
{
	struct flow_key copy = *flow, *key = &copy; /* see number_other */
	struct echo *e = bpf_map_lookup_elem(&echoes, key);
	struct blank_echo *blank;
	__u32 zero = 0;

	if (e)
		return e;
	blank = bpf_map_lookup_elem(&blank_echoes, &zero);
	if (blank)
		bpf_map_update_elem(&echoes, key, blank, BPF_NOEXIST);
	e = bpf_map_lookup_elem(&echoes, key);
	if (!e)
		__sync_fetch_and_add(&echoes_full, 1);
	return e;
}

#define ECHO_NS_BITS ((1ull << 48) - 1)

/* Remembers when a packet left. */
static __always_inline void echo_remember(struct echo *e, __u32 number, __u64 now_ns)
{
	__u32 shift = e->shift;
	__u64 *slot, before, age;

	if (shift > ECHO_SHIFT_MAX || number & ((1u << shift) - 1))
		return;
	slot = &e->sent[(number >> shift) & (ECHO_SENT - 1)];
	before = *slot;
	*(volatile __u64 *)slot = now_ns << 16 | number;
	if (e->stored < ECHO_SENT) {
		e->stored++;
		return;
	}
	age = (now_ns - (before >> 16)) & ECHO_NS_BITS;
	if (age < ECHO_SHORT_NS && before && shift < ECHO_SHIFT_MAX)
		e->shift = shift + 1;
	else if (age > ECHO_LONG_NS && before && shift)
		e->shift = shift - 1;
	else
		return;
	e->stored = 0;
}

/* Forgets a packet, if it is in this slot, and returns when it left. */
static __always_inline __u64 echo_take(struct echo *e, __u32 index, __u32 number)
{
	__u64 *slot = &e->sent[index & (ECHO_SENT - 1)], sent = *(volatile __u64 *)slot;

	if (!sent || (sent & 0xffff) != number || __sync_val_compare_and_swap(slot, sent, 0) != sent)
		return 0;
	return sent;
}

/* When the packet left that is answered; 0: unknown. It may have been remembered before the shift grew. */
static __always_inline __u64 echo_answered(struct echo *e, __u32 number)
{
	__u32 shift = e->shift;
	__u64 sent;

	if (shift > ECHO_SHIFT_MAX)
		return 0;
	sent = echo_take(e, number >> shift, number);
	return sent || !shift ? sent : echo_take(e, number >> (shift - 1), number);
}

static __always_inline void span_enter(struct span *s, __u64 ns, int first)
{
	s->sum += ns;
	if (first || ns < s->min)
		s->min = ns;
	if (first || ns > s->max)
		s->max = ns;
}

/* Holds the lock, so that what the agent reads when it has begun an interval is complete. */
static __always_inline void echo_enter(struct echo *e, __u64 round_ns, __u64 host_ns, __u64 unit)
{
	struct rounds *r;
	__u64 interval;
	int first;

	bpf_spin_lock(&e->lock);
	interval = round_interval;
	r = &e->rounds[interval & 1];
	if (r->interval != interval) {
		r->interval = interval;
		r->count = r->strange = r->unit = 0;
		r->round.sum = r->host.sum = r->network.sum = 0;
	}
	if (host_ns > round_ns + unit) {
		r->strange++;
	} else {
		first = !r->count;
		r->count++;
		span_enter(&r->round, round_ns, first);
		span_enter(&r->host, host_ns, first);
		span_enter(&r->network, round_ns > host_ns ? round_ns - host_ns : 0, first);
		if (unit > r->unit)
			r->unit = unit;
	}
	bpf_spin_unlock(&e->lock);
}

/* What a packet says of those that were received. */
struct answer {
	__u16 last;
	struct delta host, round;
};

/* A packet with this number leaves. key: of its flow */
static __always_inline void echo_send(const struct flow_key *key, __u32 number, struct answer *answer)
{
	struct echo *e = echo_of(key);
	__u64 now_ns = bpf_ktime_get_ns();

	if (!e)
		return;
	if (e->received_ns) {
		answer->last = e->last;
		answer->host = delta_of(now_ns - e->received_ns);
		answer->round = delta_of(e->round_ns);
	}
	e->sent_ns = now_ns;
	echo_remember(e, number, now_ns);
}

/* A packet with this option came. key: of the flow, as it is sent */
static __always_inline void echo_receive(const struct flow_key *key, const struct wire_option_pdm *pdm)
{
	struct delta host = { .value = bpf_ntohs(pdm->delta_last_received), .scale = pdm->scale_last_received };
	__u64 now_ns = bpf_ktime_get_ns(), sent;
	__u16 number = bpf_ntohs(pdm->number);
	struct echo *e = echo_of(key);

	if (!e)
		return;
	if (!e->received_ns || (__s16)(number - e->last) > 0 || now_ns - e->received_ns > ECHO_SHORT_NS) {
		e->last = number;
		e->round_ns = e->sent_ns ? now_ns - e->sent_ns : 0;
		e->received_ns = now_ns;
	}
	if (!host.value && !pdm->last && !host.scale) /* nothing received */
		return;
	sent = echo_answered(e, bpf_ntohs(pdm->last));
	if (sent)
		echo_enter(e, ((now_ns & ECHO_NS_BITS) - (sent >> 16)) & ECHO_NS_BITS, delta_ns(host), delta_unit_ns(host));
}

#define ECHO_HEADER 64 /* longer headers of options are not looked at, bytes */
#define ECHO_OPTIONS 8

struct echo_walk {
	__u8 *header;
	__u32 at, end, found;
};

/* Returns 1 where the walk ends. */
static long echo_step(__u32 index, struct echo_walk *walk)
{
	__u32 at = walk->at & (ECHO_HEADER - 1);

	if (walk->at + 2 > walk->end)
		return 1;
	if (walk->header[at] == WIRE_OPTION_PAD1) {
		walk->at++;
		return 0;
	}
	if (walk->header[at] == WIRE_OPTION_PDM) {
		if (walk->header[at + 1] == WIRE_OPTION_PDM_LENGTH && at + sizeof(struct wire_option_pdm) <= walk->end)
			walk->found = at;
		return 1;
	}
	walk->at = at + 2 + walk->header[at + 1];
	return 0;
}

/* Finds the option in a header of a size, which is in w->mark. Returns its offset, or 0. */
static __always_inline __u32 echo_find(struct work *w, __u32 size)
{
	struct echo_walk walk = { .header = w->mark, .at = sizeof(struct wire_options), .end = size };

	bpf_loop(ECHO_OPTIONS, echo_step, &walk, 0);
	return walk.found & (ECHO_HEADER - 1);
}

/*
 * A packet with a Destination Options header came. With tags, only what the destination on this device has
 * accepted counts. A global function: the verifier proves it once.
 */
__noinline int echo_hear(struct __sk_buff *skb)
{
	struct work *w = work_of_cpu();
	__be16 ports[2] = {};
	struct wire_options *head;
	struct flow_key *key;
	__u32 at, size, found;

	if (!w || (tagged_marks && !was_read(skb)))
		return 0;
	work_clear(w);
	if (read_packet(skb, &w->subject) || w->subject.next != NEXT_OPTIONS)
		return 0;
	at = w->subject.l4;
	head = (void *)w->mark;
	if (bpf_skb_load_bytes(skb, at, head, 8))
		return 0;
	size = bounded_length((head->length + 1) * 8, ECHO_HEADER);
	if (!size || bpf_skb_load_bytes(skb, at, w->mark, size))
		return 0;
	found = echo_find(w, size);
	if (!found)
		return 0;
	key = &w->flow;
	*key = w->subject.key;
	key->protocol = head->next_header;
	if (protocol_has_ports(key->protocol) && bpf_skb_load_bytes(skb, at + size, ports, sizeof(ports)))
		return 0;
	key->sport = ports[0];
	key->dport = ports[1];
	flow_reverse(key);
	if (rule_match(key) == policy_index + 1 && bpf_jiffies64() < lease_until)
		echo_receive(key, (void *)w->mark + found);
	return 0;
}

#endif
