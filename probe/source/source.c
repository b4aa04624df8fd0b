// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//go:build ignore

/*
 * Marks packets that leave a device. An error on the way passes the packet on
 * as it is and counts why.
 */
#include "lease.h" /* first: what every packet needs comes before the tables */
#include "fast_path.h"
#include "mss.h"
#include "quote.h"
#include "shim.h"

volatile __u64 lease_ticks; /* what source_renew adds; written by the agent */
volatile __u64 ticks_now;   /* when source_renew ran */

static __always_inline int read_packet(struct __sk_buff *skb, struct subject *s)
{
	int outcome = OUTCOME_NOT_IP;

	s->gso_size = skb->gso_size;
	s->forwarded = !!skb->ingress_ifindex;
	if (skb->protocol == PROTOCOL_IPV6)
		outcome = read_ipv6(skb, s);
	else if (skb->protocol == PROTOCOL_IPV4)
		outcome = read_ipv4(skb, s);
	else if (skb->protocol == PROTOCOL_VLAN || skb->protocol == PROTOCOL_QINQ)
		outcome = OUTCOME_VLAN;
	if (outcome)
		return outcome;
	/* A destination would not take such a mark out. */
	if (link_length + s->length > skb->len || (link_length + s->length < s->l4 && !s->gso_size))
		return OUTCOME_MALFORMED;
	if (!s->gso_size) { /* padding travels along */
		if (s->length != skb->len - link_length)
			s->unfit = 1;
		s->length = skb->len - link_length;
	}
	return 0;
}

/* What must not be marked although it matches. */
static __always_inline int refuse(const struct subject *s, __u32 encoding)
{
	if (s->multicast)
		return OUTCOME_MULTICAST;
	if (s->neighbour)
		return OUTCOME_NEIGHBOUR;
	if (s->fragment)
		return OUTCOME_FRAGMENT;
	if (s->blocked)
		return s->blocked;
	if (encoding == WIRE_ENCODING_NONE)
		return s->unvalidated ? s->unvalidated : encoding_refused(s);
	if (encoding == WIRE_ENCODING_UDP && s->key.protocol == IPPROTO_UDP &&
	    s->key.dport == bpf_htons(udp_port))
		return OUTCOME_EXISTING_OPTION;
	return 0;
}

/* A global function, as choose: what precedes it is verified apart from it. */
__noinline int encode(struct __sk_buff *skb, struct subject *s, __u32 encoding, struct numbering *numbers,
		      struct room *room)
{
	if (!s || !numbers || !room)
		return OUTCOME_MALFORMED;
	room_settle(s, encoding, stamp_modules(numbers), room);
	if (ENCODING_USED(NATIVE) && encoding == WIRE_ENCODING_NATIVE)
		return native_insert(skb, s, numbers, room);
	if (ENCODING_USED(SHIM) && encoding == WIRE_ENCODING_SHIM)
		return shim_insert(skb, s, WIRE_ENCODING_SHIM, numbers, room);
	if (ENCODING_USED(IPIP) && encoding == WIRE_ENCODING_IPIP)
		return shim_insert(skb, s, WIRE_ENCODING_IPIP, numbers, room);
	if (ENCODING_USED(UDP) && encoding == WIRE_ENCODING_UDP)
		return shim_insert(skb, s, WIRE_ENCODING_UDP, numbers, room);
	if (ENCODING_USED(TCP_OPTION) && encoding == WIRE_ENCODING_TCP_OPTION)
		return tcp_option_insert(skb, s, numbers, room);
	return OUTCOME_ENCODING;
}

/* flow: the aggregate that the packet is in; numbers: of it, or 0 if it is in no slot */
static __always_inline int insert(struct __sk_buff *skb, struct subject *s, __u32 encoding,
				  const struct flow_key *flow, struct numbering *numbers, __u32 limit,
				  struct tally *tally, int probe)
{
	struct room room = {};
	int outcome = room_plan(skb, s, encoding, limit, &room);

	if (outcome)
		return outcome;
	if (pull(skb, s->l4)) /* what the insertion moves and writes is in reach then */
		return OUTCOME_MALFORMED;
	if (!(modules & WIRE_LOSS))
		numbers = &unnumbered;
	else if (!numbers)
		numbers = number_other(flow, tally);
	if (!numbers)
		return OUTCOME_FLOWS;
	if (tag_key(numbers, &s->key, VERDICTS_KEPT && numbers != &unnumbered, &room.key))
		return OUTCOME_NO_KEY;
	outcome = encode(skb, s, encoding, numbers, &room);
	if (outcome == OUTCOME_MARKED && !probe) {
		s->segments = room.packets;
		tally->bytes_added += (__u64)room.packets * room.add;
	}
	return outcome;
}

/*
 * Finds the encoding of a packet. Returns an outcome if the packet is to stay as it is.
 * A global function: what follows is verified once, not once for each way through this one.
 */
__noinline int choose(struct __sk_buff *skb, struct subject *s, __u64 judgement, struct tally *tally,
		      __u32 *chosen)
{
	__u32 encoding;
	int outcome;

	if (!s || !tally || !chosen)
		return OUTCOME_MALFORMED;
	if (JUDGEMENT_VERDICT(judgement) == OUTCOME_NO_MATCH || JUDGEMENT_VERDICT(judgement) == OUTCOME_NO_KEY)
		return JUDGEMENT_VERDICT(judgement);
	if (probed_encoding(skb) == PROBE_UNMARKED)
		return OUTCOME_PROBE;
	if (bpf_jiffies64() >= lease_until)
		return OUTCOME_NO_LEASE;
	encoding = encoding_of(packet_class(s));
	tcp_option_look(skb, s);
	if (encoding == WIRE_ENCODING_TCP_OPTION && !s->room && !s->blocked)
		encoding = tcp_option_missing(skb, s);
	if (s->syn && encoding != WIRE_ENCODING_TCP_OPTION && !refuse(s, encoding))
		mss_clamp(skb, s, tally);
	if (!sample())
		return OUTCOME_NOT_SAMPLED;
	outcome = refuse(s, encoding);
	if (!outcome && validate_paths && !(JUDGEMENT_PASSED(judgement) >> (encoding & 31) & 1)) {
		encoding = encoding_validated(s, encoding);
		outcome = refuse(s, encoding);
	}
	*chosen = encoding;
	return outcome;
}

static __always_inline int mark(struct __sk_buff *skb, struct subject *s, struct tally *tally)
{
	__u32 encoding = probed_encoding(skb), limit = path_mtu;
	struct flow_key flow __attribute__((aligned(8)));
	struct numbering *numbers = &unnumbered;
	int outcome = read_packet(skb, s), probe = encoding < WIRE_ENCODINGS_MAX;
	__u64 judgement;

	if (outcome)
		return outcome;
	flow = s->key;
	flow_aggregate(&flow);
	if (!probe) {
		numbers = number_known(&flow);
		judgement = flow_judgement(&s->key, numbers);
		limit = JUDGEMENT_LIMIT(judgement);
		outcome = choose(skb, s, judgement, tally, &encoding);
		if (sparse_marks)
			outcome = sparse_decide(&flow, s, tally, outcome);
		if (outcome)
			return outcome;
	}
	outcome = insert(skb, s, encoding, &flow, numbers, limit, tally, probe);
	if (probe)
		return outcome == OUTCOME_MARKED ? OUTCOME_PROBE : outcome;
	return sparse_marks && outcome != OUTCOME_MARKED ? sparse_decide(&flow, s, tally, outcome) : outcome;
}

/* fast: why the fast path left the packet to this one. Counts it. */
static __always_inline void mark_other(struct __sk_buff *skb, struct tally *tally, int fast)
{
	struct subject s = { .segments = skb->gso_segs };
	__u32 outcome;

	s.unfit = fast == OPTION_UNFIT || fast == OPTION_FAILED;
	s.unvalidated = fast == OPTION_FAILED ? OUTCOME_PATH_FAILED : 0;
	outcome = mark(skb, &s, tally);
	asm volatile("" : "+r"(outcome)); /* or a copy is compared, and the verifier does not see it */
	if (outcome < OUTCOMES)
		tally->packets[outcome] += s.segments ? s.segments : 1;
}

SEC("tc")
int source_tc(struct __sk_buff *skb)
{
	__u32 zero = 0, outcome, packets = skb->gso_segs;
	struct tally *tally = bpf_map_lookup_elem(&tallies, &zero);

	if (UNLIKELY(!tally))
		return AGAIN;
	if (!packets)
		packets = 1;
	outcome = fast_mark(skb, packets, tally);
	asm volatile("" : "+r"(outcome)); /* as above */
	if (LIKELY(outcome < OUTCOMES))
		tally->packets[outcome] += packets;
	else
		mark_other(skb, tally, outcome);
	return AGAIN;
}

/* What comes in and matters is rare; everything else leaves after two comparisons. */
static __always_inline __u8 incoming_protocol(struct __sk_buff *skb)
{
	void *data = packet_start(skb) + link_length;
	void *end = packet_end(skb);

	if (skb->protocol == PROTOCOL_IPV6) {
		struct ipv6hdr *ip = data;

		return (void *)(ip + 1) <= end ? ip->nexthdr : 0;
	}
	if (skb->protocol == PROTOCOL_IPV4) {
		struct iphdr *ip = data;

		return (void *)(ip + 1) <= end ? ip->protocol : 0;
	}
	return 0;
}

/* Returns 0 if the flags are in reach and the segment is no SYN. */
static __always_inline int incoming_syn(struct __sk_buff *skb)
{
	void *l3 = packet_start(skb) + link_length, *end = packet_end(skb);
	__u32 headers = sizeof(struct ipv6hdr);
	struct tcphdr *tcp;

	if (skb->protocol == PROTOCOL_IPV4) {
		struct iphdr *ip = l3;

		headers = (void *)(ip + 1) <= end ? ip->ihl * 4 : 0;
	}
	tcp = l3 + headers;
	return (void *)(tcp + 1) > end || tcp->syn;
}

/* The rules are about packets that leave: look at this one from the other side. */
static __always_inline void flow_reverse(struct flow_key *key)
{
	struct flow_key other = *key;

	copy_address(key->src, other.dst);
	copy_address(key->dst, other.src);
	key->sport = other.dport;
	key->dport = other.sport;
}

/* Ingress: the peer's SYN says how large our marked segments may become. */
static __always_inline void hear_syn(struct __sk_buff *skb)
{
	struct subject s = {};
	__u32 zero = 0;
	struct tally *tally;

	if (read_packet(skb, &s) || !s.syn)
		return;
	if (tcp_option_expected(skb, &s))
		return;
	flow_reverse(&s.key);
	tally = bpf_map_lookup_elem(&tallies, &zero);
	if (tally && rule_match(&s.key) && !refuse(&s, encoding_of(packet_class(&s))) && bpf_jiffies64() < lease_until)
		mss_clamp(skb, &s, tally);
}

/* An error for one who sent through this device, behind an IP header without options. */
static __always_inline void hear_error(struct __sk_buff *skb)
{
	__be32 to[4] = {};

	if (skb->protocol == PROTOCOL_IPV6) {
		if (!bpf_skb_load_bytes(skb, link_length + __builtin_offsetof(struct ipv6hdr, daddr), to, 16))
			path_receive(skb, to, link_length + sizeof(struct ipv6hdr), 6);
	} else if (!bpf_skb_load_bytes(skb, link_length + __builtin_offsetof(struct iphdr, daddr), to, 4)) {
		path_receive(skb, to, link_length + sizeof(struct iphdr), 4);
	}
}

/* What comes back to the source: SYN, and errors about packets that are too big. */
SEC("tc")
int source_return(struct __sk_buff *skb)
{
	switch (incoming_protocol(skb)) {
	case IPPROTO_TCP:
		if (incoming_syn(skb))
			hear_syn(skb);
		break;
	case IPPROTO_ICMPV6:
	case IPPROTO_ICMP:
		hear_error(skb);
		break;
	}
	return AGAIN;
}

/* Run by the agent: only the kernel knows what tick it is. */
SEC("syscall")
int source_renew(void *ctx)
{
	__u64 ticks = lease_ticks;

	ticks_now = bpf_jiffies64();
	lease_until = ticks == ~0ull ? ticks : ticks_now + ticks;
	return 0;
}

/* Run by the agent: it removes idle flows without a race. */
SEC("syscall")
int source_sweep(void *ctx)
{
	sweep_expired = sweep_present = 0;
	bpf_for_each_map_elem(&slots, sweep_slot, 0, 0);
	return 0;
}

/* Keeps the type for the loader. */
const enum outcome *outcome_type __attribute__((unused));

char _license[] SEC("license") = "GPL";
