/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Which encoding a packet gets: the first of the configured list that applies to it. */
#ifndef PILLION_SOURCE_ENCODING_H
#define PILLION_SOURCE_ENCODING_H

#include "../../wire/wire.h"
#include "subject.h"
#include "tag.h"

const volatile __u32 modules = WIRE_DELAY | WIRE_LOSS;

/* By properties of a packet (WIRE_IPV4 ...). Written by the loader, from the list. */
const volatile __u8 encodings[WIRE_CLASSES];

/* The same without the encodings up to this one: for packets that it cannot mark. */
const volatile __u8 encodings_after[WIRE_ENCODINGS_MAX * WIRE_CLASSES];

/* Bit by number: those that occur in the list. The verifier removes the code of others. */
const volatile __u32 encodings_used;

#define ENCODING_USED(name) (encodings_used & 1u << WIRE_ENCODING_##name)

static __always_inline int is_extended(const struct subject *s)
{
	return s->l4 != link_length + (s->key.family == 6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
}

static __always_inline __u32 packet_class(const struct subject *s)
{
	__u32 class = s->key.family == 6 ? WIRE_IPV6 : WIRE_IPV4;

	class |= s->key.protocol == IPPROTO_TCP ? WIRE_TCP :
		 s->key.protocol == IPPROTO_UDP ? WIRE_UDP :
						  WIRE_OTHER;
	if (s->forwarded)
		class |= WIRE_FORWARDED;
	if (s->gso_size)
		class |= WIRE_GSO;
	if (s->unfit || is_extended(s))
		class |= WIRE_EXTENDED;
	return class;
}

static __always_inline __u32 encoding_of(__u32 class)
{
	return encodings[class & (WIRE_CLASSES - 1)];
}

/* encoding: one that applies to the class */
static __always_inline __u32 encoding_after(__u32 encoding, __u32 class)
{
	return encodings_after[(encoding & (WIRE_ENCODINGS_MAX - 1)) * WIRE_CLASSES + (class & (WIRE_CLASSES - 1))];
}

/* Why no encoding applies to a packet of this class. */
static __always_inline int encoding_refused(const struct subject *s)
{
	__u32 class = packet_class(s);

	if ((class & WIRE_GSO) && encoding_of(class & ~WIRE_GSO) != WIRE_ENCODING_NONE)
		return OUTCOME_GSO;
	if (is_extended(s) && encoding_of(class & ~WIRE_EXTENDED) != WIRE_ENCODING_NONE)
		return OUTCOME_IP_OPTIONS;
	return OUTCOME_ENCODING;
}

#define MARK_LENGTH_CASE(name, go, number, packets, delay, loss, both, tagged_loss, tagged_both, text) \
	case number:                                                                                   \
		if (tagged_marks)                                                                      \
			return carried == WIRE_LOSS ? tagged_loss : tagged_both;                       \
		return carried == WIRE_DELAY ? delay : carried == WIRE_LOSS ? loss : both; /* sparse: both */

/* Bytes that a mark with these modules adds to a packet. */
static __always_inline __u32 mark_length(__u32 encoding, __u32 carried)
{
	switch (encoding) {
		WIRE_ENCODINGS(MARK_LENGTH_CASE)
	}
	return 0;
}

#endif
