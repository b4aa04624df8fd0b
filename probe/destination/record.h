/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* One record per marked packet, if requested. */
#ifndef PILLION_DESTINATION_RECORD_H
#define PILLION_DESTINATION_RECORD_H

#include "mark.h"

const volatile __u32 records_wanted;

/* Host byte order, except for the key. */
struct record {
	__u64 received_ns; /* UTC */
	__s64 delay_ns;	   /* zero without the delay module */
	__u32 sequence;	   /* with WIRE_SINGLE, as in the mark; zero without the loss module */
	__u32 length;	   /* of the restored IP packet, bytes */
	__u16 packets;	   /* on the wire: more than one in a buffer merged by GRO */
	__u8 modules;
	__u8 encoding;
	__u32 zero;
	struct flow_key key;
};

/* Written here, read by the agent. While it is full, new records are dropped. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps");

/* Returns 0, or -1 if the ring buffer is full. */
static __always_inline int record_write(const struct mark *m, __u64 now_ns, __s64 delay, __u32 packets)
{
	struct record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record)
		return -1;
	record->received_ns = now_ns;
	record->delay_ns = delay;
	record->sequence = m->modules & WIRE_LOSS ? m->sequence : 0;
	record->length = m->length;
	record->packets = packets;
	record->modules = m->modules & (WIRE_DELAY | WIRE_LOSS);
	record->encoding = m->encoding;
	record->zero = 0;
	record->key = m->key;
	bpf_ringbuf_submit(record, 0);
	return 0;
}

#endif
