/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Modules: each writes an option of its own into marks, and keeps a few words of every flow at
 * its destination, which the agent reads each interval. A module is a header here:
 *
 *	MODULE(name, id, bytes)   its option (wire/standard.h): id, and bytes of data
 *	void name_write(const struct module_packet *p, __u8 *data)
 *		at the source: fills the data
 *	void name_read(const struct module_packet *p, const __u8 *data, struct module_state *to)
 *		at the destination: enters it into the state of the flow, which is locked
 *
 * all.h lists them. measure/module describes what the words of the state mean.
 */
#ifndef PILLION_MODULE_OPTION_H
#define PILLION_MODULE_OPTION_H

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#include "../../wire/wire.h"
#include "../bpf/flow.h"

/* The packet as both ends of the path know it. */
struct module_packet {
	struct flow_key key; /* without wildcards */
	__u64 now_ns;	     /* UTC */
	__u32 length;	     /* of the IP packet without the mark */
	__u32 packets;	     /* that it is on the wire */
	__u8 hop_limit;	     /* or time to live, of the outermost IP header */
	__u8 traffic_class;  /* DSCP and ECN of the same */
	__u8 zero[6];
};

#define MODULE(name, option_id, option_bytes)                                                    \
	enum { name##_id = option_id, name##_bytes = option_bytes };                             \
	_Static_assert(option_id >= WIRE_MODULE_FIRST && option_id <= WIRE_MODULE_LAST, #name);  \
	_Static_assert(option_bytes > 0 && option_bytes <= WIRE_MODULE_DATA_MAX, #name);

/* A module's bit in a set of modules. */
#define MODULE_BIT(name) (1ull << (name##_id - WIRE_MODULE_FIRST))

#define MODULE_WORDS 16

struct module_state {
	__u64 words[MODULE_WORDS]; /* their meanings are the module's */
	__u64 last_ns;		   /* of the last packet, UTC */
};

/*
 * Enters a value into the four words from one on that is a multiple of four: how many there
 * were, their sum, the least and the greatest.
 */
static __always_inline void module_sample(struct module_state *to, __u32 word, __s64 value)
{
	__u64 *words = to->words + (word & (MODULE_WORDS - 4));

	if (!words[0] || value < (__s64)words[2])
		words[2] = value;
	if (!words[0] || value > (__s64)words[3])
		words[3] = value;
	words[0]++;
	words[1] += value;
}

#endif
