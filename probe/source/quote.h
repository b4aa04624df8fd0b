/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * ICMP errors about packets that are too big. Anybody can send one, so it counts
 * only if the packet that it quotes is one that this source marked: it belongs to
 * a known flow, was larger than the path MTU that the error states, and carries
 * one of the last numbers of the flow, which begin at random, and the right tag
 * if marks have one. A quote without the number or the tag, which is the case behind
 * the data of a datagram, proves nothing: then the agent tests the path. Without path
 * validation it counts if the datagram at least has the form of ours.
 */
#ifndef PILLION_SOURCE_QUOTE_H
#define PILLION_SOURCE_QUOTE_H

#include "path.h"
#include "tag.h"
#include "validation.h"
#include "verdict.h"

#define ICMP_UNREACHABLE 3
#define ICMP_TOO_BIG 4
#define ICMPV6_TOO_BIG 2

/* How far back the number of a quoted packet may lie: packets within a round trip. */
#define QUOTE_WINDOW 0x4000

/* As encoding of a request: the path MTU to the address is to be tested. */
#define PATH_TOO_BIG 0x100
#define HINT_NS 100000000ull /* between two of them */

/* Header of an ICMP error; the packet that caused it follows. */
struct icmp_error {
	__u8 type, code;
	__u16 check;
	__be16 zero;
	__be16 mtu; /* IPv6 has 32 bits here: the upper half is zero */
};

/* What is known of a quoted packet. Offsets count from the start of the frame. */
struct quote {
	struct flow_key key;
	struct path path;  /* to the outer destination */
	__be32 src[4];	   /* outer source */
	__u32 at;	   /* what has not been read yet */
	__u32 length;	   /* of the outer packet */
	__u64 time;	   /* as the tag covers it */
	__be32 number, tag;
	__u32 kind;	   /* likewise */
	__u32 numbered;	   /* number and, if marks have one, tag are known */
	__u32 formed;	   /* a datagram with the surplus area of a mark */
};

static __always_inline int quote_ipv4(struct __sk_buff *skb, struct quote *q)
{
	struct iphdr ip;

	if (bpf_skb_load_bytes(skb, q->at, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl != 5 ||
	    ip.frag_off & IPV4_FRAGMENT)
		return -1;
	if (!q->length) {
		q->length = bpf_ntohs(ip.tot_len);
		q->path.family = 4;
		q->path.dst[0] = ip.daddr;
		q->src[0] = ip.saddr;
	}
	q->key.family = 4;
	q->key.src[0] = ip.saddr;
	q->key.dst[0] = ip.daddr;
	q->key.protocol = ip.protocol;
	q->at += sizeof(ip);
	return 0;
}

/* at: of the number; after: of the tag */
static __always_inline void quote_number(struct __sk_buff *skb, struct quote *q, __u32 at, __u32 after)
{
	q->numbered = !bpf_skb_load_bytes(skb, at, &q->number, sizeof(q->number)) &&
		      (!tagged_marks || !bpf_skb_load_bytes(skb, after, &q->tag, sizeof(q->tag)));
}

static __always_inline int quote_time(struct __sk_buff *skb, struct quote *q, __u32 at)
{
	struct wire_timestamp stamp;

	if (bpf_skb_load_bytes(skb, at, &stamp, sizeof(stamp)))
		return -1;
	q->time = tag_timestamp(stamp);
	return 0;
}

static __always_inline int quote_shim(struct __sk_buff *skb, struct quote *q)
{
	struct wire_shim shim;
	__u32 at = q->at + sizeof(shim);

	if (bpf_skb_load_bytes(skb, q->at, &shim, sizeof(shim)))
		return -1;
	q->kind = shim.type & (WIRE_DELAY | WIRE_LOSS | WIRE_SPARSE);
	if (shim.type & WIRE_DELAY) {
		if (quote_time(skb, q, at))
			return -1;
		at += sizeof(struct wire_delay);
	}
	if (shim.type & WIRE_LOSS)
		quote_number(skb, q, at, at + sizeof(q->number));
	q->key.protocol = shim.next_protocol;
	q->at += sizeof(shim) + shim.length;
	return 0;
}

static __always_inline int quote_udp(struct __sk_buff *skb, struct quote *q)
{
	struct udphdr udp;
	__u32 ends;

	if (bpf_skb_load_bytes(skb, q->at, &udp, sizeof(udp)))
		return -1;
	if (q->key.family == 4 && udp.dest == bpf_htons(udp_port) && ENCODING_USED(UDP)) {
		q->at += sizeof(udp);
		if (quote_shim(skb, q) || q->key.protocol != IPPROTO_IPIP || quote_ipv4(skb, q))
			return -1;
		return bpf_skb_load_bytes(skb, q->at, &q->key.sport, PORTS_READ) &&
		       protocol_has_ports(q->key.protocol);
	}
	q->key.sport = udp.source;
	q->key.dport = udp.dest;
	ends = bpf_ntohs(udp.len);
	q->formed = ENCODING_USED(UDP_OPTION) && ends >= sizeof(udp) && ends < q->length;
	return 0;
}

/* The whole time of which a mark has the lower bits: the one nearest to now. */
static __always_inline __u64 quote_ticks(__u32 low)
{
	__u64 now = clock_utc_ns() >> WIRE_TIME_SHIFT;

	return now + (__s32)(low - (__u32)now);
}

/* The option is the first, or behind time stamps, as in the segments that the source marks. */
static __always_inline void quote_tcp(struct __sk_buff *skb, struct quote *q)
{
	__u32 at = q->at + sizeof(struct tcphdr);
	struct wire_experiment option;
	__be32 head;

	if (bpf_skb_load_bytes(skb, at, &head, sizeof(head)))
		return;
	if (head == TCP_TIMESTAMPS)
		at += TCP_TIMESTAMPS_LENGTH;
	if (bpf_skb_load_bytes(skb, at, &option, sizeof(option)) || option.kind != WIRE_TCP_OPTION_KIND ||
	    (option.exid != bpf_htons(WIRE_EXID) && option.exid != stamp_exid()) || !option.number)
		return;
	q->kind = sparse_marks ? WIRE_LOSS | WIRE_SPARSE : WIRE_LOSS;
	if (option.time) {
		q->kind |= WIRE_DELAY | WIRE_TAG_TICKS;
		q->time = quote_ticks(bpf_ntohl(option.time));
	}
	quote_number(skb, q, at + __builtin_offsetof(struct wire_experiment, number), at + sizeof(option));
}

static __always_inline int quote_transport(struct __sk_buff *skb, struct quote *q)
{
	if (!protocol_has_ports(q->key.protocol))
		return 0;
	if (q->key.protocol == IPPROTO_UDP && !q->numbered)
		return quote_udp(skb, q);
	if (bpf_skb_load_bytes(skb, q->at, &q->key.sport, PORTS_READ))
		return -1;
	if (q->key.protocol == IPPROTO_TCP && !q->numbered)
		quote_tcp(skb, q);
	return 0;
}

static __always_inline int quote_read_4(struct __sk_buff *skb, struct quote *q)
{
	if (quote_ipv4(skb, q))
		return -1;
	if (q->key.protocol == IPPROTO_IPIP && quote_ipv4(skb, q))
		return -1;
	if (q->key.protocol == WIRE_PROTOCOL && quote_shim(skb, q))
		return -1;
	return quote_transport(skb, q);
}

/* The number follows the time, if there is one. */
static __always_inline int quote_options(struct __sk_buff *skb, struct quote *q)
{
	struct { struct wire_options head; __u8 type; } begin;
	struct { __u8 type, length; } option;
	__u32 at = q->at + sizeof(struct wire_options), after;

	if (bpf_skb_load_bytes(skb, q->at, &begin, sizeof(begin)))
		return -1;
	q->kind = WIRE_LOSS;
	if (begin.type == WIRE_OPTION_DELAY) {
		if (quote_time(skb, q, at + sizeof(option)))
			return -1;
		q->kind |= WIRE_DELAY;
		at += sizeof(struct wire_option_delay);
	}
	if (!bpf_skb_load_bytes(skb, at, &option, sizeof(option)) && option.type == WIRE_OPTION_LOSS) {
		at += sizeof(option);
		after = at + sizeof(q->number);
		if (option.length == WIRE_OPTION_SPARSE_LENGTH || option.length == WIRE_OPTION_TAGGED_SPARSE_LENGTH) {
			if (sparse_marks)
				q->kind |= WIRE_SPARSE;
			after++; /* flags */
		}
		quote_number(skb, q, at, after);
	}
	q->key.protocol = begin.head.next_header;
	q->at += (begin.head.length + 1) * 8;
	return 0;
}

static __always_inline int quote_read_6(struct __sk_buff *skb, struct quote *q)
{
	struct ipv6hdr ip;
	__u8 head[2];

	if (bpf_skb_load_bytes(skb, q->at, &ip, sizeof(ip)) || ip.version != 6)
		return -1;
	q->length = sizeof(ip) + bpf_ntohs(ip.payload_len);
	q->path.family = q->key.family = 6;
	copy_address(q->path.dst, &ip.daddr);
	copy_address(q->src, &ip.saddr);
	copy_address(q->key.src, &ip.saddr);
	copy_address(q->key.dst, &ip.daddr);
	q->key.protocol = ip.nexthdr;
	q->at += sizeof(ip);
	if (q->key.protocol == NEXT_HOP_BY_HOP) {
		if (bpf_skb_load_bytes(skb, q->at, head, sizeof(head)))
			return -1;
		q->key.protocol = head[0];
		q->at += (head[1] + 1) * 8;
	}
	if (q->key.protocol == NEXT_OPTIONS && quote_options(skb, q))
		return -1;
	return quote_transport(skb, q);
}

/* A mark without a time may have been sent in the unit before this one. */
static __always_inline int quote_tagged(const struct quote *q)
{
	struct mark_key key;
	__u64 now;

	if (tag_key_find(&q->key, &key))
		return 0;
	if (q->kind & WIRE_DELAY)
		return q->tag == tag_make(&key, q->time, q->number, q->kind);
	now = tag_epoch_now();
	return q->tag == tag_make(&key, now, q->number, q->kind) ||
	       q->tag == tag_make(&key, now - 1, q->number, q->kind);
}

enum proof { PROOF_NONE, PROOF_FLOW, PROOF_PACKET };

/* What the quote proves: the flow is ours, or the packet is. */
static __always_inline enum proof quote_proves(const struct quote *q)
{
	struct flow_key flow __attribute__((aligned(8))) = q->key;
	struct numbering *numbers;

	policy_aggregate(&flow);
	numbers = number_known(&flow);
	if (!numbers)
		numbers = bpf_map_lookup_elem(&flow_numbers, &flow);
	if (!numbers)
		return PROOF_NONE;
	if (!q->numbered)
		return PROOF_FLOW;
	if (((numbers->next - 1 - bpf_ntohl(q->number)) & WIRE_SEQUENCE_MASK) >= QUOTE_WINDOW)
		return PROOF_NONE;
	return !tagged_marks || quote_tagged(q) ? PROOF_PACKET : PROOF_NONE;
}

volatile __u64 path_hinted; /* monotonic ns of the last request to test a path MTU */

/* Has the agent test what arrives, which decides in the end. */
static __always_inline void path_hint(const struct path *path)
{
	struct encoded_path request = { .family = path->family, .encoding = PATH_TOO_BIG };
	__u64 now = bpf_ktime_get_ns();

	if (!validate_paths || now - path_hinted < HINT_NS)
		return;
	path_hinted = now;
	copy_address(request.dst, path->dst);
	bpf_ringbuf_output(&validation_requests, &request, sizeof(request), 0);
}

static __always_inline int same_address(const __be32 *a, const __be32 *b)
{
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

/* to: the receiver of the error; at: the ICMP header */
static __always_inline void path_receive(struct __sk_buff *skb, const __be32 *to, __u32 at, int family)
{
	struct quote q = { .at = at + sizeof(struct icmp_error) };
	struct icmp_error error;
	enum proof proof;
	__u32 match, mtu;

	if (bpf_skb_load_bytes(skb, at, &error, sizeof(error)))
		return;
	mtu = bpf_ntohs(error.mtu);
	if (family == 6) {
		if (error.type != ICMPV6_TOO_BIG || error.zero || mtu < PATH_LEAST_6 || quote_read_6(skb, &q))
			return;
	} else {
		if (error.type != ICMP_UNREACHABLE || error.code != ICMP_TOO_BIG || quote_read_4(skb, &q))
			return;
		if (mtu < PATH_LEAST_4)
			mtu = PATH_LEAST_4;
	}
	match = rule_match(&q.key);
	if (match && match != policy_index + 1) /* of another policy; without ports no rule may fit */
		return;
	if (!same_address(to, q.src) || q.length <= mtu || q.length > path_mtu)
		return;
	proof = quote_proves(&q);
	if (proof == PROOF_FLOW && !validate_paths && (q.formed || !(modules & WIRE_LOSS)))
		proof = PROOF_PACKET;
	if (proof == PROOF_NONE)
		return;
	if (proof == PROOF_PACKET)
		path_learn(&q.path, mtu);
	path_hint(&q.path);
}

#endif
