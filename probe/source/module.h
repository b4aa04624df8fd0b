/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Options of modules, and the option with the agent's number: written before there is room for the mark, and stored behind it. */
#ifndef PILLION_SOURCE_MODULE_H
#define PILLION_SOURCE_MODULE_H

#include "number.h"
#include "work.h"

/* The IP header as a router sees it next. */
static __always_inline int module_look(struct __sk_buff *skb, struct work *w)
{
	struct module_packet *p = &w->packet;
	__u8 head[9];

	if (bpf_skb_load_bytes(skb, link_length, head, sizeof(head)))
		return -1;
	p->key = w->subject.key;
	p->now_ns = clock_utc_ns();
	p->length = w->subject.length;
	p->packets = w->room.packets;
	if (p->key.family == 6) {
		p->traffic_class = head[0] << 4 | head[1] >> 4;
		p->hop_limit = head[7];
	} else {
		p->traffic_class = head[1];
		p->hop_limit = head[8];
	}
	return 0;
}

#define MODULE_WRITE(name)                                                                       \
	if (modules_wanted & MODULE_BIT(name)) {                                                 \
		__u8 *option = w->options + (at & (WIRE_MODULE_BYTES_MAX - 1));                  \
                                                                                                 \
		option[0] = WIRE_OPTION_MODULE;                                                  \
		option[1] = 1 + name##_bytes;                                                    \
		option[2] = name##_id;                                                           \
		name##_write(&w->packet, option + WIRE_MODULE_HEAD);                             \
		at += WIRE_MODULE_HEAD + name##_bytes;                                           \
	}

/* The option that names the agent. Returns its length. */
static __always_inline __u32 ingress_write(__u8 *option)
{
	option[0] = WIRE_OPTION_MODULE;
	option[1] = 1 + WIRE_MODULE_INGRESS_LENGTH;
	option[2] = WIRE_MODULE_INGRESS;
	option[3] = ingress_number >> 24;
	option[4] = ingress_number >> 16;
	option[5] = ingress_number >> 8;
	option[6] = ingress_number;
	return INGRESS_BYTES;
}

/* Fills w->options. Returns 0 if the packet can be marked. */
static __always_inline int modules_write(struct __sk_buff *skb, struct work *w, __u32 encoding)
{
	__u32 at = 0;

	if (!OPTIONS_USED || !mark_has_modules(encoding))
		return 0;
	if (ingress_number)
		at = ingress_write(w->options);
	if (MODULES_USED) {
		if (module_look(skb, w))
			return -1;
		MODULES(MODULE_WRITE)
	}
	return at != OPTION_BYTES;
}

/* Stores length bytes of w->options, which include padding. Returns 0 if it did. */
static __always_inline int modules_store(struct __sk_buff *skb, const struct work *w, __u32 at, __u32 length)
{
	length = bounded_length(length, sizeof(w->options));
	return length ? bpf_skb_store_bytes(skb, at, w->options, length, 0) : -1;
}

/* Behind the options of the mark, and in place of its padding. at: of the header; returns as above */
static __always_inline int modules_store_options(struct __sk_buff *skb, struct work *w, __u32 at)
{
	__u32 before, length, options = OPTION_BYTES;

	if (!OPTIONS_USED)
		return 0;
	before = native_options(w->room.carried);
	length = w->room.add - before;
#pragma unroll
	for (__u32 i = 0; i < 8; i++)
		w->options[(options + i) & 63] = 0;
	if (length > options + 1) {
		w->options[options & 63] = WIRE_OPTION_PADN;
		w->options[(options + 1) & 63] = length - options - 2;
	}
	return modules_store(skb, w, at + before, length);
}

#endif
