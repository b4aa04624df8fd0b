/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which of the packets that can be marked are marked (PSAMP, RFC 5475): systematic
 * count-based in each flow, uniform random, hash-based on content, systematic time-based. The
 * agent changes them while traffic flows; a packet must pass all that are set. A segmentation
 * buffer counts as one packet. Packets that cannot be marked are not counted.
 */
#ifndef PILLION_SOURCE_SAMPLE_H
#define PILLION_SOURCE_SAMPLE_H

#include "../bpf/packet.h"
#include "../bpf/tag.h"
#include "number.h"
#include "policy.h"

struct sampling {
	struct mark_key seed; /* of the hash */
	__u64 gap_ns; /* minimum time between chosen packets; 0: no limit */
	__u32 every;  /* 1-in-N of each flow; 0 and 1: all */
	__u32 random; /* probability, in units of 2^-32; 0: all */
	__u32 hashed; /* hashes below this are chosen, of 2^32; 0: all */
	__u32 zero;
};

volatile struct sampling samplings[POLICIES_MAX]; /* by policy */
volatile __u32 sampled_policies PER_PACKET;	  /* bit by policy: those whose sampling leaves packets out */

/* By policy: when the time-based sampler may choose the next packet; CLOCK_MONOTONIC ns. */
__u64 sample_next_ns[POLICIES_MAX];

#define SAMPLING (sampled_policies & 1u << policy_index)
#define SAMPLING_OF_POLICY (&samplings[policy_index & (POLICIES_MAX - 1)])

/*
 * The counter of a flow starts at a random value, so that the position of the first chosen packet
 * is uniform from 1 to N.
 */
static __always_inline int sample_by_count(struct numbering *numbers, __u32 every)
{
	return __sync_fetch_and_add(&numbers->sampled, 1) % every == 0;
}

static __always_inline int sample_by_time(__u64 gap_ns)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 *due = &sample_next_ns[policy_index & (POLICIES_MAX - 1)];
	__u64 next = *(volatile __u64 *)due;

	return now >= next && __sync_val_compare_and_swap(due, next, now + gap_ns) == next;
}

#define SAMPLE_CONTENT 32	  /* bytes of content in the hash */
#define SAMPLE_TCP_SEQUENCE 4	  /* offset of sequence and acknowledgement in a TCP header ... */
#define SAMPLE_TCP_LENGTH 8	  /* ... and their length: what TCP identifies a segment by */
#define SAMPLE_MESSAGE 72	  /* bytes: flow key, content */
#define SAMPLE_SCTP_HEADER 12	  /* ports, verification tag, checksum */
#define SAMPLE_PORTS_HEADER 8	  /* of UDP, UDP-Lite, DCCP: with a checksum that may be computed later */

/* Returns the offset of the content that no router changes, if the transport header is at offset l4. */
static __always_inline __u32 sample_content(__u8 protocol, __u32 l4)
{
	switch (protocol) {
	case IPPROTO_TCP:
		return l4 + SAMPLE_TCP_SEQUENCE;
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_DCCP:
		return l4 + SAMPLE_PORTS_HEADER;
	case IPPROTO_SCTP:
		return l4 + SAMPLE_SCTP_HEADER;
	}
	return l4;
}

/*
 * The hash of a packet: SipHash-2-4 of its addresses, ports, protocol and first content, with
 * the seed that all points of a measurement share, so that they choose the same packets.
 * l4, end: offsets of the transport header and of the end of the packet. A global function:
 * the verifier verifies it once, not at each call.
 */
__noinline __u32 sample_hash(struct __sk_buff *skb, const struct flow_key *key, __u32 l4, __u32 end)
{
	const struct slot_key *words = (const void *)key;
	__u64 content[SAMPLE_CONTENT / 8] = {};
	struct siphash hash;
	struct mark_key seed;
	__u32 at, length;

	if (!key)
		return 0;
	at = sample_content(key->protocol, l4);
	length = at < end ? end - at : 0;
	if (length > SAMPLE_CONTENT)
		length = SAMPLE_CONTENT;
	if (key->protocol == IPPROTO_TCP && length > SAMPLE_TCP_LENGTH)
		length = SAMPLE_TCP_LENGTH;
	length = bounded_length(length, SAMPLE_CONTENT);
	if (length)
		bpf_skb_load_bytes(skb, at, content, length);
	seed.words[0] = SAMPLING_OF_POLICY->seed.words[0];
	seed.words[1] = SAMPLING_OF_POLICY->seed.words[1];
	siphash_begin(&hash, &seed);
	siphash_word(&hash, SIPHASH_WORD(words->words[0]));
	siphash_word(&hash, SIPHASH_WORD(words->words[1]));
	siphash_word(&hash, SIPHASH_WORD(words->words[2]));
	siphash_word(&hash, SIPHASH_WORD(words->words[3]));
	siphash_word(&hash, SIPHASH_WORD(words->last));
	siphash_word(&hash, SIPHASH_WORD(content[0]));
	siphash_word(&hash, SIPHASH_WORD(content[1]));
	siphash_word(&hash, SIPHASH_WORD(content[2]));
	siphash_word(&hash, SIPHASH_WORD(content[3]));
	siphash_word(&hash, (__u64)SAMPLE_MESSAGE << 56);
	return siphash_end(&hash);
}

/* Not inlined: most packets are not sampled. */
static __noinline int sample_choose(struct __sk_buff *skb, struct numbering *numbers, const struct flow_key *key,
				    __u32 l4, __u32 end)
{
	volatile struct sampling *sampling = SAMPLING_OF_POLICY;
	__u32 every = sampling->every, random = sampling->random, hashed = sampling->hashed;
	__u64 gap_ns = sampling->gap_ns;

	numbers->used = bpf_jiffies64(); /* a flow of which no packet is chosen for long is not idle */
	if (every > 1 && !sample_by_count(numbers, every))
		return 0;
	if (random && bpf_get_prandom_u32() >= random)
		return 0;
	if (hashed && sample_hash(skb, key, l4, end) >= hashed)
		return 0;
	return !gap_ns || sample_by_time(gap_ns);
}

/*
 * Returns whether to mark a packet that can be marked. numbers: numbering of its flow; key: its
 * five-tuple; l4, end: see sample_hash.
 */
static __always_inline int sample(struct __sk_buff *skb, struct numbering *numbers, const struct flow_key *key,
				  __u32 l4, __u32 end)
{
	return LIKELY(!SAMPLING) || sample_choose(skb, numbers, key, l4, end);
}

#endif
