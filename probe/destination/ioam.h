/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Edge-to-edge options of IOAM (RFC 9197), whoever wrote them. Of a number the lower 31 bits
 * count, and it belongs to one packet: nobody repeats it. An option that is not as our source
 * writes it stays in its packet.
 */
#ifndef PILLION_DESTINATION_IOAM_H
#define PILLION_DESTINATION_IOAM_H

#include "../bpf/clock.h"
#include "layout.h"
#include "option.h"

/* In which format others write times (RFC 9197, section 5). Ours are NTP timestamps. */
#define IOAM_TIME_NTP 0	  /* seconds since 1900 and 2^-32 s, UTC */
#define IOAM_TIME_PTP 1	  /* seconds since 1970 and ns, TAI */
#define IOAM_TIME_POSIX 2 /* seconds since 1970 and us, UTC */

const volatile __u32 ioam_time = IOAM_TIME_NTP;

#define TAI_UTC_SECONDS 37 /* since 2017; no further leap second is announced */

/* Where the fields begin in the data of the option, behind type, namespace and the set of fields. */
#define E2E_FIELDS (WIRE_IOAM_OPTION_HEAD + 2)
#define E2E_KNOWN (WIRE_E2E_SEQUENCE64 | WIRE_E2E_SEQUENCE32 | WIRE_E2E_TIME)

/* A time of others as an NTP timestamp. Returns -1 if its fraction is not one. */
static __always_inline int e2e_time(struct wire_timestamp *sent, __u32 seconds, __u32 fraction)
{
	__u32 unit = ioam_time == IOAM_TIME_PTP ? 1 : 1000; /* ns */

	if (ioam_time == IOAM_TIME_PTP)
		seconds -= TAI_UTC_SECONDS;
	if (fraction >= NS_PER_SECOND / unit)
		return -1;
	*sent = clock_to_wire((__u64)fraction * unit);
	sent->seconds = bpf_htonl(seconds + WIRE_NTP_UNIX);
	return 0;
}

static __always_inline __u32 e2e_size(__u32 fields)
{
	__u32 size = 0;

	if (fields & WIRE_E2E_SEQUENCE64)
		size += 8;
	if (fields & WIRE_E2E_SEQUENCE32)
		size += 4;
	if (fields & WIRE_E2E_SECONDS)
		size += 4;
	if (fields & WIRE_E2E_FRACTION)
		size += 4;
	return size;
}

static __always_inline const __u8 *e2e_read_number(struct mark *m, const __u8 *at, __u32 fields)
{
	if (!(fields & (WIRE_E2E_SEQUENCE64 | WIRE_E2E_SEQUENCE32)))
		return at;
	if (fields & WIRE_E2E_SEQUENCE64)
		at += 4; /* the upper half */
	read_loss(m, at);
	if (fields & WIRE_E2E_SEQUENCE64 || !(m->sequence & WIRE_SINGLE))
		m->foreign = 1;
	m->sequence |= WIRE_SINGLE;
	m->fields |= WIRE_CARRIES_NUMBER;
	return at + 4;
}

/* fields: with a whole time; the time in a foreign option may have another format. */
static __always_inline int e2e_read_time(struct mark *m, const __u8 *at)
{
	__be32 seconds = *(const __be32 *)at, fraction = *(const __be32 *)(at + 4);

	m->sent.seconds = seconds;
	m->sent.fraction = fraction;
	m->modules |= WIRE_DELAY;
	m->fields |= WIRE_CARRIES_TIME;
	if (ioam_time == IOAM_TIME_NTP || !m->foreign)
		return 0;
	return e2e_time(&m->sent, bpf_ntohl(seconds), bpf_ntohl(fraction));
}

static __always_inline int ioam_read(struct mark *m, const struct option *o)
{
	const __u8 *at = o->data + E2E_FIELDS;
	__u32 fields;

	if (o->length < WIRE_IOAM_OPTION_HEAD)
		return OPTION_MALFORMED;
	if (o->data[1] != WIRE_IOAM_E2E)
		return OPTION_OTHER;
	if (o->length < E2E_FIELDS)
		return OPTION_MALFORMED;
	fields = bpf_ntohs(*(const __be16 *)(o->data + WIRE_IOAM_OPTION_HEAD));
	if (fields & ~E2E_KNOWN || !(~fields & (WIRE_E2E_SEQUENCE64 | WIRE_E2E_SEQUENCE32)))
		return OPTION_OTHER;
	if (o->length != E2E_FIELDS + e2e_size(fields))
		return OPTION_MALFORMED;
	if (m->encoding == WIRE_ENCODING_IOAM_TRACE)
		m->kind = WIRE_TAG_IOAM_TRACE;
	else if (option_belongs(m, WIRE_ENCODING_IOAM_E2E))
		m->kind = WIRE_TAG_IOAM_E2E;
	else
		return OPTION_OTHER;
	if (o->data[0] || *(const __be16 *)(o->data + 2) != bpf_htons(WIRE_IOAM_NAMESPACE))
		m->foreign = 1;
	if (ioam_time != IOAM_TIME_NTP && !(fields & WIRE_E2E_SEQUENCE32)) /* nothing tells it from ours */
		m->foreign = 1;
	at = e2e_read_number(m, at, fields);
	if (m->foreign) /* no tag of ours covers what such an option says */
		m->kind = 0;
	if ((fields & WIRE_E2E_TIME) == WIRE_E2E_TIME)
		return e2e_read_time(m, at) ? OPTION_MALFORMED : OPTION_READ;
	if (fields & WIRE_E2E_TIME)
		m->foreign = 1;
	return OPTION_READ;
}

#define TRACE_LENGTH (sizeof(struct wire_option_trace) - 2 + WIRE_TRACE_NODES * WIRE_TRACE_ENTRY)

/* The space for routers, if it is one; what they wrote is read later, by the agent. */
static __always_inline int trace_read(struct mark *m, const struct option *o)
{
	const struct wire_option_trace *trace = (const void *)o->data - 2;
	__u32 lengths, words, filled;

	if (o->length < WIRE_IOAM_OPTION_HEAD)
		return OPTION_MALFORMED;
	if (o->data[1] != WIRE_IOAM_TRACE || !m->hops)
		return OPTION_OTHER;
	if (o->length < sizeof(*trace) - 2)
		return OPTION_MALFORMED;
	lengths = bpf_ntohs(trace->lengths);
	words = lengths >> WIRE_TRACE_ENTRY_SHIFT;
	filled = (o->length + 2 - sizeof(*trace)) / 4 - (lengths & WIRE_TRACE_LEFT_MASK);
	if (!words || filled > 0xff || filled % words) /* 0xff: more words are left than there are */
		return OPTION_MALFORMED;
	if (!option_belongs(m, WIRE_ENCODING_IOAM_TRACE))
		return OPTION_OTHER;
	m->fields |= WIRE_CARRIES_HOPS;
	m->trace_at = o->at;
	if (o->length != TRACE_LENGTH || o->data[0] || trace->ioam.namespace != bpf_htons(WIRE_IOAM_NAMESPACE) ||
	    words != WIRE_TRACE_ENTRY / 4 || trace->fields != bpf_htonl(WIRE_TRACE_FIELDS))
		m->foreign = 1;
	return OPTION_READ;
}

#endif
