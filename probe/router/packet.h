/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What is remembered of a packet inside the router. One cache line. */
#ifndef PILLION_ROUTER_PACKET_H
#define PILLION_ROUTER_PACKET_H

#include <linux/types.h>

#define PACKET_HELD 1      /* GRO holds it: others may be merged into it until t2 */
#define PACKET_UNDECIDED 2 /* its headers could not be read at t1: the filter decides at t2 */
#define PACKET_CONTENT 4   /* found by what is in it, not by its address */
#define PACKET_LATE 8      /* first seen at t2: t1 is unknown, and holds t2 */
#define PACKET_STACKED 16  /* left by an interface on top of others, which may be in another namespace */

struct packet {
	__u64 t1; /* ns, CLOCK_MONOTONIC; 0: not yet */
	__u64 t2;
	__u64 t3;
	__u64 last_t1; /* of the last segment that GRO merged into it */
	__u64 head;    /* address of its data at t1; clones share it */
	__u32 slot;    /* place in the table */
	__u32 in;      /* indexes of interfaces */
	__u32 out;
	__u32 length;   /* at t3, from the IP header on */
	__u16 merged;   /* buffers that GRO merged into it, itself not counted */
	__u16 wire;     /* packets on the wire that it stands for, as GRO counts */
	__u16 segments; /* that GSO would make of it */
	__u16 flags;
};

#endif
