/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What became of each packet: every packet seen ends in exactly one of these. */
#ifndef PILLION_SOURCE_OUTCOME_H
#define PILLION_SOURCE_OUTCOME_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "policy.h"

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
	OUTCOME_HANDSHAKE,	 /* of TCP, without room for a mark: it must arrive whatever the path does */
	OUTCOME_TIMEOUT,	 /* of a connection whose marks may not arrive: see connection.h */
	OUTCOME_TCP_OPTIONS,	 /* no room for another one */
	OUTCOME_UNVALIDATED,	 /* not known yet whether a marked packet would arrive */
	OUTCOME_PATH_FAILED,	 /* marked packets do not arrive, in any encoding that applies */
	OUTCOME_NO_KEY,		 /* its destination shares no key with this host */
	OUTCOME_COUNTED,	 /* no mark, but a sequence number: see sparse.h */
	OUTCOME_RETRANSMITTED,	 /* its mark may be why it was lost: see retransmit.h */
	OUTCOME_CALLBACKS,	 /* another program cleared the callbacks of its connection: see connection.h */
	OUTCOMES,
};

/* Per CPU; packets as they will be on the wire. */
struct tally {
	__u64 bytes_added; /* beside the packets that are marked */
	__u64 packets[OUTCOMES];
	__u64 flows_started;
	__u64 mss_clamped;
	/* The tcp-option encoding: see connection.h. */
	__u64 connections;		/* that got room for marks */
	__u64 connections_paused;	/* timeouts that interrupted marking */
	__u64 connections_stopped;	/* timeouts that ended marking */
	__u64 connections_without_acks;
	__u64 connections_avoided;	/* to destinations whose path drops marks */
	__u64 segments_full;		/* no room among the options */
	__u64 callbacks_cleared;	/* segments of connections whose callbacks another program cleared */
};

/* Key: policy. Value: what became of its packets, by CPU. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, POLICIES_MAX);
	__type(key, __u32);
	__type(value, struct tally);
} tallies SEC(".maps");

/* Of the policy of this program. */
static __always_inline struct tally *tally_find(void)
{
	__u32 policy = policy_index;

	return bpf_map_lookup_elem(&tallies, &policy);
}

#endif
