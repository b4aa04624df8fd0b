/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Options of PDM (RFC 8250), whoever wrote them. Their numbers have 16 bits. What they say of
 * the other direction is for the source on this host (source/echo.h), so that they stay in
 * packets that are delivered here.
 */
#ifndef PILLION_DESTINATION_PDM_H
#define PILLION_DESTINATION_PDM_H

#include "layout.h"
#include "option.h"

#define PDM_NUMBER_AT (__builtin_offsetof(struct wire_option_pdm, number) - 2)

static __always_inline int pdm_read(struct mark *m, const struct option *o)
{
	if (o->length != WIRE_OPTION_PDM_LENGTH)
		return OPTION_MALFORMED;
	if (!option_belongs(m, WIRE_ENCODING_PDM))
		return OPTION_OTHER;
	m->sequence = bpf_ntohs(*(const __be16 *)(o->data + PDM_NUMBER_AT)) | WIRE_SINGLE;
	m->modules |= WIRE_LOSS;
	m->fields |= WIRE_CARRIES_NUMBER | WIRE_CARRIES_ECHO;
	m->kind = WIRE_TAG_PDM;
	return OPTION_READ;
}

#endif
