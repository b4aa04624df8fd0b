/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Options of IPv6 that carry a mark, or a part of one: what their readers work with. */
#ifndef PILLION_DESTINATION_OPTION_H
#define PILLION_DESTINATION_OPTION_H

#include "mark.h"

/* The longest header in which options are looked for one by one, bytes. */
#define WALK_LENGTH 160

/* An offset is a byte, and a reader may look at this many bytes behind it. */
#define OPTION_REACH 64

/* How far a header agrees with what a source writes. */
enum walk_stage {
	WALK_BEGIN,
	WALK_ALIGNED, /* behind PadN of zero bytes */
	WALK_MARK,
	WALK_MODULES,
	WALK_PADDED,
};

/* A header, and how far the walk through it has come: on the stack the verifier would follow each way that it can take. */
struct header {
	__u8 bytes[256 + OPTION_REACH]; /* what is behind the header is left from another one */
	__be16 ports[2];		/* of what follows the header, or zero */
	__u16 end;			/* of the header */
	__u16 at;
	__u64 seen; /* bit n: an option of type n */
	__u8 stage;
	__u8 known;  /* something in the header is meant for us */
	__u8 broken; /* an option that cannot be read */
	__u8 zero[5];
};

/* Key: 0. Value: the header that a CPU walks through. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct header);
} headers SEC(".maps");

/*
 * An option that ends inside its header. data: in the copy of the header; OPTION_REACH - 2 bytes
 * of it can be read, of which only those inside length belong to the option.
 */
struct option {
	__u8 type;
	__u8 length;
	__u8 at; /* of the option in its header */
	const __u8 *data;
};

/* What a reader returns. */
#define OPTION_READ 0	   /* part of the mark */
#define OPTION_MODULE 1	   /* adds to a mark (WIRE_OPTION_MODULE) */
#define OPTION_OTHER 2	   /* of a kind that is not read: the header stays in the packet */
#define OPTION_MALFORMED 3 /* no such option: it is no mark at all */

/* Takes an option for a mark in an encoding. Returns 0 if the header has another mark already. */
static __always_inline int option_belongs(struct mark *m, __u8 encoding)
{
	if (m->encoding == WIRE_ENCODING_NONE)
		m->encoding = encoding;
	return m->encoding == encoding;
}

#endif
