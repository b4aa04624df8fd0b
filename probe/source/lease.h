/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* When packets are left alone although they match. */
#ifndef PILLION_SOURCE_LEASE_H
#define PILLION_SOURCE_LEASE_H

#include "../bpf/packet.h"

/*
 * Marks are written only before this time, in ticks of the kernel: the only
 * clock that costs a packet nothing (the verifier turns bpf_jiffies64 into a
 * load). All ones: for ever.
 */
volatile __u64 lease_until PER_PACKET;

const volatile __u32 probe_mark; /* firewall mark (SO_MARK) of packets to leave alone */

#endif
