// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//go:build ignore

/*
 * Reads the marks of packets that arrive, and takes them out. An error on the
 * way passes the packet on as it is and counts why.
 */
#include "../bpf/note.h"
#include "collect.h"
#include "path_probe.h"
#include "restore_tc.h"
#include "restore_xdp.h"
#include "sparse.h"
#include "trace.h"
#include "udp_option.h"
#include "walk.h"

const volatile __u32 amend_marks;

/* Key: 0. Value: the mark that a CPU reads, which would fill its stack. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mark);
} marks SEC(".maps");

/* Enough of the packet to read any mark and the ports behind it. */
#define READ_LENGTH (96 + (MODULE_COUNT ? WIRE_MODULE_BYTES_MAX : 0))

/* Packets that this buffer was on the wire. */
static __always_inline __u32 wire_packets(struct __sk_buff *skb)
{
	__u32 segments = skb->gso_segs;

	return segments ? segments : 1;
}

static __always_inline int read_skb(struct __sk_buff *skb, struct mark *m)
{
	void *l3 = packet_start(skb) + link_length;
	void *end = packet_end(skb);
	int verdict;

	if (skb->protocol == PROTOCOL_IPV6) {
		verdict = read_ipv6(m, l3, end, skb->len - link_length);
		return verdict == READ_OPTIONS_SINGLY ? walk_skb(skb, m) : verdict;
	}
	if (skb->protocol == PROTOCOL_IPV4) {
		verdict = read_ipv4(m, l3, end, skb->len - link_length);
		return verdict == VERDICT_MARKED && m->module_bytes ? walk_shim_skb(skb, m) : verdict;
	}
	return VERDICT_UNMARKED;
}

/* Is what a mark would lie in out of direct reach? Rare: headers are pulled in. */
static __always_inline int out_of_reach(struct __sk_buff *skb, __u32 length)
{
	__u32 direct = skb->data_end - skb->data;

	return direct < skb->len && direct < link_length + length;
}

static __always_inline void reach(struct __sk_buff *skb, __u32 length)
{
	__u32 wanted = link_length + length;

	bpf_skb_pull_data(skb, wanted < skb->len ? wanted : skb->len);
}

/* A Hop-by-Hop header moves the mark further back. */
static __always_inline int is_far(struct __sk_buff *skb)
{
	struct ipv6hdr *ip = packet_start(skb) + link_length;

	return skb->protocol == PROTOCOL_IPV6 && (void *)(ip + 1) <= packet_end(skb) &&
	       ip->nexthdr == NEXT_HOP_BY_HOP;
}

/*
 * Are the headers of a TCP segment all that could be needed, and in reach? Its data often
 * lies elsewhere, and is shared with the sender: to pull it in costs a copy of the headers.
 */
static __always_inline int is_segment_in_reach(struct __sk_buff *skb)
{
	void *l3 = packet_start(skb) + link_length, *end = packet_end(skb);
	struct tcphdr *tcp;

	if (skb->protocol == PROTOCOL_IPV6) {
		struct ipv6hdr *ip = l3;

		tcp = (void *)(ip + 1);
		if ((void *)(tcp + 1) > end || ip->nexthdr != IPPROTO_TCP)
			return 0;
	} else {
		struct iphdr *ip = l3;

		tcp = (void *)(ip + 1);
		if ((void *)(tcp + 1) > end || *(__u8 *)l3 != 0x45 || ip->protocol != IPPROTO_TCP)
			return 0;
	}
	return (void *)tcp + tcp->doff * 4 <= end;
}

/* A packet without a mark. Returns a verdict. */
static __always_inline __u32 count_skb(struct __sk_buff *skb, struct mark *m, struct tally *tally, __u32 packets)
{
	if (!is_sparse() || was_read(skb) ||
	    !sparse_take(m, tally, skb->protocol, packet_start(skb) + link_length, packet_end(skb),
			 skb->len - link_length, packets))
		return VERDICT_UNMARKED;
	note_read(skb);
	return VERDICT_COUNTED;
}

/* The shortest way for such packets: datagrams of a flow with a slot. Returns 0 for others. */
static __always_inline int count_datagram(struct __sk_buff *skb, struct mark *m, struct tally *tally)
{
	void *l3 = packet_start(skb) + link_length, *end = packet_end(skb);

	if (skb->gso_size || !sparse_read(m, skb->protocol, l3, end, skb->len - link_length) ||
	    !sparse_datagram(m, l3, end) || was_read(skb) || run_unmarked(m, 1) != RUN_COUNTED)
		return 0;
	tally->verdicts[VERDICT_COUNTED]++;
	tally->bytes += m->length;
	note_read(skb);
	return 1;
}

/* Does a mark that may stay? Not in a probe, whose data is looked for where it lies without the mark. */
static __always_inline int is_left(const struct mark *m, int route, int probe)
{
	if (probe && m->encoding == WIRE_ENCODING_PDM)
		return 0;
	return may_stay(m) && !is_stripped(route);
}

/* Takes the mark out, or leaves it. Returns what is counted. */
static __always_inline __u64 *settle(struct __sk_buff *skb, struct mark *m, struct tally *tally,
				     int route, __u64 now_ns, int probe)
{
	if (amend_marks) {
		amend(skb, m, now_ns);
		note_read(skb);
		return &tally->amended;
	}
	if (m->encoding == WIRE_ENCODING_TCP_OPTION || m->foreign) {
		note_read(skb);
		return &tally->kept;
	}
	if (is_left(m, route, probe)) {
		note_read(skb);
		return &tally->kept;
	}
	if (m->encoding == WIRE_ENCODING_UDP_OPTION)
		return strip_skb(skb, m) ? &tally->unrestored : &tally->restored;
	return restore(skb, m) ? &tally->unrestored : &tally->restored;
}

/* Is the mark taken out, or left where it is on purpose? A mark of another aggregate counts in no flow. */
static __always_inline int is_taken(int counted)
{
	return (counted & ROUTE_MASK) == VERDICT_MARKED || (counted & ROUTE_MASK) == VERDICT_FLOW;
}

SEC("tc")
int destination_tc(struct __sk_buff *skb)
{
	__u32 zero = 0, packets;
	struct mark *m = bpf_map_lookup_elem(&marks, &zero);
	__u64 now_ns = 0; /* not needed for the mark of a packet without a time */
	struct tally *tally = bpf_map_lookup_elem(&tallies, &zero);
	int verdict, counted, probe;
	__u64 *settled;

	if (!tally || !m)
		return AGAIN;
	__builtin_memset(m, 0, sizeof(*m));
	if (is_sparse() && count_datagram(skb, m, tally))
		return AGAIN;
	if (out_of_reach(skb, READ_LENGTH) && !is_segment_in_reach(skb))
		reach(skb, READ_LENGTH);
	verdict = was_read(skb) ? VERDICT_UNMARKED : read_option_skb(skb, m);
	if (verdict == VERDICT_UNMARKED && !was_read(skb)) {
		if (out_of_reach(skb, READ_LENGTH + HOP_BY_HOP_MAX) && is_far(skb))
			reach(skb, READ_LENGTH + HOP_BY_HOP_MAX);
		__builtin_memset(m, 0, sizeof(*m));
		verdict = read_skb(skb, m);
	}
	packets = wire_packets(skb);
	if (verdict == VERDICT_UNMARKED) {
		trace_take(m, verdict, 0);
		tally->verdicts[count_skb(skb, m, tally, packets)] += packets;
		return AGAIN;
	}
	probe = is_path_probe(m);
	if (probe && is_routed(m))
		m->route = find_route(skb, skb->ifindex, m);
	counted = probe ? probe_verdict(m, tally, verdict) : account_next(m, tally, verdict, packets);
	if (counted < 0) {
		now_ns = account_time(m);
		counted = account_packet(m, tally, verdict, now_ns, packets);
	}
	if (counted == ACCOUNT_ROUTE) {
		m->route = find_route(skb, skb->ifindex, m);
		counted = account_packet(m, tally, verdict, now_ns, packets);
	}
	if (m->amends) {
		amend(skb, m, now_ns);
		note_read(skb);
		tally->amended++;
	}
	if (is_taken(counted)) {
		trace_take(m, counted & ROUTE_MASK, now_ns);
		settled = settle(skb, m, tally, counted >> ROUTE_SHIFT, now_ns, probe);
		if (!probe && (counted & ROUTE_MASK) == VERDICT_MARKED)
			++*settled;
	}
	if (probe && !amend_marks)
		probe_confirm(skb, m, counted);
	return AGAIN;
}

/* Where IP begins in a frame, and which IP it is; 0 if none. */
static __always_inline __u32 frame_l3(void *data, void *end, __be16 *protocol)
{
	__u32 at = link_length;
	__be16 *type = data + ETHERNET_LENGTH - 2;

	if (!link_length) /* native XDP has no device without a link header */
		return 0;
	for (int tags = 0; tags < 3; tags++) {
		if ((void *)(type + 1) > end)
			return 0;
		*protocol = *type;
		if (*type != PROTOCOL_VLAN && *type != PROTOCOL_QINQ)
			return at;
		at += VLAN_LENGTH;
		type += VLAN_LENGTH / 2;
	}
	return 0;
}

static __always_inline int read_frame(struct xdp_md *ctx, struct mark *m, __be16 protocol, __u32 l3, __u32 length)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	int verdict;

	if (protocol == PROTOCOL_IPV6) {
		verdict = read_ipv6(m, data + l3, end, length);
		return verdict == READ_OPTIONS_SINGLY ? walk_frame(ctx, m, l3, length) : verdict;
	}
	if (protocol == PROTOCOL_IPV4) {
		verdict = read_ipv4(m, data + l3, end, length);
		return verdict == VERDICT_MARKED && m->module_bytes ? walk_shim_frame(ctx, m, l3) : verdict;
	}
	return VERDICT_UNMARKED;
}

static __always_inline __u64 *settle_frame(struct xdp_md *ctx, struct mark *m, struct tally *tally,
					   __u32 l3, __u32 length, int route, __u64 now_ns, int probe)
{
	if (amend_marks) {
		amend_frame(ctx, m, l3, now_ns);
		return &tally->amended;
	}
	if (m->encoding == WIRE_ENCODING_TCP_OPTION || m->foreign)
		return &tally->kept;
	if (m->encoding == WIRE_ENCODING_UDP_OPTION ? strip_options != STRIP_ALWAYS : is_left(m, route, probe))
		return &tally->kept;
	if (m->encoding == WIRE_ENCODING_UDP_OPTION)
		return strip_frame(ctx, m, l3, length) ? &tally->unrestored : &tally->restored;
	return restore_frame(ctx, m, l3) ? &tally->unrestored : &tally->restored;
}

SEC("xdp")
int destination_xdp(struct xdp_md *ctx)
{
	__u32 zero = 0, l3;
	struct mark *m = bpf_map_lookup_elem(&marks, &zero);
	__be16 protocol = 0;
	__u64 now_ns = 0;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct tally *tally = bpf_map_lookup_elem(&tallies, &zero);
	__u64 length = end - data;
	int verdict = VERDICT_UNMARKED, counted, probe;
	__u64 *settled;

	asm volatile("" : "+r"(length)); /* pointers are subtracted in 64 bits or not at all */
	if (!tally || !m)
		return XDP_PASS;
	__builtin_memset(m, 0, sizeof(*m));
	l3 = frame_l3(data, end, &protocol);
	if (l3)
		verdict = read_option_frame(ctx, m, protocol, l3, length - l3);
	if (verdict == VERDICT_UNMARKED && l3) {
		__builtin_memset(m, 0, sizeof(*m));
		verdict = read_frame(ctx, m, protocol, l3, length - l3);
	}
	if (verdict == VERDICT_UNMARKED) {
		trace_take(m, verdict, 0);
		if (l3 && is_sparse() && sparse_take(m, tally, protocol, data + l3, end, length - l3, 1))
			verdict = VERDICT_COUNTED;
		tally->verdicts[verdict]++;
		return XDP_PASS;
	}
	probe = is_path_probe(m);
	if (probe && is_routed(m))
		m->route = find_route(ctx, ctx->ingress_ifindex, m);
	counted = probe ? probe_verdict(m, tally, verdict) : account_next(m, tally, verdict, 1);
	if (counted < 0) {
		now_ns = account_time(m);
		counted = account_packet(m, tally, verdict, now_ns, 1);
	}
	if (counted == ACCOUNT_ROUTE) {
		m->route = find_route(ctx, ctx->ingress_ifindex, m);
		counted = account_packet(m, tally, verdict, now_ns, 1);
	}
	if (m->amends) {
		amend_frame(ctx, m, l3, now_ns);
		tally->amended++;
	}
	if (is_taken(counted)) {
		trace_take(m, counted & ROUTE_MASK, now_ns);
		settled = settle_frame(ctx, m, tally, l3, length, counted >> ROUTE_SHIFT, now_ns, probe);
		if (!probe && (counted & ROUTE_MASK) == VERDICT_MARKED)
			++*settled;
	}
	if (probe && !amend_marks)
		probe_confirm_frame(ctx, m, l3, counted);
	return XDP_PASS;
}

/* Keep the types for the loader. */
const enum verdict *verdict_type __attribute__((unused));
const struct record *record_type __attribute__((unused));

char _license[] SEC("license") = "GPL";
