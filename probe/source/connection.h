/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Room for the tcp-option encoding: the kernel reserves it in the TCP header of a
 * connection of this host while it builds a segment, so that the MSS follows by
 * itself. The program at egress fills it in (tcp_option.h): only there it is known
 * that the packet leaves, by which device and as how many segments.
 *
 * A path that drops segments with the option must not stop a connection:
 *   - a retransmission timeout ends the marking if nothing marked was acknowledged
 *     since it began, and otherwise interrupts it until all that was sent before
 *     the timeout is acknowledged;
 *   - an acknowledgement without data is not retransmitted. One that reports duplicate
 *     data (RFC 2883) carries no mark, for it says that earlier ones may have been
 *     dropped. If the peer waited before it sent the duplicate, and did not send more
 *     before than it could have without acknowledgements, none carries a mark from then
 *     on. Where duplicates would not be reported none ever does;
 *   - a probe (keepalive, zero window) carries none if the one before had no answer;
 *   - a destination to which that happens again and again is left alone (blackhole.h).
 */
#ifndef PILLION_SOURCE_CONNECTION_H
#define PILLION_SOURCE_CONNECTION_H

#include "../bpf/tcp.h"
#include "blackhole.h"
#include "lease.h"
#include "outcome.h"
#include "policy.h"
#include "rule.h"
#include "sock.h"
#include "stamp.h"
#include "tag.h"

const volatile __u64 network_cookie; /* of the device's network namespace */
const volatile __u32 device_index;

/*
 * WIRE_IPV4 | WIRE_IPV6, two bits for each policy: whose TCP has this encoding first; 0 until
 * the program is attached.
 */
volatile __u32 tcp_option_families;

#define TCP_OPTION_FAMILIES (tcp_option_families >> 2 * policy_index & (WIRE_IPV4 | WIRE_IPV6))

struct connection {
	__u32 judged;	/* rules_state when wanted was found; 0: never */
	__u32 from;	/* first sequence number that was sent with room, if begun */
	__u32 until;	/* paused: until this is acknowledged */
	__u8 wanted;
	__u8 begun;
	__u8 paused;
	__u8 stopped;
	__u8 learned;	/* whether its marks arrive was noted for its destination */
	__u8 avoided;	/* its destination is a black hole */
	__u8 no_acks;	/* acknowledgements without data get no room */
	__u8 segments;	/* the segment size takes the room into account */
	__u8 counted;
	__u8 here;	/* its route leads to our device */
	__u8 reserved;	/* in the header that the kernel builds, by this program */
	__u8 ack_credit; /* late duplicates that are put down to other causes */
	__u8 acking;
	__u32 ack_limit; /* what the peer may send until it gets another acknowledgement, if acking */
	struct stamping stamping; /* of sparse marks: which segments get room */
};

#define TCP_OPTION_LENGTH (tagged_marks ? WIRE_TCP_OPTION_TAGGED : WIRE_TCP_OPTION)

#define ACK_CREDIT 2
#define ACK_WAIT 2 /* kernel ticks: the shortest timeout of a peer */

/* Key: socket. Value: what is known about its marking. Written here. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

#define CONNECTION_CALLBACKS (BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG)

/* RFC 9293, section 3.4: a comes after b. */
static __always_inline int after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

/* Process context, which packets may interrupt: counts atomically. */
#define CONNECTION_COUNT(member)                                                \
	do {                                                                    \
		struct tally *tally = tally_find();                             \
										\
		if (tally)                                                      \
			__sync_fetch_and_add(&tally->member, 1);                \
	} while (0)

/* A global function: the verifier proves it once, apart from its callers. */
__noinline int connection_matches(const struct flow_key *key)
{
	__u32 families = TCP_OPTION_FAMILIES;

	if (!key || !(families & (key->family == 6 ? WIRE_IPV6 : WIRE_IPV4)))
		return 0;
	return rule_match(key) == policy_index + 1 && !tag_key_missing(key);
}

static __always_inline int connection_wanted(struct tcp_sock *tcp)
{
	struct flow_key key = {};

	sock_flow(tcp, &key);
	return connection_matches(&key);
}

/* Something was acknowledged that was sent after the first mark. */
static __always_inline void connection_learn(struct tcp_sock *tcp, struct connection *c)
{
	struct flow_key key = {};

	c->learned = 1;
	sock_flow(tcp, &key);
	blackhole_learn(&key, c->stopped);
}

/* A new connection: ask for callbacks if a rule wants it. */
static __always_inline void connection_begin(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tcp;

	if (!sk || bpf_get_netns_cookie(ops) != network_cookie)
		return;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp || !connection_wanted(tcp))
		return;
	bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | CONNECTION_CALLBACKS);
	bpf_sk_storage_get(&connections, sk, 0, BPF_SK_STORAGE_GET_F_CREATE); /* for connection_cleared */
}

/* The handshake says nothing about segments with data: they have to prove themselves. */
static __always_inline void connection_established(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct connection *c;
	struct tcp_sock *tcp;

	if (!sk)
		return;
	c = bpf_sk_storage_get(&connections, sk, 0, 0);
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!c || !tcp)
		return;
	if (c->stopped) /* the first SYN had a mark and was not answered, a later one had none */
		connection_learn(tcp, c);
	c->begun = 0;
}

static __always_inline void connection_judge(struct bpf_sock_ops *ops, struct tcp_sock *tcp,
					     struct connection *c)
{
	struct flow_key key = {};
	__u32 state = rules_state;
	int avoided;

	sock_flow(tcp, &key);
	c->wanted = bpf_get_netns_cookie(ops) == network_cookie && connection_matches(&key);
	avoided = c->wanted && !c->begun && blackhole_known(&key);
	if (avoided)
		c->wanted = 0;
	if (avoided && !c->avoided)
		CONNECTION_COUNT(connections_avoided);
	c->avoided = avoided;
	c->judged = state;
}

/* Is everything acknowledged that was on the way when the timer expired? */
static __always_inline int connection_pauses(struct bpf_sock_ops *ops, struct connection *c)
{
	if (c->paused && !after(c->until, ops->snd_una))
		c->paused = 0;
	return c->paused;
}

/* May this acknowledgement without data carry a mark? */
static __always_inline int connection_acknowledges(struct bpf_sock_ops *ops, struct tcp_sock *tcp,
						   struct connection *c)
{
	if (c->no_acks || !sock_reports_duplicates(tcp) || sock_probes(tcp))
		return 0;
	if (!c->acking || after(ops->rcv_nxt, c->ack_limit)) {
		if (c->acking)
			c->ack_credit = ACK_CREDIT;
		c->acking = 1;
		c->ack_limit = ops->rcv_nxt + tcp->rcv_wnd;
	}
	if (!sock_has_duplicate(tcp))
		return 1;
	if (sock_idle(tcp) < ACK_WAIT) { /* reordered or duplicated on the way, or sent again early */
		return 0;
	} else if (c->ack_credit) {
		c->ack_credit--;
	} else {
		c->no_acks = 1;
		CONNECTION_COUNT(connections_without_acks);
	}
	return 0;
}

/* May this segment carry a mark, as far as it depends on what the segment is? */
static __always_inline int connection_segment(struct bpf_sock_ops *ops, struct tcp_sock *tcp,
					      struct connection *c)
{
	__u32 control = ops->skb_tcp_flags & (TCP_SYN | TCP_FIN);

	if (!ops->skb_len && !control) {
		return connection_acknowledges(ops, tcp, c);
	}
	if (!(control & TCP_SYN) && !c->segments)
		return 0;
	if (!c->begun) {
		c->begun = 1;
		c->from = ops->snd_nxt;
	}
	return 1;
}

static __always_inline int connection_reserve(struct bpf_sock_ops *ops, struct connection *c, int size)
{
	if (!bpf_reserve_hdr_opt(ops, TCP_OPTION_LENGTH, 0)) {
		if (!c->counted) {
			c->counted = 1;
			CONNECTION_COUNT(connections);
		}
		return 1;
	}
	if (!size || c->segments)
		CONNECTION_COUNT(segments_full);
	return 0;
}

/* Nothing to find out for a segment with data since the kernel computed the segment size. */
static __always_inline int connection_steady(const struct connection *c)
{
	return c->segments && c->begun && c->learned && !c->paused && !c->stopped &&
	       c->judged == rules_state && bpf_jiffies64() < lease_until;
}

/* The kernel computes the segment size, or the header of a segment. */
static __always_inline void connection_length(struct bpf_sock_ops *ops)
{
	int size = ops->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS, room = 0;
	struct bpf_sock *sk = ops->sk;
	struct connection *c;
	struct tcp_sock *tcp;
	int device;

	if (!sk) /* SYN-ACK: there is no socket yet */
		return;
	c = bpf_sk_storage_get(&connections, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!c)
		return;
	c->reserved = 0;
	if (!size && ops->skb_len && connection_steady(c)) {
		if (!sparse_marks || stamp_due(&c->stamping))
			c->reserved = connection_reserve(ops, c, 0);
		return;
	}
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return;
	if (c->begun && !c->learned && after(ops->snd_una, c->from))
		connection_learn(tcp, c);
	if (c->stopped)
		return;
	if (c->judged != rules_state)
		connection_judge(ops, tcp, c);
	device = sock_device(tcp);
	if (device)
		c->here = device == device_index;
	if (c->wanted && c->here && bpf_jiffies64() < lease_until &&
	    !connection_pauses(ops, c) && (size || connection_segment(ops, tcp, c)))
		room = connection_reserve(ops, c, size);
	if (size)
		c->segments = room;
	else
		c->reserved = room;
}

/*
 * The programs of other policies, devices, networks and processes see the socket, too: the room
 * may be theirs.
 */
static __always_inline void connection_write(struct bpf_sock_ops *ops)
{
	struct wire_experiment_tagged option = {
		.mark = { .kind = WIRE_TCP_ROOM_KIND, .length = TCP_OPTION_LENGTH, .exid = bpf_htons(WIRE_EXID) },
	};
	struct bpf_sock *sk = ops->sk;
	struct connection *c = sk ? bpf_sk_storage_get(&connections, sk, 0, 0) : 0;

	if (!c || !c->reserved)
		return;
	bpf_store_hdr_opt(ops, &option, TCP_OPTION_LENGTH, 0);
}

static __always_inline void connection_timeout(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct connection *c;

	if (!sk)
		return;
	c = bpf_sk_storage_get(&connections, sk, 0, 0);
	if (!c || !c->begun || c->stopped)
		return;
	if (after(ops->snd_una, c->from)) {
		c->paused = 1;
		c->begun = 0;
		c->until = ops->snd_nxt;
		CONNECTION_COUNT(connections_paused);
	} else {
		c->stopped = 1;
		CONNECTION_COUNT(connections_stopped);
	}
}

SEC("sockops")
int source_connection(struct bpf_sock_ops *ops)
{
	switch (ops->op) {
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		connection_length(ops);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		connection_write(ops);
		break;
	case BPF_SOCK_OPS_RTO_CB:
		connection_timeout(ops);
		break;
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		connection_begin(ops);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		connection_established(ops);
		break;
	}
	return 1;
}

/*
 * Of a connection that had callbacks: the flags belong to the socket, so that a program of other
 * software that sets its own without those that are set already takes them away.
 */
static __always_inline int connection_cleared(struct bpf_sock *sk)
{
	struct tcp_sock *tcp;

	if (sk->state != BPF_TCP_ESTABLISHED)
		return 0;
	tcp = bpf_skc_to_tcp_sock(sk);
	return tcp && !(tcp->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

#define SOL_TCP 6
#define TCP_CALLBACKS 1008 /* TCP_BPF_SOCK_OPS_CB_FLAGS, 6.12 */

struct bpf_iter__tcp {
	void *meta;
	struct sock_common *sk_common;
};

volatile __u32 connections_found;   /* that exist and that a rule wants */
volatile __u32 connections_refused; /* of these, where the kernel refused callbacks */

/* Connections that began before the program, or before the rules that want them. */
SEC("iter/tcp")
int source_connections(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tcp;
	int flags;

	if (!common)
		return 0;
	tcp = bpf_skc_to_tcp_sock(common);
	if (!tcp || common->skc_state == SOCK_LISTEN || !connection_wanted(tcp))
		return 0;
	connections_found++;
	flags = tcp->bpf_sock_ops_cb_flags | CONNECTION_CALLBACKS;
	if (bpf_setsockopt(common, SOL_TCP, TCP_CALLBACKS, &flags, sizeof(flags)))
		connections_refused++;
	return 0;
}

#endif
