/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Our own options one by one: options of the native encoding, and options of modules. */
#ifndef PILLION_DESTINATION_NATIVE_H
#define PILLION_DESTINATION_NATIVE_H

#include "layout.h"
#include "module.h"
#include "option.h"

/* Of a loss option. Returns 0 if they mean nothing. */
static __always_inline int read_flags(struct mark *m, __u8 flags)
{
	if (flags == WIRE_SPARSE && (m->modules & WIRE_DELAY)) {
		m->modules |= WIRE_SPARSE;
		return 1;
	}
	m->aggregate = aggregate_of(flags);
	return m->aggregate != 0;
}

/* The loss option in its four lengths (wire.h). */
static __always_inline int loss_read(struct mark *m, const struct option *o)
{
	__u8 plain = o->length;

	if (!option_belongs(m, WIRE_ENCODING_NATIVE))
		return OPTION_OTHER;
	if (o->length == WIRE_OPTION_TAGGED_LENGTH || o->length == WIRE_OPTION_TAGGED_SPARSE_LENGTH)
		plain -= WIRE_TAG_LENGTH;
	if (plain == WIRE_OPTION_SPARSE_LENGTH) {
		if (!read_flags(m, o->data[4]))
			return OPTION_MALFORMED;
	} else if (plain != WIRE_OPTION_LOSS_LENGTH) {
		return OPTION_MALFORMED;
	}
	read_loss(m, o->data);
	m->fields |= WIRE_CARRIES_NUMBER;
	if (plain == o->length)
		return OPTION_READ;
	if (plain == WIRE_OPTION_SPARSE_LENGTH)
		read_tag(m, o->data + 5);
	else
		read_tag(m, o->data + 4);
	return OPTION_READ;
}

/* An option that adds to a mark. */
static __always_inline int module_option_read(struct mark *m, const struct option *o)
{
	__u8 id = o->data[0], bytes = o->length - 1;

	if (!o->length)
		return OPTION_MALFORMED;
	if (id == WIRE_MODULE_TAG) {
		if (bytes != WIRE_MODULE_TAG_LENGTH || m->tagged)
			return OPTION_MALFORMED;
		read_tag(m, o->data + 1);
		return OPTION_MODULE;
	}
	if (id == WIRE_MODULE_INGRESS) {
		if (bytes != WIRE_MODULE_INGRESS_LENGTH || m->ingress)
			return OPTION_MALFORMED;
		m->ingress = bpf_ntohl(*(const __be32 *)(o->data + 1));
		m->key.zero = m->ingress > INGRESS_MAX ? INGRESS_MAX + 1 : m->ingress;
		return OPTION_MODULE;
	}
	if (id < WIRE_MODULE_FIRST || id > WIRE_MODULE_LAST)
		return OPTION_MALFORMED;
	return module_take(m, id, bytes, o->data + 1) ? OPTION_MALFORMED : OPTION_MODULE;
}

/* The delay option, or a module's, which has the same type and another length. */
static __always_inline int delay_read(struct mark *m, const struct option *o)
{
	if (o->length != WIRE_OPTION_DELAY_LENGTH)
		return module_option_read(m, o);
	if (!option_belongs(m, WIRE_ENCODING_NATIVE))
		return OPTION_OTHER;
	if (m->fields) /* it comes first, and once */
		return OPTION_MALFORMED;
	read_delay(m, o->data);
	m->fields |= WIRE_CARRIES_TIME;
	return OPTION_READ;
}

#endif
