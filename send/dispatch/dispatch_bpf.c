// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//go:build ignore

/*
 * Sends packets at exact times (pre-dispatch, seed 5). The agent runs dispatch_run by
 * BPF_PROG_TEST_RUN, once or more per train, with many iterations each: an iteration prepares
 * the next packet, waits for its time in the kernel, and hands a clone to the device. The
 * buffer stays the same from one iteration to the next.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "ring.h"

#define TC_ACT_OK 0
#define SLICE_NS 20000 /* softirqs are off during an iteration: the longest wait in one */
#define TOGETHER 64 /* packets of one iteration at most */
#define SPINS (1 << 20) /* far more than a slice needs */

volatile const __u32 device; /* index of the interface */
volatile const __u32 namespace; /* inode number of its network namespace */
volatile const __u32 mark; /* of this sender's packets: the upper bits; the lower ones are the slot */

struct wait {
	__u64 until; /* ns */
	__u64 now;
};

static long spin(__u32 turn, struct wait *w)
{
	w->now = bpf_ktime_get_ns();
	return w->now >= w->until;
}

/* Puts the packet into the buffer, without copying what is in there already. */
static __always_inline long prepare(struct __sk_buff *skb, struct control *c, struct slot *s)
{
	struct frame *f;
	__u32 index = s->frame;
	__u32 length = s->length;

	if (length < ETH_HLEN || length > FRAME_BYTES)
		return -1;
	if (c->length != length) {
		if (bpf_skb_change_tail(skb, length, 0))
			return -1;
		c->length = length;
		c->frame = 0;
	}
	if (c->frame != index + 1) {
		f = bpf_map_lookup_elem(&frames, &index);
		if (!f || bpf_skb_store_bytes(skb, 0, f->bytes, length, 0))
			return -1;
		c->frame = index + 1;
	}
	if (s->patch_size == PATCH_BYTES)
		return bpf_skb_store_bytes(skb, s->patch_at, s->patch, PATCH_BYTES, 0);
	return 0;
}

/* Sends the next packet if its time comes within the slice. Returns whether it was used up. */
static __always_inline int send_next(struct __sk_buff *skb, struct control *c, int *together)
{
	struct wait w = { 0 };
	struct slot *s;
	struct outcome *o;
	__u64 next = c->next;
	__u32 at = next & SLOT_MASK;
	__u64 late_after = c->late_after;
	__u64 due;
	long error;

	if (c->cancelled || next >= c->limit)
		return 0;
	s = bpf_map_lookup_elem(&slots, &at);
	o = bpf_map_lookup_elem(&outcomes, &at);
	if (!s || !o || s->protocol != (__u16)skb->protocol)
		return 0;
	*together = s->together;
	if (c->prepared != next + 1) {
		if (prepare(skb, c, s)) {
			o->fate = FATE_FAILED;
			o->error = -12; /* ENOMEM */
			c->next = next + 1;
			return 1;
		}
		c->prepared = next + 1;
	}
	due = c->start + s->due;
	w.now = bpf_ktime_get_ns();
	if (w.now < due) {
		w.until = w.now + SLICE_NS < due ? w.now + SLICE_NS : due;
		bpf_loop(SPINS, spin, &w, 0);
		if (w.now < due)
			return 0;
	}
	c->next = next + 1;
	if (late_after && w.now > due + late_after) {
		o->handed = w.now;
		o->fate = FATE_LATE;
		return 1;
	}
	skb->mark = mark | at;
	o->handed = w.now;
	error = bpf_clone_redirect(skb, device, 0);
	o->error = error;
	o->fate = error ? FATE_FAILED : FATE_SENT;
	return 1;
}

SEC("tc")
int dispatch_run(struct __sk_buff *skb)
{
	__u32 zero = 0;
	int together = 0;
	struct control *c = bpf_map_lookup_elem(&controls, &zero);

	if (!c)
		return TC_ACT_OK;
	for (int i = 0; i < TOGETHER; i++)
		if (!send_next(skb, c, &together) || !together)
			break;
	return TC_ACT_OK;
}

struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} __attribute__((preserve_access_index)) possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

struct sk_buff {
	__u32 mark;
} __attribute__((preserve_access_index));

/* The driver gets the packet: behind the queueing discipline, before its ring. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(dispatch_driver, struct sk_buff *skb, struct net_device *dev)
{
	__u32 marked = skb->mark, at = marked & SLOT_MASK;
	struct outcome *o;

	if ((marked & ~SLOT_MASK) != mark || dev->ifindex != device || dev->nd_net.net->ns.inum != namespace)
		return 0;
	o = bpf_map_lookup_elem(&outcomes, &at);
	if (o && !o->driver)
		o->driver = bpf_ktime_get_ns();
	return 0;
}

char _license[] SEC("license") = "GPL";
