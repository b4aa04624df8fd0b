// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//go:build ignore

/*
 * Marks packets that leave a device. An error on the way passes the packet on
 * as it is and counts why.
 */
#include "lease.h" /* first: what every packet needs comes before the tables */
#include "dispatch.h"
#include "fast_path.h"
#include "insert.h"
#include "mss.h"
#include "quote.h"
#include "retransmit.h"

volatile __u64 lease_ticks; /* what source_renew adds; written by the agent */
volatile __u64 ticks_now;   /* when source_renew ran */

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
	if ((encoding == WIRE_ENCODING_UDP || ingress_number) && s->key.protocol == IPPROTO_UDP &&
	    s->key.dport == bpf_htons(udp_port))
		return OUTCOME_EXISTING_OPTION;
	return 0;
}

/* numbers: of the aggregate that the packet is in, or 0 if it is in no slot */
static __always_inline int insert(struct __sk_buff *skb, struct work *w, __u32 encoding,
				  struct numbering *numbers, __u32 limit, struct tally *tally, int probe)
{
	struct subject *s = &w->subject;
	struct room *room = &w->room;
	int outcome = room_plan(skb, s, encoding, limit, room);

	if (outcome)
		return outcome;
	if (pull(skb, s->l4)) /* what the insertion moves and writes is in reach then */
		return OUTCOME_MALFORMED;
	if (probe || !((modules & WIRE_LOSS) || SAMPLING))
		numbers = &unnumbered;
	else if (!numbers)
		numbers = number_other(&w->flow, tally);
	if (!numbers)
		return OUTCOME_FLOWS;
	if (!probe && !sample(skb, numbers, &s->key, s->l4, subject_end(s))) {
		hops_pass(s);
		return OUTCOME_NOT_SAMPLED;
	}
	if (!(modules & WIRE_LOSS))
		numbers = &unnumbered;
	if (tag_key(numbers, &s->key, VERDICTS_KEPT && numbers != &unnumbered, &room->key))
		return OUTCOME_NO_KEY;
	outcome = encode(skb, w, encoding, numbers);
	if (outcome == OUTCOME_MARKED && !probe) {
		s->segments = room->packets;
		tally->bytes_added += (__u64)room->packets * room->add;
		if (w->watch)
			segment_watch(w, numbers, tally);
	}
	return outcome;
}

/*
 * Finds the encoding of a packet. Returns an outcome if the packet is to stay as it is.
 * A global function: what follows is verified once, not once for each way through this one.
 */
__noinline int choose(struct __sk_buff *skb, struct subject *s, __u64 judgement, __u32 *chosen)
{
	__u32 encoding;
	int outcome;

	if (!s || !chosen)
		return OUTCOME_MALFORMED;
	if (ingress_number && !s->forwarded)
		return OUTCOME_NO_MATCH;
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
	outcome = refuse(s, encoding);
	if (!outcome && validate_paths && !(JUDGEMENT_PASSED(judgement) >> (encoding & 31) & 1)) {
		encoding = encoding_validated(s, encoding);
		outcome = refuse(s, encoding);
	}
	if (HOPS_TRACED && !outcome && hops_chosen(s, judgement))
		encoding = WIRE_ENCODING_IOAM_TRACE;
	*chosen = encoding;
	return outcome;
}

static __always_inline int mark(struct __sk_buff *skb, struct work *w, struct tally *tally)
{
	__u32 encoding = probed_encoding(skb), limit = path_mtu;
	struct subject *s = &w->subject;
	struct numbering *numbers = &unnumbered;
	int outcome = read_packet(skb, s), probe = encoding < WIRE_ENCODINGS_MAX;
	__u64 judgement;

	if (outcome)
		return outcome;
	w->flow = s->key;
	policy_aggregate(&w->flow);
	if (!probe) {
		numbers = number_known(&w->flow);
		judgement = flow_judgement(&s->key, numbers);
		limit = JUDGEMENT_LIMIT(judgement);
		outcome = choose(skb, s, judgement, &encoding);
		if (!outcome && s->key.protocol == IPPROTO_TCP && encoding != WIRE_ENCODING_TCP_OPTION)
			outcome = segment_look(w, numbers, encoding, limit, tally);
		if (sparse_marks)
			outcome = sparse_decide(&w->flow, s, tally, outcome);
		if (outcome)
			return outcome;
	}
	outcome = insert(skb, w, encoding, numbers, limit, tally, probe);
	if (probe)
		return outcome == OUTCOME_MARKED ? OUTCOME_PROBE : outcome;
	return sparse_marks && outcome != OUTCOME_MARKED ? sparse_decide(&w->flow, s, tally, outcome) : outcome;
}

/* The general path: what the fast one left to it. It has a stack of its own. */
SEC("tc")
int source_general(struct __sk_buff *skb)
{
	struct tally *tally = tally_find();
	__u32 outcome;
	struct work *w = work_of_cpu();

	if (!tally || !w)
		return AGAIN;
	work_clear(w);
	w->subject.segments = skb->gso_segs;
	w->subject.unfit = w->fast == OPTION_UNFIT || w->fast == OPTION_FAILED;
	w->subject.traced = w->fast == OPTION_TRACED;
	w->subject.unvalidated = w->fast == OPTION_FAILED ? OUTCOME_PATH_FAILED : 0;
	outcome = mark(skb, w, tally);
	asm volatile("" : "+r"(outcome)); /* or a copy is compared, and the verifier does not see it */
	if (outcome < OUTCOMES)
		tally->packets[outcome] += w->subject.segments ? w->subject.segments : 1;
	return AGAIN;
}

#define STAGE_GENERAL 0

/*
 * Key: stage. Value: its program. Written when the object is loaded. The kernel empties it
 * once no process holds it: then only the fast path marks.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__array(values, int(void *));
} stages SEC(".maps") = {
	.values = { [STAGE_GENERAL] = (void *)&source_general },
};

SEC("tc")
int source_tc(struct __sk_buff *skb)
{
	__u32 outcome, packets = skb->gso_segs;
	struct tally *tally = tally_find();
	struct work *w;

	if (UNLIKELY(!tally))
		return AGAIN;
	if (!packets)
		packets = 1;
	outcome = fast_mark(skb, packets, tally);
	asm volatile("" : "+r"(outcome)); /* as above */
	if (LIKELY(outcome < OUTCOMES)) {
		tally->packets[outcome] += packets;
		return AGAIN;
	}
	w = work_of_cpu();
	if (w) {
		w->fast = outcome;
		bpf_tail_call(skb, &stages, STAGE_GENERAL);
	}
	tally->packets[OUTCOME_NO_ROOM] += packets;
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

/* Ingress: the peer's SYN says how large our marked segments may become. */
static __always_inline void hear_syn(struct __sk_buff *skb)
{
	struct subject s = {};
	struct tally *tally;

	if (read_packet(skb, &s) || !s.syn)
		return;
	if (tcp_option_expected(skb, &s))
		return;
	flow_reverse(&s.key);
	tally = tally_find();
	if (tally && rule_match(&s.key) == policy_index + 1 && !refuse(&s, encoding_of(packet_class(&s))) && bpf_jiffies64() < lease_until)
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

/* What comes back to the source: SYN, errors about packets that are too big, and answers in PDM. */
SEC("tc")
int source_return(struct __sk_buff *skb)
{
	switch (incoming_protocol(skb)) {
	case IPPROTO_TCP:
		if (!incoming_syn(skb))
			return AGAIN;
		hear_syn(skb);
		break;
	case IPPROTO_ICMPV6:
	case IPPROTO_ICMP:
		hear_error(skb);
		break;
	case NEXT_OPTIONS:
		if (ENCODING_USED(PDM) && skb->protocol == PROTOCOL_IPV6)
			echo_hear(skb);
		break;
	default:
		return AGAIN;
	}
	bpf_tail_call(skb, &policy_returns, policy_index + 1);
	return AGAIN;
}

/* On the device where policies differ. A packet whose policy has no program leaves unmarked. */
SEC("tc")
int source_dispatch(struct __sk_buff *skb)
{
	struct tally *tally;

	bpf_tail_call(skb, &policy_marks, dispatch(skb));
	tally = tally_find();
	if (tally)
		tally->packets[OUTCOME_NO_ROOM] += skb->gso_segs ? skb->gso_segs : 1;
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

/* Keep the types for the loader. */
const enum outcome *outcome_type __attribute__((unused));
const struct span *span_type __attribute__((unused));

char _license[] SEC("license") = "GPL";
