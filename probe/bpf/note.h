/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A mark that a destination accepted and left in its packet is noted in the control block, which
 * the IP layer clears: while one program takes the place of another, both see the packet, and
 * the source on the same device learns from it that the tag of the mark is right.
 */
#ifndef PILLION_NOTE_H
#define PILLION_NOTE_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define READ_TAG_FIRST 0x50696c6c
#define READ_TAG_SECOND 0x72656164

static __always_inline int was_read(struct __sk_buff *skb)
{
	return skb->cb[0] == READ_TAG_FIRST && skb->cb[1] == READ_TAG_SECOND;
}

static __always_inline void note_read(struct __sk_buff *skb)
{
	skb->cb[0] = READ_TAG_FIRST;
	skb->cb[1] = READ_TAG_SECOND;
}

#endif
