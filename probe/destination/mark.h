/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* A mark, and what may become of a packet. */
#ifndef PILLION_DESTINATION_MARK_H
#define PILLION_DESTINATION_MARK_H

#include "../../wire/wire.h"
#include "../bpf/packet.h"
#include "../bpf/slot.h"

enum verdict {
	VERDICT_MARKED,
	VERDICT_UNMARKED,
	VERDICT_COUNTED,   /* no mark, but of a flow of which only some packets carry one */
	VERDICT_MALFORMED, /* begins like a mark, but is none */
	VERDICT_INNER,	   /* inner addresses or length do not belong to the outer header */
	VERDICT_PEER,	   /* a mark from a host that is not a peer */
	VERDICT_FILTER,	   /* a mark of a peer, in a packet of no flow that is to be measured */
	VERDICT_FORGED,	   /* the tag is not that of a peer and this moment, or there is none */
	VERDICT_REPLAYED,  /* the tag is right, but the mark came before */
	VERDICTS,
};

const volatile __u16 udp_port = WIRE_UDP_PORT;

/* When a mark in an option of the transport is cut off. */
#define STRIP_AUTO 0 /* where the packet is forwarded */
#define STRIP_ALWAYS 1
#define STRIP_NEVER 2

const volatile __u32 strip_options = STRIP_AUTO;

/* Offsets count from the start of the IP packet. */
struct mark {
	struct flow_key key __attribute__((aligned(8)));
	__be32 peer[4]; /* aligned likewise: source address of the outermost header */
	struct wire_timestamp sent;
	__u32 ticks;	/* instead of sent, in an option of the transport; host order */
	__u32 sequence;	/* host order */
	__u32 tag;	/* host order, if tagged */
	__u32 length;	/* of the restored packet */
	__u16 at;	/* where the header or shim begins */
	__u16 size;	/* of the header or shim; of a TCP header that has the mark in it */
	__u16 outer;	/* bytes of outer headers, which go with the mark */
	__u8 hop_by_hop; /* length of the Hop-by-Hop header, or zero */
	__u8 modules;
	__u8 encoding;
	__u8 next;
	__u8 tagged;
	__u8 added; /* bytes by which a mark lengthened the header of a TCP segment */
};

#endif
