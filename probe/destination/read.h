/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Which reader reads which option of IPv6. */
#ifndef PILLION_DESTINATION_READ_H
#define PILLION_DESTINATION_READ_H

#include "altmark.h"
#include "ioam.h"
#include "native.h"
#include "pdm.h"

/*
 * X(reader, option type): reader##_read, in a header of its own, reads the options of this type.
 * It sets encoding by option_belongs, fields to what it read (WIRE_CARRIES_*), and foreign if
 * the option is a mark, but not one as our source writes it.
 */
#define READERS(X)                                                                                 \
	X(loss, WIRE_OPTION_LOSS)                                                                  \
	X(delay, WIRE_OPTION_DELAY)                                                                \
	X(altmark, WIRE_OPTION_ALTMARK)                                                            \
	X(ioam, WIRE_OPTION_IOAM)                                                                  \
	X(trace, WIRE_OPTION_IOAM_HOPS)                                                            \
	X(pdm, WIRE_OPTION_PDM)

#define READ_CASE(reader, option_type)                                                             \
	case option_type:                                                                          \
		return reader##_read(m, o);

/* Options that a host has to skip, if it does not know them, have these bits zero (RFC 8200). */
#define OPTION_REFUSED 0xc0

static __always_inline int option_read(struct mark *m, const struct option *o)
{
	switch (o->type) {
		READERS(READ_CASE)
	}
	return o->type & OPTION_REFUSED ? OPTION_MALFORMED : OPTION_OTHER;
}

#define READ_KNOWN(reader, option_type) o->type == option_type ||

static __always_inline int option_is_known(const struct option *o)
{
	return READERS(READ_KNOWN) 0;
}

#endif
