/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* A mark, and what may become of a packet. */
#ifndef PILLION_DESTINATION_MARK_H
#define PILLION_DESTINATION_MARK_H

#include "../../wire/wire.h"
#include "../bpf/packet.h"
#include "../module/all.h"
#include "../bpf/slot.h"

enum verdict {
	VERDICT_MARKED,
	VERDICT_UNMARKED,
	VERDICT_COUNTED,   /* no mark, but of a flow of which only some packets carry one */
	VERDICT_MALFORMED, /* begins like a mark, but is none */
	VERDICT_INNER,	   /* inner addresses or length do not belong to the outer header */
	VERDICT_PEER,	   /* a mark from a host that is not a peer */
	VERDICT_FILTER,	   /* a mark of a peer, in a packet of no flow that is to be measured */
	VERDICT_FORGED,	   /* the tag is not valid for a peer at this time, or there is none */
	VERDICT_REPLAYED,  /* the tag is right, but the mark came before */
	VERDICT_FLOW,	   /* the source numbers flows by other fields than this destination */
	VERDICT_TRANSIT,   /* the packet goes on to another host, whose mark it is */
	VERDICTS,
};

/* Instead of a verdict: the header at the offset at has to be read option by option (walk.h). */
#define READ_OPTIONS_SINGLY VERDICTS

const volatile __u16 udp_port = WIRE_UDP_PORT;

/* When a mark is removed that no socket sees: in an option of the transport, or in PDM. */
#define STRIP_AUTO 0 /* where the packet is forwarded */
#define STRIP_ALWAYS 1
#define STRIP_NEVER 2

const volatile __u32 strip_options = STRIP_AUTO;

/* The highest number of an agent in a mark that is read: flows have it in their keys, and marks with others the one above. */
#define INGRESS_MAX 0xfffe

/* Offsets count from the start of the IP packet. */
struct mark {
	struct flow_key key __attribute__((aligned(8))); /* zero: ingress, so that flows of two agents differ */
	__be32 peer[4]; /* aligned likewise: source address of the outermost header */
	struct wire_timestamp sent;
	struct wire_timestamp received; /* by a waypoint; zero: none wrote it */
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
	__u8 fields;  /* what options of IPv6 carry: WIRE_CARRIES_* */
	__u8 kind;    /* what the tag of a standard's mark covers: WIRE_TAG_*; 0: modules, see tag_kind */
	__u8 foreign; /* the header has other options, too, or they lie as we do not write them: it stays */
	__u8 route;   /* where the packet goes, once it was looked up for it */
	__u8 aggregate; /* fields of the flow that the numbers are of; 0: all */
	__u8 hops;    /* the header is a Hop-by-Hop header, in which routers may have written */
	__u8 trace_at; /* where the option of a trace begins in the header, if fields has WIRE_CARRIES_HOPS */
	__u8 amends; /* on its way to another host, and we write the time of its arrival here into it */
	__s8 epoch; /* of the tag of a mark without a time, relative to the epoch of its arrival */
	__u32 ingress; /* number of the agent that wrote the mark, or zero; host order */
	__u8 hop_limit, traffic_class;	/* of the outermost header, if there are modules */
	__u16 module_bytes;		/* of options of modules, which end a shim */
	__u64 carried;			/* modules with an option in the mark: MODULE_BIT */
	__u8 module_data[MODULE_COUNT][WIRE_MODULE_DATA_MAX];
};

/* Has the number of the mark 16 bits? */
static __always_inline int has_short_number(const struct mark *m)
{
	return m->fields & WIRE_CARRIES_ECHO;
}

/* The fields that tell apart the flows of which its number is. */
static __always_inline __u32 mark_fields(const struct mark *m)
{
	return m->aggregate ? m->aggregate : FLOW_ALL;
}

/* Is the mark where no socket sees it? TCP options always stay; for these strip_options says when. */
static __always_inline int may_stay(const struct mark *m)
{
	return m->encoding == WIRE_ENCODING_UDP_OPTION || m->encoding == WIRE_ENCODING_PDM;
}

#endif
