/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Time as the probes read and write it. */
#ifndef PILLION_CLOCK_H
#define PILLION_CLOCK_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../wire/wire.h"

#define NS_PER_SECOND 1000000000ull

/*
 * UTC - CLOCK_MONOTONIC in nanoseconds, which the agent follows. The kernel offers no UTC clock to
 * BPF. Both clocks have the same frequency, so that only a step of UTC changes this. Its clock of TAI
 * would change as well when something sets the distance of TAI and UTC, 0 or 37 s.
 */
volatile __u64 monotonic_offset_ns;

/* The same to a tick of the kernel, at a tenth of the price. */
static __always_inline __u64 clock_coarse_utc_ns(void)
{
	return bpf_ktime_get_coarse_ns() + monotonic_offset_ns;
}

/* Nanoseconds since 1970, UTC. */
static __always_inline __u64 clock_utc_ns(void)
{
	return bpf_ktime_get_ns() + monotonic_offset_ns;
}

static __always_inline struct wire_timestamp clock_to_wire(__u64 utc_ns)
{
	__u64 seconds = utc_ns / NS_PER_SECOND;
	__u64 rest = utc_ns - seconds * NS_PER_SECOND;
	/* rest * 2^32 / 10^9, rounded up so that reading it back gives rest. */
	__u64 fraction = ((rest << 32) + NS_PER_SECOND - 1) / NS_PER_SECOND;
	struct wire_timestamp stamp = {
		.seconds = bpf_htonl((__u32)(seconds + WIRE_NTP_UNIX)),
		.fraction = bpf_htonl((__u32)fraction),
	};
	return stamp;
}

/*
 * utc_ns minus the stamp. The seconds are subtracted modulo 2^32, so the
 * era that is nearest to our clock is taken (RFC 5905 section 6).
 */
static __always_inline __s64 clock_since(__u64 utc_ns, struct wire_timestamp stamp)
{
	__u64 seconds = utc_ns / NS_PER_SECOND;
	__u64 rest = utc_ns - seconds * NS_PER_SECOND;
	__s32 apart = (__s32)((__u32)(seconds + WIRE_NTP_UNIX) - bpf_ntohl(stamp.seconds));
	__u64 then = ((__u64)bpf_ntohl(stamp.fraction) * NS_PER_SECOND) >> 32;

	return (__s64)apart * (__s64)NS_PER_SECOND + (__s64)rest - (__s64)then;
}

/* utc_ns minus the time in an option of a transport, which is the nearest that it can mean. */
static __always_inline __s64 clock_since_ticks(__u64 utc_ns, __u32 ticks)
{
	__s32 apart = (__s32)((__u32)(utc_ns >> WIRE_TIME_SHIFT) - ticks);

	return ((__s64)apart << WIRE_TIME_SHIFT) + (__s64)(utc_ns & ((1 << WIRE_TIME_SHIFT) - 1));
}

#endif
