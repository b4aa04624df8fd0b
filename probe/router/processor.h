/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What each processor does besides: processes, interrupts, softirqs other than the
 * network's. Spells of it are kept for a while, so that the cause of a coffee break is
 * determined afterwards, at no cost per packet. The programs here run for every softirq
 * and every switch between processes: they are attached only while causes are requested.
 */
#ifndef PILLION_ROUTER_PROCESSOR_H
#define PILLION_ROUTER_PROCESSOR_H

#include "kernel.h"

#define SPELLS 128 /* a power of two */

#define SOFTIRQ_NET_RX 3
#define TASK_COMM 16

const volatile __u64 break_ns = 100000; /* the least length of a break; set by the loader */

volatile __u64 causes_since; /* since when causes are recorded, ns; 0: they are not. Set by the loader */

enum spell_kind {
	SPELL_NONE,
	SPELL_TASK,
	SPELL_SOFTIRQ,
	SPELL_IRQ,
};

/* In the order of their ends. One may lie inside another, which then ends later. */
struct spell {
	__u64 begin; /* ns, CLOCK_MONOTONIC */
	__u64 end;
	__u32 kind;
	__u32 zero;
	char task[TASK_COMM];
};

struct processor {
	__u64 touched; /* when a packet last began or ended its processing here */
	__u64 since;   /* packets that began here since the last break */
	__u64 backlog; /* address of the napi of its backlog; 0: not known */
	__u64 softirq; /* since when a softirq runs that is not the network's; 0: none does */
	__u64 irq;     /* since when an interrupt is handled */
	__u64 running; /* since when the process has it */
	__u32 kind;    /* SPELL_TASK, or SPELL_NONE: idle, or a thread of the network */
	__u32 next;    /* place of the next spell */
	struct spell spells[SPELLS];
};

/* Key: 0; value: what one processor does. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct processor);
} processors SEC(".maps");

struct task_struct {
	int pid;
	unsigned int flags;
	char comm[TASK_COMM];
} KERNEL;

struct napi_struct {
	struct net_device *dev;
} KERNEL;

static __always_inline struct processor *processor_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&processors, &zero);
}

static __always_inline struct spell *spell_new(struct processor *c, __u32 kind, __u64 begin, __u64 end)
{
	struct spell *s = &c->spells[c->next & (SPELLS - 1)];

	c->next++;
	s->begin = begin;
	s->end = end;
	s->kind = kind;
	return s;
}

#define TASK_KERNEL 0x00200000 /* PF_KTHREAD */

/* Idle, and the threads that do the network's work (ksoftirqd, napi), keep no packet waiting. */
static __always_inline __u32 task_kind(const struct task_struct *task)
{
	if (!task->pid)
		return SPELL_NONE;
	if (!(task->flags & TASK_KERNEL))
		return SPELL_TASK;
	if (task->comm[0] == 'k' && task->comm[1] == 's' && task->comm[2] == 'o' && task->comm[3] == 'f')
		return SPELL_NONE;
	if (task->comm[0] == 'n' && task->comm[1] == 'a' && task->comm[2] == 'p' && task->comm[3] == 'i')
		return SPELL_NONE;
	return SPELL_TASK;
}

/* A beginning from before the programs were attached again may have ended without them. */
static __always_inline int is_recent(__u64 begin)
{
	return begin && begin >= causes_since;
}

SEC("tp_btf/sched_switch")
int router_switch(__u64 *ctx)
{
	struct task_struct *last = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];
	struct processor *c = processor_here();
	__u64 now = bpf_ktime_get_ns();

	if (!c)
		return 0;
	/* Many short ones would make the long ones forgotten. */
	if (c->kind == SPELL_TASK && is_recent(c->running) && now - c->running >= break_ns / 16) {
		struct spell *s = spell_new(c, SPELL_TASK, c->running, now);

		bpf_probe_read_kernel(s->task, sizeof(s->task), last->comm);
	}
	c->running = now;
	c->kind = task_kind(next);
	return 0;
}

/*
 * The softirq of the network may run once for each packet. It is left out before
 * anything is paid for.
 */
SEC("tp_btf/softirq_entry")
int router_softirq_entry(__u64 *ctx)
{
	struct processor *c;

	if (ctx[0] == SOFTIRQ_NET_RX)
		return 0;
	c = processor_here();
	if (!c)
		return 0;
	c->softirq = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int router_softirq_exit(__u64 *ctx)
{
	struct processor *c;
	__u64 now;

	if (ctx[0] == SOFTIRQ_NET_RX)
		return 0;
	c = processor_here();
	if (!c || !is_recent(c->softirq))
		return 0;
	now = bpf_ktime_get_ns();
	spell_new(c, SPELL_SOFTIRQ, c->softirq, now);
	c->softirq = 0;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int router_irq_entry(__u64 *ctx)
{
	struct processor *c = processor_here();

	if (c)
		c->irq = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int router_irq_exit(__u64 *ctx)
{
	struct processor *c = processor_here();
	__u64 now = bpf_ktime_get_ns();

	if (!c || !is_recent(c->irq))
		return 0;
	spell_new(c, SPELL_IRQ, c->irq, now);
	c->irq = 0;
	return 0;
}

/*
 * Learns where each processor's backlog is: only there the kernel's own count of what
 * waits can be read. The loader takes it off again as soon as each has been seen.
 */
SEC("tp_btf/napi_poll")
int router_napi_poll(__u64 *ctx)
{
	struct napi_struct *napi = (struct napi_struct *)ctx[0];
	struct processor *c = processor_here();

	if (c && !napi->dev)
		c->backlog = (__u64)napi;
	return 0;
}

#endif
