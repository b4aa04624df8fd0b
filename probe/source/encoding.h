/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Which encoding a packet gets: the first of the configured list that applies to it. */
#ifndef PILLION_SOURCE_ENCODING_H
#define PILLION_SOURCE_ENCODING_H

#include "../../wire/wire.h"
#include "../module/all.h"
#include "subject.h"
#include "tag.h"

const volatile __u32 modules = WIRE_DELAY | WIRE_LOSS;

/* By properties of a packet (WIRE_INDEX_IPV4 ...). Written by the loader, from the list. */
const volatile __u8 encodings[WIRE_CLASSES];

/* The same without the encodings up to this one: for packets that it cannot mark. */
const volatile __u8 encodings_after[WIRE_ENCODINGS_MAX * WIRE_CLASSES];

static __always_inline int is_extended(const struct subject *s)
{
	return s->l4 != link_length + (s->key.family == 6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
}

/* The properties of a packet, as an index of the tables above. */
static __always_inline __u32 packet_class(const struct subject *s)
{
	__u32 class = s->key.family == 6 ? WIRE_INDEX_IPV6 : WIRE_INDEX_IPV4;

	class |= s->key.protocol == IPPROTO_TCP ? WIRE_INDEX_TCP :
		 s->key.protocol == IPPROTO_UDP ? WIRE_INDEX_UDP :
						  WIRE_INDEX_OTHER;
	if (s->forwarded)
		class |= WIRE_INDEX_FORWARDED;
	if (s->gso_size)
		class |= WIRE_INDEX_GSO;
	if (s->unfit || is_extended(s))
		class |= WIRE_INDEX_EXTENDED;
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

	if ((class & WIRE_INDEX_GSO) && encoding_of(class & ~WIRE_INDEX_GSO) != WIRE_ENCODING_NONE)
		return OUTCOME_GSO;
	if (is_extended(s) && encoding_of(class & ~WIRE_INDEX_EXTENDED) != WIRE_ENCODING_NONE)
		return OUTCOME_IP_OPTIONS;
	return OUTCOME_ENCODING;
}

#define MARK_LENGTH_CASE(name, go, number, packets, carries, delay, loss, both, tagged_loss,           \
			 tagged_both, text)                                                            \
	case number:                                                                                   \
		if (tagged_marks)                                                                      \
			return carried == WIRE_LOSS ? tagged_loss : tagged_both;                       \
		return carried == WIRE_DELAY ? delay : carried == WIRE_LOSS ? loss : both; /* sparse: both */

static __always_inline __u32 mark_plain(__u32 encoding, __u32 carried)
{
	if (FLOW_AGGREGATE && encoding == WIRE_ENCODING_NATIVE && carried == WIRE_LOSS)
		return WIRE_NATIVE_AGGREGATE_LOSS;
	switch (encoding) {
		WIRE_ENCODINGS(MARK_LENGTH_CASE)
	}
	return 0;
}

/* Modules with options of their own (MODULE_BIT), and the bytes of these. Written by the loader. */
const volatile __u64 modules_wanted;
const volatile __u32 module_bytes;

#define MODULES_USED (MODULE_COUNT && module_bytes)

#define INGRESS_BYTES sizeof(struct wire_option_ingress)

/* Options behind the mark's own options, and their bytes. */
#define OPTIONS_USED (MODULES_USED || ingress_number)
#define OPTION_BYTES ((MODULES_USED ? module_bytes : 0) + (ingress_number ? INGRESS_BYTES : 0))

#define MARK_MODULES_CASE(name, go, number, packets, carries, ...) \
	case number:                                               \
		return (carries) & WIRE_CARRIES_MODULES;

/* Do marks in this encoding have options of modules? */
static __always_inline int mark_has_modules(__u32 encoding)
{
	switch (encoding) {
		WIRE_ENCODINGS(MARK_MODULES_CASE)
	}
	return 0;
}

#define MARK_HEADER_CASE(name, go, number, packets, carries, ...) \
	case number:                                              \
		return ((packets) & WIRE_FORWARDED) && !((carries) & WIRE_CARRIES_MODULES);

/* Is a mark in this encoding a whole header of IPv6, to which options.h adds the number of the agent? */
static __always_inline int mark_is_header(__u32 encoding)
{
	switch (encoding) {
		WIRE_ENCODINGS(MARK_HEADER_CASE)
	}
	return 0;
}

/* Bytes of a native header up to its options of modules. */
static __always_inline __u32 native_options(__u32 carried)
{
	__u32 length = sizeof(struct wire_options);

	if (carried & WIRE_DELAY)
		length += sizeof(struct wire_option_delay);
	if (carried & WIRE_LOSS)
		length += tagged_marks ? sizeof(struct wire_option_tagged) : sizeof(struct wire_option_loss);
	if ((sparse_marks && (carried & WIRE_DELAY)) || (FLOW_AGGREGATE && (carried & WIRE_LOSS)))
		length++; /* flags */
	return length;
}

/* Bytes that a mark with these modules adds to a packet. */
static __always_inline __u32 mark_length(__u32 encoding, __u32 carried)
{
	__u32 length = mark_plain(encoding, carried);

	if (ingress_number && mark_is_header(encoding))
		return length + WIRE_INGRESS_PADDED;
	if (!OPTIONS_USED || !mark_has_modules(encoding))
		return length;
	if (encoding == WIRE_ENCODING_NATIVE)
		return (native_options(carried) + OPTION_BYTES + 7) & ~7u;
	return length + OPTION_BYTES;
}

#endif
