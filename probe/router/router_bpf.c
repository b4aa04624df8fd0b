// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//go:build ignore

/*
 * Sees each packet of a router at four hooks and where it ends, and changes none:
 * whatever fails here, the packet goes its way.
 */
#include "account.h"
#include "arrival.h"
#include "clone.h"
#include "content.h"
#include "departure.h"
#include "event.h"
#include "gro.h"
#include "kernel.h"
#include "match.h"
#include "record.h"
#include "refusal.h"
#include "table.h"

SEC("tp_btf/netif_rx_entry")
int router_netif_rx(__u64 *ctx)
{
	arrive((struct sk_buff *)ctx[0]);
	return 0;
}

SEC("tp_btf/netif_receive_skb_entry")
int router_receive(__u64 *ctx)
{
	arrive((struct sk_buff *)ctx[0]);
	return 0;
}

SEC("tp_btf/netif_receive_skb_list_entry")
int router_receive_list(__u64 *ctx)
{
	arrive((struct sk_buff *)ctx[0]);
	return 0;
}

static __always_inline void gro_enter(struct sk_buff *skb)
{
	struct gro *g = gro_here();
	struct packet *p;
	struct tuple t = {};
	__u32 segments;

	if (!g)
		return;
	g->entered = 0;
	p = arrive(skb);
	if (!p) {
		g->unfollowed = key_of(skb);
		return;
	}
	segments = shared_info(skb)->gso_segs;
	g->entered = key_of(skb);
	g->t1 = p->t1;
	g->wire = segments ? segments : 1;
	g->credited = 0;
	g->freed = 0;
	p->wire = g->wire;
	if (read_front(&t, skb))
		g->flow = mix(tuple_hash(&t), p->in);
	else
		g->flow = skb->hash;
}

static __always_inline void gro_leave(int verdict)
{
	struct gro *g = gro_here();
	struct gro_flow *f;
	struct packet *p;
	struct tally *tally;
	__u64 key;

	if (!g)
		return;
	if (!g->entered) {
		if (verdict == GRO_MERGED || verdict == GRO_MERGED_FREE)
			refusal_end(g->unfollowed);
		return;
	}
	key = g->entered;
	g->entered = 0;
	if (verdict != GRO_HELD && verdict != GRO_MERGED && verdict != GRO_MERGED_FREE && !g->freed)
		return;
	p = table_find(key);
	tally = tally_here();
	if (!p || !tally)
		return;
	if (verdict == GRO_HELD) {
		p->flags |= PACKET_HELD;
		f = gro_flow(g, g->flow);
		f->flow = g->flow;
		f->held = key;
		return;
	}
	if (verdict != GRO_MERGED && verdict != GRO_MERGED_FREE) {
		end(p, key, g->where, g->reason, g->freed == FREED_CONSUMED);
		return;
	}
	gro_merged(g);
	tally->merged++;
	packet_vanished(p, p->t1);
	table_remove(p, key);
}

SEC("tp_btf/napi_gro_receive_entry")
int router_gro_entry(__u64 *ctx)
{
	gro_enter((struct sk_buff *)ctx[0]);
	return 0;
}

SEC("tp_btf/napi_gro_receive_exit")
int router_gro_exit(__u64 *ctx)
{
	gro_leave((int)ctx[0]);
	return 0;
}

SEC("tp_btf/napi_gro_frags_entry")
int router_frags_entry(__u64 *ctx)
{
	gro_enter((struct sk_buff *)ctx[0]);
	return 0;
}

SEC("tp_btf/napi_gro_frags_exit")
int router_frags_exit(__u64 *ctx)
{
	gro_leave((int)ctx[0]);
	return 0;
}

/* Only where all are asked for is one without a record known not to have been seen. */
static __always_inline void unseen(struct net_device *in)
{
	struct tally *tally;

	if (input_count || match_wanted || sampling > 1 || paused || !in || in->ifindex == LOOPBACK)
		return;
	tally = tally_here();
	if (tally)
		tally->skipped[SKIP_UNSEEN]++;
}

/* t2 */
SEC("netfilter")
int router_pre_routing(struct bpf_nf_ctx *ctx)
{
	struct sk_buff *skb = ctx->skb;
	__u64 now, key = key_of(skb);
	struct packet *p = table_find(key);

	if (!p)
		p = clone_find(skb, key);
	if (p && p->t3) {
		struct tally *tally = tally_here();

		if (tally)
			reused(p, key, tally);
		p = 0;
	}
	if (!p)
		appear(skb, key, device_in(ctx->state));
	if (!p || p->t2)
		return NF_ACCEPT;
	now = bpf_ktime_get_ns();
	if (match_wanted && p->flags & PACKET_UNDECIDED && is_refused(skb)) {
		forget(p, key, now);
		return NF_ACCEPT;
	}
	if (p->flags & PACKET_HELD)
		gro_released(p, skb, key);
	if (now < p->t1) /* clocks of two processors */
		now = p->t1;
	p->t2 = now;
	packet_began(p, now);
	return NF_ACCEPT;
}

SEC("netfilter")
int router_local_in(struct bpf_nf_ctx *ctx)
{
	struct sk_buff *skb = ctx->skb;
	__u64 key = key_of(skb);
	struct packet *p = table_find(key);
	struct tally *tally = tally_here();

	if (!p)
		refusal_end(key);
	if (!p || !tally)
		return NF_ACCEPT;
	tally->local++;
	packet_vanished(p, bpf_ktime_get_ns());
	table_remove(p, key);
	return NF_ACCEPT;
}

static __always_inline void know_by_content(struct packet *p, __u64 key, __u64 content)
{
	struct tally *tally = tally_here();

	p->flags |= PACKET_CONTENT;
	__sync_fetch_and_add(&contents, 1);
	if (table_move(p, key, content))
		return;
	packet_vanished(p, p->t3);
	__sync_fetch_and_add(&contents, -1);
	if (tally)
		tally->lost[LOST_FULL]++;
}

/*
 * A record at t3 that has t3 already, or a packet of this host, which did not come in: the
 * packet passes once more, as for IPsec, or no hook saw it end, and one of this host has its
 * address now. It leaves the queue in which it was.
 */
static __always_inline struct packet *pass_again(struct packet *p, __u64 key, struct net_device *in)
{
	struct tally *tally = tally_here();

	if (in || !tally) {
		packet_vanished(p, bpf_ktime_get_ns());
		return p;
	}
	reused(p, key, tally);
	return 0;
}

/* t3 */
SEC("netfilter")
int router_post_routing(struct bpf_nf_ctx *ctx)
{
	struct sk_buff *skb = ctx->skb;
	struct net_device *out = device_out(ctx->state);
	__u64 now, content, key = key_of(skb);
	struct packet *p = table_find(key);
	__u32 length = skb->len;
	const struct skb_shared_info *info;

	if (p && (p->t3 || !device_in(ctx->state)))
		p = pass_again(p, key, device_in(ctx->state));
	if (!p) {
		struct tally *tally = tally_here();

		if (refusal_end(key))
			return NF_ACCEPT;
		if (device_in(ctx->state))
			unseen(device_in(ctx->state));
		else if (tally)
			tally_add(&tally->own, 1);
		return NF_ACCEPT;
	}
	now = bpf_ktime_get_ns();
	if (now < p->t2)
		now = p->t2;
	p->out = out->ifindex;
	if (!is_output(p->out)) {
		forget(p, key, now);
		return NF_ACCEPT;
	}
	p->t3 = now;
	p->length = length;
	packet_ended(p, now);
	info = shared_info(skb);
	if (info->gso_size)
		p->segments = info->gso_segs;
	else if (length <= out->mtu)
		return NF_ACCEPT;
	content = content_key(skb);
	if (content)
		know_by_content(p, key, content);
	return NF_ACCEPT;
}

/* t4 */
SEC("tp_btf/net_dev_start_xmit")
int router_start_xmit(__u64 *ctx)
{
	struct sk_buff *skb = (struct sk_buff *)ctx[0];
	struct net_device *dev = (struct net_device *)ctx[1];
	struct tally *tally;
	__u64 key, now;
	struct packet *p = find(skb, &key);

	if (!p)
		refusal_end(key);
	if (!p || descends(p, dev))
		return 0;
	tally = tally_here();
	if (!tally)
		return 0;
	if (is_elsewhere(p, dev)) {
		reused(p, key, tally);
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (!p->t3) {
		/* A bridge or a redirection: it never met IP, and has no stages. */
		if (!is_output(dev->ifindex)) {
			forget(p, key, now);
			return 0;
		}
		tally->forwarded++;
		tally->below++;
		packet_vanished(p, now);
		let_go(p, key);
		return 0;
	}
	if (now < p->t3)
		now = p->t3;
	if (p->segments && shared_info(skb)->gso_size)
		p->segments = 0; /* left to the device */
	tally->forwarded++;
	tally->segments += p->segments;
	account_stages(p, now);
	packet_departed(p, skb, dev, now);
	if (records_wanted)
		record_packet(p, skb, now, tally);
	let_go(p, key);
	return 0;
}

static __always_inline void free_packet(__u64 *ctx)
{
	struct sk_buff *skb = (struct sk_buff *)ctx[0];
	__u32 reason = ctx[2];
	__u64 key = key_of(skb);
	struct packet *p = table_find(key);

	if (!p && !is_tap(reason))
		p = content_find(skb, &key);
	if (!p) {
		refusal_end(key);
		return;
	}
	if (p->t3 && has_left(skb))
		miss(p, key);
	else if (!gro_defers(p, key, ctx[1], reason, FREED_DROPPED))
		end(p, key, ctx[1], reason, 0);
}

/*
 * Twice the same: the kernel does not run a program that a softirq finds running on
 * its processor, but then it runs the other.
 */
SEC("tp_btf/kfree_skb")
int router_free(__u64 *ctx)
{
	free_packet(ctx);
	return 0;
}

SEC("tp_btf/kfree_skb")
int router_free_again(__u64 *ctx)
{
	free_packet(ctx);
	return 0;
}

/*
 * Consumed without a way out: tc or a socket took it. Originals that GSO cut are known
 * by content by now, and not found here.
 */
SEC("tp_btf/consume_skb")
int router_consume(__u64 *ctx)
{
	struct sk_buff *skb = (struct sk_buff *)ctx[0];
	__u64 where = ctx[1], key = key_of(skb);
	struct packet *p = table_find(key);

	if (!p) {
		refusal_end(key);
		return 0;
	}
	if (p->t3)
		miss(p, key);
	else if (p->t2 && is_fragment(skb))
		gather(p, key);
	else if (!gro_defers(p, key, where, 0, FREED_CONSUMED))
		end(p, key, where, 0, 1);
	return 0;
}

/* Keep the types for the loader. */
const struct record *record_type __attribute__((unused));
const struct drop_key *drop_key_type __attribute__((unused));
const struct pair *pair_type __attribute__((unused));
const struct pause *pause_type __attribute__((unused));

char _license[] SEC("license") = "GPL";
