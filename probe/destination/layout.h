/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Reads marks between an IP header and what followed it: options of IPv6, and the shim. */
#ifndef PILLION_DESTINATION_LAYOUT_H
#define PILLION_DESTINATION_LAYOUT_H

#include "option.h"

/* Packed fields would be read byte by byte; the JIT reads words at any offset. */
static __always_inline void read_delay(struct mark *m, const void *delay)
{
	const __be32 *words = delay;

	m->sent.seconds = words[0];
	m->sent.fraction = words[1];
	m->received.seconds = words[2];
	m->received.fraction = words[3];
	m->modules |= WIRE_DELAY;
}

static __always_inline void read_loss(struct mark *m, const void *sequence)
{
	m->sequence = bpf_ntohl(*(const __be32 *)sequence);
	m->modules |= WIRE_LOSS;
}

static __always_inline void read_tag(struct mark *m, const void *tag)
{
	m->tag = bpf_ntohl(*(const __be32 *)tag);
	m->tagged = 1;
}

#define FIELD(pointer, member) ((void *)(pointer) + __builtin_offsetof(typeof(*(pointer)), member))

static __always_inline int is_loss_option(const struct wire_option_loss *o)
{
	return o->type == WIRE_OPTION_LOSS && o->length == WIRE_OPTION_LOSS_LENGTH;
}

static __always_inline int is_delay_option(const struct wire_option_delay *o)
{
	return o->type == WIRE_OPTION_DELAY && o->length == WIRE_OPTION_DELAY_LENGTH;
}

/* PadN and its zeros; one comparison costs less than one a byte. */
static __always_inline int is_delay_pad(const void *pad)
{
	return *(const __be32 *)pad == bpf_htonl(WIRE_OPTION_PADN << 24 | 2 << 16);
}

static __always_inline int is_both_pad(const void *pad)
{
	return *(const __be32 *)pad == bpf_htonl(WIRE_OPTION_PADN << 24 | 4 << 16) &&
	       *(const __be16 *)(pad + 4) == 0;
}

static __always_inline int is_sparse_option(const struct wire_option_sparse *o)
{
	return o->type == WIRE_OPTION_LOSS && o->length == WIRE_OPTION_SPARSE_LENGTH &&
	       o->flags == WIRE_SPARSE;
}

static __always_inline int is_sparse_pad(const void *pad)
{
	return *(const __be32 *)pad == bpf_htonl(WIRE_OPTION_PADN << 24 | 3 << 16) &&
	       *(const __u8 *)(pad + 4) == 0;
}

static __always_inline int is_tagged_option(const struct wire_option_tagged *o)
{
	return o->type == WIRE_OPTION_LOSS && o->length == WIRE_OPTION_TAGGED_LENGTH;
}

static __always_inline int is_tagged_sparse_option(const struct wire_option_tagged_sparse *o)
{
	return o->type == WIRE_OPTION_LOSS && o->length == WIRE_OPTION_TAGGED_SPARSE_LENGTH &&
	       o->flags == WIRE_SPARSE;
}

/* The options behind a delay that is in reach, as all of the header is. */
static __always_inline int read_both(struct mark *m, void *at)
{
	struct wire_native_both *both = at;
	struct wire_native_sparse *sparse = at;
	struct wire_native_tagged_both *tagged = at;
	struct wire_native_tagged_sparse *tagged_sparse = at;

	if (is_tagged_option(&tagged->loss) && *(__be16 *)FIELD(tagged, pad) == bpf_htons(WIRE_OPTION_PADN << 8)) {
		read_tag(m, FIELD(tagged, loss.tag));
	} else if (is_tagged_sparse_option(&tagged_sparse->loss) && !tagged_sparse->pad) {
		m->modules = WIRE_SPARSE;
		read_tag(m, FIELD(tagged_sparse, loss.tag));
	} else if (is_sparse_option(&sparse->loss) && is_sparse_pad(FIELD(sparse, pad))) {
		m->modules = WIRE_SPARSE;
	} else if (!is_loss_option(&both->loss) || !is_both_pad(FIELD(both, pad))) {
		return VERDICT_MALFORMED;
	}
	read_delay(m, FIELD(both, delay.data));
	read_loss(m, FIELD(both, loss.sequence));
	return VERDICT_MARKED;
}

/* A Destination Options header that is not laid out as one of seven. */
static __always_inline int read_other(struct mark *m, void *at, int is_own)
{
	struct wire_options *head = at;

	/* The size as it is: m->size holds no more than 16 bits, and does not overflow. */
	m->size = (head->length + 1) * 8;
	if (m->size <= WALK_LENGTH)
		return READ_OPTIONS_SINGLY;
	return is_own ? VERDICT_MALFORMED : VERDICT_UNMARKED;
}

/* A Destination Options header: one of seven layouts is read at once. */
static __always_inline int read_options(struct mark *m, void *at, void *end)
{
	struct wire_native_loss *loss = at;
	struct wire_native_delay *delay = at;
	struct wire_native_tagged_loss *tagged = at;
	struct wire_native_both *both = at;
	int verdict;

	if ((void *)(loss + 1) > end)
		return VERDICT_UNMARKED;
	if (loss->loss.type != WIRE_OPTION_LOSS && loss->loss.type != WIRE_OPTION_DELAY)
		return read_other(m, at, 0);
	m->next = loss->head.next_header;
	m->size = (loss->head.length + 1) * 8;
	if (m->size == sizeof(*loss) && is_loss_option(&loss->loss)) {
		read_loss(m, FIELD(loss, loss.sequence));
		return VERDICT_MARKED;
	}
	if (m->size == sizeof(*tagged) && (void *)(tagged + 1) <= end && is_tagged_option(&tagged->loss) &&
	    is_delay_pad(FIELD(tagged, pad))) {
		read_loss(m, FIELD(tagged, loss.sequence));
		read_tag(m, FIELD(tagged, loss.tag));
		return VERDICT_MARKED;
	}
	if (m->size == sizeof(*delay) && (void *)(delay + 1) <= end && is_delay_option(&delay->delay) &&
	    is_delay_pad(FIELD(delay, pad))) {
		read_delay(m, FIELD(delay, delay.data));
		return VERDICT_MARKED;
	}
	if (m->size == sizeof(*both) && (void *)(both + 1) <= end && is_delay_option(&both->delay)) {
		verdict = read_both(m, at);
		if (verdict == VERDICT_MARKED)
			return verdict;
	}
	return read_other(m, at, 1);
}

/* What follows the mark in a shim: options of modules, which are read later. */
static __always_inline int shim_ends(struct mark *m, __u8 type, __u32 size)
{
	if (!(type & WIRE_MODULES))
		return m->size == size;
	if (m->size <= size || m->size > size + WIRE_MODULE_BYTES_MAX)
		return 0;
	m->module_bytes = m->size - size;
	return 1;
}

/* The fields that flags name; 0 if they name none. */
static __always_inline __u8 aggregate_of(__u8 flags)
{
	return flags > WIRE_AGGREGATE && flags < (WIRE_AGGREGATE | WIRE_AGGREGATE_FIELDS) ? flags & WIRE_AGGREGATE_FIELDS : 0;
}

/* next and size are known. */
static __always_inline int read_tagged_shim(struct mark *m, void *at, void *end)
{
	struct wire_shim_tagged_loss *loss = at;
	struct wire_shim_tagged_both *both = at;
	__u8 whole = loss->shim.head.type, type = whole & ~(WIRE_TAGGED | WIRE_MODULES);

	if ((void *)(loss + 1) > end)
		return VERDICT_MALFORMED;
	if (type == WIRE_LOSS && shim_ends(m, whole, sizeof(*loss))) {
		read_loss(m, FIELD(loss, shim.sequence));
		read_tag(m, FIELD(loss, tag));
		return VERDICT_MARKED;
	}
	if ((type & ~WIRE_SPARSE) != (WIRE_DELAY | WIRE_LOSS) || !shim_ends(m, whole, sizeof(*both)) || (void *)(both + 1) > end)
		return VERDICT_MALFORMED;
	m->modules = type & WIRE_SPARSE;
	read_delay(m, FIELD(both, shim.delay));
	read_loss(m, FIELD(both, shim.sequence));
	read_tag(m, FIELD(both, tag));
	return VERDICT_MARKED;
}

static __always_inline int read_shim(struct mark *m, void *at, void *end)
{
	struct wire_shim_loss *loss = at;
	struct wire_shim_delay *delay = at;
	struct wire_shim_both *both = at;
	__u8 whole, type;

	if ((void *)(loss + 1) > end)
		return VERDICT_MALFORMED;
	m->next = loss->head.next_protocol;
	m->size = loss->head.length + WIRE_SHIM_HEAD;
	m->aggregate = aggregate_of(loss->head.flags);
	if (m->aggregate && (loss->head.type & WIRE_SPARSE))
		return VERDICT_MALFORMED;
	whole = loss->head.type;
	type = whole & ~WIRE_MODULES;
	if (whole & WIRE_TAGGED)
		return read_tagged_shim(m, at, end);
	if (type == WIRE_LOSS && shim_ends(m, whole, sizeof(*loss))) {
		read_loss(m, FIELD(loss, sequence));
		return VERDICT_MARKED;
	}
	if (type == WIRE_DELAY && shim_ends(m, whole, sizeof(*delay))) {
		if ((void *)(delay + 1) > end)
			return VERDICT_MALFORMED;
		read_delay(m, FIELD(delay, delay));
		return VERDICT_MARKED;
	}
	if ((type & ~WIRE_SPARSE) != (WIRE_DELAY | WIRE_LOSS) || !shim_ends(m, whole, sizeof(*both)) ||
	    (void *)(both + 1) > end)
		return VERDICT_MALFORMED;
	m->modules = type & WIRE_SPARSE;
	read_delay(m, FIELD(both, delay));
	read_loss(m, FIELD(both, sequence));
	return VERDICT_MARKED;
}

#endif
