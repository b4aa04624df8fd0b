/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Reads a header of options one by one: marks of standards, marks with options of modules, and
 * headers that other options are in, too. The layouts in layout.h are read without this.
 *
 * A header that is laid out as a source of ours does it is taken out of the packet as a whole:
 * PadN of zero bytes before an option that begins at 4n, the options of the mark and of
 * modules, and padding of less than 8 bytes. A mark in any other header is read and left.
 */
#ifndef PILLION_DESTINATION_WALK_H
#define PILLION_DESTINATION_WALK_H

#include "find.h"
#include "read.h"

#define WALK_OPTIONS 16

struct walk {
	struct mark *mark;
	struct header *header;
};

/* The data of a PadN option is zero, and short enough for a header that ends with it. */
static __always_inline int is_last_pad(const struct option *o)
{
	__u8 all = 0;

	if (o->length > 5)
		return 0;
#pragma unroll
	for (__u32 i = 0; i < 5; i++)
		all |= i < o->length ? o->data[i] : 0;
	return !all;
}

static __always_inline void walk_pad(struct mark *m, struct header *h, const struct option *o, int is_last)
{
	if (h->stage == WALK_BEGIN && o->at == sizeof(struct wire_options) && o->type == WIRE_OPTION_PADN &&
	    !o->length)
		h->stage = WALK_ALIGNED;
	else if (is_last && (h->stage == WALK_MARK || h->stage == WALK_MODULES) && h->at == h->end)
		h->stage = WALK_PADDED;
	else
		m->foreign = 1;
}

/* Only IOAM options are aligned, and those in a header of a source are. */
static __always_inline int is_aligned_as_ours(const struct header *h, const struct option *o)
{
	int aligned = o->type == WIRE_OPTION_IOAM || o->type == WIRE_OPTION_IOAM_HOPS;

	return h->stage == WALK_MARK || h->stage == (aligned ? WALK_ALIGNED : WALK_BEGIN);
}

/* Returns what is wrong with the option. */
static __always_inline int walk_read(struct mark *m, struct header *h, const struct option *o)
{
	__u64 bit = 1ull << (o->type & 0x3f);
	int found = option_read(m, o);

	h->known |= found != OPTION_OTHER && option_is_known(o);
	if (found == OPTION_MALFORMED || (found == OPTION_READ && (h->seen & bit)))
		return 1;
	if (found == OPTION_MODULE) {
		if (h->stage < WALK_MARK)
			m->foreign = 1;
		h->stage = WALK_MODULES;
		return 0;
	}
	if (found == OPTION_OTHER || !is_aligned_as_ours(h, o))
		m->foreign = 1;
	if (found == OPTION_READ) {
		h->seen |= bit;
		h->stage = WALK_MARK;
	}
	return 0;
}

/* Returns 1 where the walk ends. */
static long walk_step(__u32 index, struct walk *w)
{
	struct header *h = w->header;
	struct option o = {};

	if (h->at >= h->end)
		return 1;
	o.at = h->at;
	o.type = h->bytes[o.at];
	if (o.type == WIRE_OPTION_PAD1) {
		h->at++;
		walk_pad(w->mark, h, &o, 1);
		return 0;
	}
	o.length = h->bytes[o.at + 1];
	o.data = h->bytes + o.at + 2;
	h->at += 2 + o.length;
	if (h->at > h->end) {
		h->known |= option_is_known(&o);
		h->broken = 1;
	} else if (o.type == WIRE_OPTION_PADN) {
		walk_pad(w->mark, h, &o, is_last_pad(&o));
	} else {
		h->broken = walk_read(w->mark, h, &o);
	}
	return h->broken != 0;
}

/* What of a header makes it a mark. Entries of routers alone do not. */
#define WALK_FIELDS (WIRE_CARRIES_NUMBER | WIRE_CARRIES_TIME | WIRE_CARRIES_ECHO | WIRE_CARRIES_BLOCK)

/*
 * Reads the header of which the size is in the mark. Returns a verdict. A global function: the
 * verifier proves it once.
 */
__noinline int walk_header(struct mark *m, struct header *h)
{
	struct walk walk = { .mark = m, .header = h };

	if (!m || !h)
		return VERDICT_UNMARKED;
	m->encoding = WIRE_ENCODING_NONE;
	m->modules = m->tagged = 0; /* what the search before may have left */
	m->next = h->bytes[0];
	h->end = m->size;
	h->at = sizeof(struct wire_options);
	h->seen = h->stage = h->known = h->broken = 0;
	bpf_loop(WALK_OPTIONS, walk_step, &walk, 0);
	if (h->broken || h->at != h->end)
		return h->known ? VERDICT_MALFORMED : VERDICT_UNMARKED;
	if (m->encoding == WIRE_ENCODING_NATIVE) /* nobody else writes it */
		return m->foreign ? VERDICT_MALFORMED : VERDICT_MARKED;
	if (m->tagged && !(m->fields & (WIRE_CARRIES_NUMBER | WIRE_CARRIES_BLOCK)))
		return VERDICT_MALFORMED;
	if (m->fields & WALK_FIELDS)
		return VERDICT_MARKED;
	return h->known && !m->fields ? VERDICT_MALFORMED : VERDICT_UNMARKED;
}

/* After the walk; the header begins at at. length: as in read_ipv6 */
static __always_inline int walk_end(struct mark *m, const struct header *header, struct ipv6hdr *ip, void *end,
				    __u32 length, int verdict)
{
	int traced = verdict == VERDICT_UNMARKED && m->fields & WIRE_CARRIES_HOPS;

	if ((verdict != VERDICT_MARKED && !traced) || (void *)(ip + 1) > end)
		return verdict;
	verdict = read_addresses(m, ip, length);
	if (verdict == VERDICT_MARKED && protocol_has_ports(m->key.protocol)) {
		m->key.sport = header->ports[0];
		m->key.dport = header->ports[1];
	}
	return traced ? VERDICT_UNMARKED : verdict;
}

static __always_inline int walk_skb(struct __sk_buff *skb, struct mark *m)
{
	__u32 zero = 0, at = link_length + m->at, size = bounded_length(m->size, WALK_LENGTH);
	struct header *header = bpf_map_lookup_elem(&headers, &zero);
	int verdict;

	if (!header || !size || bpf_skb_load_bytes(skb, at, header->bytes, size))
		return VERDICT_UNMARKED;
	if (bpf_skb_load_bytes(skb, at + size, header->ports, sizeof(header->ports)))
		header->ports[0] = header->ports[1] = 0;
	verdict = walk_header(m, header);
	return walk_end(m, header, packet_start(skb) + link_length, packet_end(skb), skb->len - link_length, verdict);
}

/* l3: where IP begins in the frame; length: of the frame from there on */
static __always_inline int walk_frame(struct xdp_md *ctx, struct mark *m, __u32 l3, __u32 length)
{
	__u32 zero = 0, at = l3 + m->at, size = bounded_length(m->size, WALK_LENGTH);
	struct header *header = bpf_map_lookup_elem(&headers, &zero);
	int verdict;

	if (!header || !size || bpf_xdp_load_bytes(ctx, at, header->bytes, size))
		return VERDICT_UNMARKED;
	if (bpf_xdp_load_bytes(ctx, at + size, header->ports, sizeof(header->ports)))
		header->ports[0] = header->ports[1] = 0;
	verdict = walk_header(m, header);
	return walk_end(m, header, (void *)(long)ctx->data + (l3 & 0x1f), (void *)(long)ctx->data_end, length, verdict);
}

/* Options of modules in a shim, one by one, without padding. */
static long shim_step(__u32 index, struct walk *w)
{
	struct header *h = w->header;
	struct option o = {};

	if (h->at >= h->end)
		return 1;
	o.at = h->at;
	o.type = h->bytes[o.at];
	o.length = h->bytes[o.at + 1];
	o.data = h->bytes + o.at + 2;
	h->at += 2 + o.length;
	h->broken = o.type != WIRE_OPTION_MODULE || h->at > h->end || o.data[0] == WIRE_MODULE_TAG ||
		    module_option_read(w->mark, &o) == OPTION_MALFORMED;
	return h->broken != 0;
}

/* A shim of which the options are in the header. Returns a verdict. A global function, as above. */
__noinline int walk_shim(struct mark *m, struct header *h)
{
	struct walk walk = { .mark = m, .header = h };

	if (!m || !h)
		return VERDICT_UNMARKED;
	h->end = m->module_bytes;
	h->at = h->broken = 0;
	bpf_loop(WALK_OPTIONS, shim_step, &walk, 0);
	return h->broken || h->at != h->end ? VERDICT_MALFORMED : VERDICT_MARKED;
}

static __always_inline int walk_shim_skb(struct __sk_buff *skb, struct mark *m)
{
	__u32 zero = 0, size = bounded_length(m->module_bytes, WIRE_MODULE_BYTES_MAX), at = link_length + m->at + m->size - size;
	struct header *header = bpf_map_lookup_elem(&headers, &zero);

	if (!header || !size || bpf_skb_load_bytes(skb, at, header->bytes, size))
		return VERDICT_MALFORMED;
	return walk_shim(m, header);
}

static __always_inline int walk_shim_frame(struct xdp_md *ctx, struct mark *m, __u32 l3)
{
	__u32 zero = 0, size = bounded_length(m->module_bytes, WIRE_MODULE_BYTES_MAX), at = l3 + m->at + m->size - size;
	struct header *header = bpf_map_lookup_elem(&headers, &zero);

	if (!header || !size || bpf_xdp_load_bytes(ctx, at, header->bytes, size))
		return VERDICT_MALFORMED;
	return walk_shim(m, header);
}

#endif
