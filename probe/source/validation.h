/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Path validation: an encoding is used towards a destination once packets marked
 * in it have been seen to arrive there. The agent finds that out with path probes,
 * datagrams that this program marks in the encoding that their firewall mark names.
 */
#ifndef PILLION_SOURCE_VALIDATION_H
#define PILLION_SOURCE_VALIDATION_H

#include "encoding.h"
#include "lease.h"
#include "number.h"

const volatile __u32 validate_paths;	/* 0: every encoding may be used everywhere */
volatile __u32 validations_state PER_PACKET; /* counted up by the agent when a state changes */

enum validation_state {
	VALIDATION_UNKNOWN, /* not tested yet, or without an answer */
	VALIDATION_PASSED,
	VALIDATION_FAILED,
};

struct encoded_path {
	__be32 dst[4];
	__u16 family;
	__u16 encoding;
};

struct validation {
	__u32 state;
	__u32 zero;
	__u64 used; /* kernel ticks when a flow last asked */
};

/* Key: destination and encoding. Value: its validation. Entered here, written by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct encoded_path);
	__type(value, struct validation);
} validations SEC(".maps");

/* Paths that flows want to use and whose validation is unknown (struct encoded_path). */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} validation_requests SEC(".maps");

/* Global, as the next function: the verifier checks each once, not once for each result. */
__noinline int validation_of(const struct flow_key *key, __u32 encoding)
{
	struct validation *known, fresh = { .used = bpf_jiffies64() };
	struct encoded_path path = { .encoding = encoding };

	if (!key)
		return VALIDATION_UNKNOWN;
	path.family = key->family;
	copy_address(path.dst, key->dst);
	known = bpf_map_lookup_elem(&validations, &path);
	if (known) {
		if (known->used != fresh.used)
			known->used = fresh.used;
		return known->state;
	}
	if (!bpf_ringbuf_output(&validation_requests, &path, sizeof(path), 0))
		bpf_map_update_elem(&validations, &path, &fresh, BPF_NOEXIST);
	return VALIDATION_UNKNOWN;
}

/* Bit mask of the encodings whose marks are known to arrive. Adds no entries to validations. */
__noinline __u32 validations_passed(const struct flow_key *key)
{
	struct encoded_path path = {};
	struct validation *known;
	__u32 passed = 0;

	if (!key)
		return 0;
	path.family = key->family;
	copy_address(path.dst, key->dst);
	for (__u32 i = 0; i < WIRE_ENCODINGS_MAX; i++) {
		if (!(encodings_used & 1u << i))
			continue;
		path.encoding = i;
		known = bpf_map_lookup_elem(&validations, &path);
		if (!known || known->state != VALIDATION_PASSED)
			continue;
		known->used = bpf_jiffies64();
		passed |= 1u << i;
	}
	return passed;
}

static __always_inline int validation(const struct flow_key *key, __u32 encoding)
{
	return validate_paths ? validation_of(key, encoding) : VALIDATION_PASSED;
}

/* The first encoding that may be used for the packet, tried in order of preference from the given one on. */
__noinline __u32 encoding_validated(struct subject *s, __u32 encoding)
{
	__u32 class;

	if (!s)
		return WIRE_ENCODING_NONE;
	class = packet_class(s);
	for (int i = 0; i < WIRE_ENCODINGS_MAX; i++) {
		if (encoding >= WIRE_ENCODINGS_MAX || encoding == WIRE_ENCODING_TCP_OPTION)
			return encoding;
		switch (validation_of(&s->key, encoding)) {
		case VALIDATION_PASSED:
			return encoding;
		case VALIDATION_FAILED:
			s->unvalidated = OUTCOME_PATH_FAILED;
			encoding = encoding_after(encoding, class);
			break;
		default:
			s->unvalidated = OUTCOME_UNVALIDATED;
			return WIRE_ENCODING_NONE;
		}
	}
	return WIRE_ENCODING_NONE;
}

#define PROBE_UNMARKED (~0u)

/*
 * The encoding in which a path probe is to be marked, from its firewall mark:
 * below WIRE_ENCODINGS_MAX. PROBE_UNMARKED for probes that stay unmarked; any
 * other value for packets that are no probes.
 */
static __always_inline __u32 probed_encoding(const struct __sk_buff *skb)
{
	return skb->mark - probe_mark - 1;
}

/* Numbers of packets that belong to no flow: path probes, and all packets if flows are not numbered. */
struct numbering unnumbered;

#endif
