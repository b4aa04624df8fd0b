/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Packets handed over before their time, and what became of each. */
#ifndef PILLION_RING_H
#define PILLION_RING_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define SLOTS 131072 /* a power of two */
#define SLOT_MASK (SLOTS - 1)
#define FRAME_BYTES 2032
#define PATCH_BYTES 24

/* A packet of the schedule: a frame, with a patch of its own. */
struct slot {
	__u64 due; /* ns since the start */
	__u32 frame; /* index in frames */
	__u16 length; /* bytes of the frame */
	__u16 protocol; /* EtherType, network byte order */
	__u16 patch_at; /* offset of the patch in the frame */
	__u8 patch_size;
	__u8 together; /* sent in one iteration with the packet behind it */
	__u32 reserved;
	__u8 patch[PATCH_BYTES];
};

enum fate {
	FATE_NONE,
	FATE_SENT,
	FATE_LATE, /* dropped: later than the bound */
	FATE_FAILED, /* refused by the device; error says why */
};

/* What became of the packet in the slot of the same index. */
struct outcome {
	__u64 handed; /* CLOCK_MONOTONIC, ns, directly before the packet is handed to the device */
	__u64 driver; /* likewise, when the driver got it; 0: not seen */
	__u32 fate;
	__s32 error; /* a negative errno value of FATE_FAILED */
};

struct frame {
	__u8 bytes[FRAME_BYTES];
};

struct control {
	__u64 start; /* CLOCK_MONOTONIC, ns; the agent writes it before the first run */
	__u64 filled; /* slots filled so far; the agent writes it last */
	__u64 next; /* slots used so far */
	__u64 limit; /* slots that this run may use: the agent sleeps before the next one */
	__u64 cancelled; /* not 0: send nothing more */
	__u64 late_after; /* ns behind its due time after which a packet is dropped; 0: never */
	__u64 prepared; /* next + 1 if the packet is in the buffer; 0 at the start of a run */
	__u32 frame; /* frame in the buffer, + 1; 0: none */
	__u32 length; /* bytes of the buffer */
};

/* Written by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* Written by the agent; as large as the schedule. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame);
} frames SEC(".maps");

/* Written by the programs; the agent clears a slot's before it fills the slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct outcome);
} outcomes SEC(".maps");

/* Written by both, each its own fields. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control);
} controls SEC(".maps");

#endif
