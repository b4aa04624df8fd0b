/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What became of each packet: every packet seen ends in exactly one of these. */
#ifndef PILLION_SOURCE_OUTCOME_H
#define PILLION_SOURCE_OUTCOME_H

#include <linux/types.h>

enum outcome {
	OUTCOME_MARKED,
	OUTCOME_NOT_IP,
	OUTCOME_MALFORMED,	 /* headers shorter than they say */
	OUTCOME_NO_MATCH,	 /* no rule wants it */
	OUTCOME_NO_LEASE,	 /* the lease ended */
	OUTCOME_NOT_SAMPLED,
	OUTCOME_MULTICAST,	 /* many destinations, none of them known to restore */
	OUTCOME_NEIGHBOUR,	 /* neighbour discovery keeps the link alive */
	OUTCOME_FRAGMENT,
	OUTCOME_EXISTING_OPTION, /* destination options or a mark are there already */
	OUTCOME_EXTENSION,	 /* a routing, authentication or similar header */
	OUTCOME_IP_OPTIONS,	 /* IPv4 options, which this encoding cannot step over */
	OUTCOME_ENCODING,	 /* no encoding for this family was asked for */
	OUTCOME_VLAN,		 /* a tag inside the frame; tags beside it do not matter */
	OUTCOME_MTU,
	OUTCOME_GSO,		 /* a buffer that cannot be segmented once marked */
	OUTCOME_NO_ROOM,	 /* the kernel refused to make room */
	OUTCOME_FLOWS,		 /* no entry in the flow table could be had */
	OUTCOME_PROBE,		 /* one of our own: it may end before the destination */
	OUTCOMES,
};

/* Per CPU; packets as they will be on the wire. */
struct tally {
	__u64 packets[OUTCOMES];
	__u64 bytes_added;
	__u64 flows_started;
	__u64 mss_clamped;
};

#endif
