/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Traces of IOAM (RFC 9197): what the routers on the way wrote into a Hop-by-Hop header. They go
 * to the agent as they are; only the mark behind a trace is in the figures of flows.
 */
#ifndef PILLION_DESTINATION_TRACE_H
#define PILLION_DESTINATION_TRACE_H

#include "option.h"
#include "peer.h"

const volatile __u32 traces_wanted;

/* Maximum of trace data that is read, bytes: what fits into the longest extension header that is parsed. */
#define TRACE_DATA_MAX 144
#define TRACE_DATA_AT_MAX 128 /* where it may begin in its header */

/* Host byte order, except for the key and the fields from lengths on, which are copied from the packet. */
struct trace {
	__u64 received_ns; /* UTC */
	__u64 sent_ns;	   /* UTC; zero if the source did not say */
	__u32 number;	   /* of the packet in its flow; zero without one */
	__u16 length;	   /* of the data */
	__be16 lengths;
	__be32 fields;
	__u32 zero;
	struct flow_key key;
	__u8 data[TRACE_DATA_MAX];
};

_Static_assert(TRACE_DATA_AT_MAX + TRACE_DATA_MAX <= 256 + OPTION_REACH, "a trace lies in the copy of its header");

/* Written here, emptied by the agent, which sets its size. When it is full, new traces are dropped. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} traces SEC(".maps");

/* Traces for the agent, and how many of them found no room in the ring buffer. */
struct trace_tally {
	__u64 written;
	__u64 dropped;
};

/* Key: 0. Value: the counts of each CPU. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct trace_tally);
} trace_tallies SEC(".maps");

static __always_inline void trace_fill(struct trace *trace, const struct mark *m, const struct header *header,
				       __u32 at, __u64 now_ns)
{
	const struct wire_option_trace *option = (const void *)(header->bytes + at);

	trace->received_ns = now_ns;
	trace->sent_ns = m->modules & WIRE_DELAY ? now_ns - delay_of(m, now_ns) : 0;
	trace->number = m->modules & WIRE_LOSS ? m->sequence & WIRE_SEQUENCE_MASK : 0;
	trace->length = option->ioam.length + 2 - sizeof(*option);
	trace->lengths = *(const __be16 *)((const void *)option + __builtin_offsetof(struct wire_option_trace, lengths));
	trace->fields = *(const __be32 *)((const void *)option + __builtin_offsetof(struct wire_option_trace, fields));
	trace->zero = 0;
	trace->key = m->key;
	copy_words(trace->data, option + 1, TRACE_DATA_MAX);
}

/* The header is still in the copy that the walk read. A global function: the verifier proves it once. */
__noinline int trace_write(const struct mark *m, __u64 now_ns)
{
	__u32 zero = 0, at;
	struct header *header = bpf_map_lookup_elem(&headers, &zero);
	struct trace_tally *tally = bpf_map_lookup_elem(&trace_tallies, &zero);
	struct trace *trace;

	if (!m || !header || !tally)
		return -1;
	at = m->trace_at;
	if (at >= TRACE_DATA_AT_MAX - sizeof(struct wire_option_trace))
		return -1;
	trace = bpf_ringbuf_reserve(&traces, sizeof(*trace), 0);
	if (!trace) {
		tally->dropped++;
		return -1;
	}
	trace_fill(trace, m, header, at & (TRACE_DATA_AT_MAX - 1), now_ns);
	bpf_ringbuf_submit(trace, 0);
	tally->written++;
	return 0;
}

/* Whether a packet without a mark, and so without a tag, is of a flow that needs no tag. Global, as above. */
__noinline int trace_wanted(const struct mark *m)
{
	const struct peer *peer;
	__u32 position;

	if (!m)
		return 0;
	peer = peer_of(m, &position);
	return peer && peer_wants(peer, &m->key, FLOW_ALL) && !peer_wants_tag(peer, m);
}

/*
 * Hands the trace of a packet to the agent. counted: the verdict on its mark. The trace of a packet
 * without a mark, which a router may have begun, is no part of any flow.
 */
static __always_inline void trace_take(const struct mark *m, int counted, __u64 now_ns)
{
	if (!traces_wanted || !(m->fields & WIRE_CARRIES_HOPS) || is_path_probe(m))
		return;
	if (counted != VERDICT_MARKED && (counted != VERDICT_UNMARKED || !trace_wanted(m)))
		return;
	trace_write(m, now_ns ? now_ns : clock_utc_ns());
}

#endif
