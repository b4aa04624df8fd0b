/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Coffee breaks (seed 3): packets wait at the input, none at the output, and no packet
 * begins or ends its processing. A break is found when it is over: the packet that
 * begins then was the first to wait on this processor.
 */
#ifndef PILLION_ROUTER_BREAK_H
#define PILLION_ROUTER_BREAK_H

#include "processor.h"
#include "queue.h"
#include "stage.h"

#define BREAK_BETWEEN 4096

enum break_cause {
	CAUSE_UNKNOWN,
	CAUSE_SCHEDULED,
	CAUSE_SOFTIRQ,
	CAUSE_IRQ,
	CAUSE_NOT_RECORDED,
};

#define CAUSES 8 /* a power of two */

struct pause {
	__u64 start; /* ns, CLOCK_MONOTONIC */
	__u64 length;
	__u64 depth;
	__u64 since;
	__u64 kinds[4]; /* ns, by kind of spell */
	__u32 cpu;
	__u32 cause;
	__u32 truncated; /* older spells were forgotten */
	__u32 zero;
	char task[TASK_COMM];
};

struct pause_sum {
	__u64 unsent;
	__u64 causes[CAUSES];
	__u64 between[BREAK_BETWEEN];
	struct extremes extremes;
	struct bucket lengths[HISTOGRAM_SIDE];
};

__u64 output_waited; /* until when a packet waited at an output */

/* Key: shard; value: sums of the processors that it stands for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pause_sum);
} break_sums SEC(".maps");

/* Single ones, written by the programs, read by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} breaks SEC(".maps");

struct inputs {
	__u64 now;
	__s64 depth; /* packets that wait at inputs; -1: there is one at an output */
};

static int add_input(__u32 i, void *context)
{
	struct inputs *sum = context;
	struct queue *in = &queues[(i * QUEUE_SIDES + QUEUE_INPUT) & (QUEUES - 1)];
	struct queue *out = &queues[(i * QUEUE_SIDES + QUEUE_OUTPUT) & (QUEUES - 1)];

	if ((__s64)(out->in - out->out - out->stuck) > 0 && (__s64)(sum->now - out->since) > PASSING_NS) {
		sum->depth = -1;
		return 1;
	}
	sum->depth += in->in - in->out;
	return 0;
}

static __always_inline __u64 common(__u64 begin, __u64 end, __u64 start, __u64 now)
{
	if (begin < start)
		begin = start;
	if (end > now)
		end = now;
	return end > begin ? end - begin : 0;
}

/* A search for what a processor did, from the latest to the earliest. */
struct search {
	struct processor *c;
	struct pause *b;
	__u64 now;
	__u32 next; /* as it was at the start: an interrupt may add a spell meanwhile */
	__u64 longest;
	__u64 task;    /* when the latest process so far began */
	__u64 softirq; /* the same of softirqs */
};

static __always_inline void add_task(struct search *f, __u64 begin, __u64 end, const void *name)
{
	__u64 took = common(begin, end, f->b->start, f->now);

	f->b->kinds[SPELL_TASK] += took;
	f->task = begin;
	if (took <= f->longest)
		return;
	f->longest = took;
	bpf_probe_read_kernel(f->b->task, sizeof(f->b->task), name);
}

static int add_spell(__u32 i, void *context)
{
	struct search *f = context;
	struct pause *b = f->b;
	struct spell *s = &f->c->spells[(f->next - 1 - i) & (SPELLS - 1)];
	__u64 took;

	if (s->end <= b->start) {
		b->truncated = 0;
		return 1;
	}
	if (s->kind == SPELL_TASK) {
		add_task(f, s->begin, s->end, s->task);
		return 0;
	}
	took = common(s->begin, s->end, b->start, f->now);
	b->kinds[s->kind & 3] += took;
	/* What it interrupted did not have the processor. */
	if (s->kind == SPELL_IRQ && s->begin >= f->softirq)
		b->kinds[SPELL_SOFTIRQ] -= took;
	else if (s->begin >= f->task)
		b->kinds[SPELL_TASK] -= took;
	if (s->kind == SPELL_SOFTIRQ)
		f->softirq = s->begin;
	return 0;
}

static __always_inline void explain(struct pause *b, struct processor *c, __u64 now)
{
	struct search f = {.c = c, .b = b, .now = now, .next = c->next, .task = now, .softirq = now};
	__u64 half = b->length / 2;

	if (!causes_since) {
		b->cause = CAUSE_NOT_RECORDED;
		return;
	}
	b->truncated = 1;
	/* The process that is interrupted right now for the packet's sake. */
	if (c->kind == SPELL_TASK && is_recent(c->running))
		add_task(&f, c->running, now, bpf_get_current_task_btf()->comm);
	bpf_loop(SPELLS, add_spell, &f, 0);
	if (b->kinds[SPELL_TASK] > half)
		b->cause = CAUSE_SCHEDULED;
	else if (b->kinds[SPELL_SOFTIRQ] > half)
		b->cause = CAUSE_SOFTIRQ;
	else if (b->kinds[SPELL_IRQ] > half)
		b->cause = CAUSE_IRQ;
}

__noinline int break_found(__u64 start, __u64 now)
{
	struct processor *c = processor_here();
	struct pause b = {}, *sent;
	struct pause_sum *sum;
	struct inputs inputs = {.now = now};
	__u32 shard;

	bpf_loop(pair_places + 1, add_input, &inputs, 0);
	if (start < output_waited)
		start = output_waited;
	if (!c || inputs.depth < 0 || now < start + break_ns)
		return 0;
	b.start = start;
	b.length = now - start;
	b.depth = inputs.depth;
	b.since = c->since;
	b.cpu = bpf_get_smp_processor_id();
	c->since = 0;
	explain(&b, c, now);
	shard = b.cpu & (shards - 1);
	sum = bpf_map_lookup_elem(&break_sums, &shard);
	if (!sum)
		return 0;
	sum_up(&sum->causes[b.cause & (CAUSES - 1)], 1);
	sum_up(&sum->between[b.since < BREAK_BETWEEN ? b.since : BREAK_BETWEEN - 1], 1);
	observe(&sum->extremes, sum->lengths, b.length);
	sent = bpf_ringbuf_reserve(&breaks, sizeof(b), 0);
	if (!sent) {
		sum_up(&sum->unsent, 1);
		return 0;
	}
	*sent = b;
	bpf_ringbuf_submit(sent, 0);
	return 0;
}

/* A packet begins that has waited since then. */
static __always_inline void break_look(struct processor *c, __u64 waits, __u64 now)
{
	__u64 start = c->touched;

	if (start < waits)
		start = waits;
	if ((__s64)(now - start) >= (__s64)break_ns)
		break_found(start, now);
	c->touched = now;
	c->since++;
}

#endif
