/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * How many packets wait at each side of an interface. What the processors share is one
 * cache line for each queue; everything else is per processor.
 */
#ifndef PILLION_ROUTER_QUEUE_H
#define PILLION_ROUTER_QUEUE_H

#include "processor.h"
#include "stage.h"

#define QUEUE_INPUT 0
#define QUEUE_OUTPUT 1
#define QUEUE_SIDES 2
#define QUEUE_SIZES 1024
#define QUEUES 1024 /* a power of two; room for PAIRS_MAX + 1 interfaces */

#define PASSING_NS 20000 /* a packet at an output for less does not wait */
#define STUCK_NS 1000000000 /* nor does one that others overtake for longer */

#define QUEUE_UNKNOWN 0xffffffff /* the kernel does not provide it */

/* Arrivals and departures on all processors; these counters only grow. */
struct queue {
	__u64 in;
	__u64 out;
	__u64 counted; /* in, as of the last departure */
	__u64 since;   /* when a packet last arrived at the empty queue, ns */
	__u64 stuck;   /* of the depth: packets that do not wait, but whose end was not seen */
} __attribute__((aligned(64)));

/*
 * What one processor saw. arrivals and departures are written first and read last,
 * events the other way round: they agree in what is read only if nothing was written
 * in between. The moment is the sum of the times of departures minus the sum of the times of arrivals:
 * with the depth times now it makes the integral of the depth.
 */
struct queue_sum {
	__u64 events;
	__u64 moment;
	__u64 waited;      /* sum of the waits */
	__u64 found;       /* sum of the depths, where the kernel's were read */
	__u64 kernel;      /* sum of the kernel's */
	__u64 kernel_read; /* how often */
	__u64 kernel_high;
	__u64 high;        /* largest depth */
	__u64 recent;      /* the same since the epoch */
	__u64 epoch;
	__u64 ended;       /* of the departures: they went no further */
	__u64 arrivals;
	__u64 departures;
};

struct queue_size {
	__u64 sizes[QUEUE_SIZES]; /* by depth that a packet found when it left, itself included */
	__u64 came[QUEUE_SIZES];  /* by arrivals between two departures */
};

__u32 queue_keys[PAIRS_MAX];                       /* index of the interface; 0: free */
struct queue queues[QUEUES];                       /* the first two: interfaces without a place */
__u64 queue_epoch; /* the loader counts it on with each reading */

/* Key: place of the interface times sides plus side; value: sums of one processor. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct queue_sum);
} queue_sums SEC(".maps");

/* Key: the same; value: histograms of one processor. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct queue_size);
} queue_sizes SEC(".maps");

struct sk_buff_head {
	__u32 qlen;
} KERNEL;

struct softnet_data {
	struct sk_buff_head process_queue;
	struct sk_buff_head input_pkt_queue;
	struct napi_struct backlog;
} KERNEL;

struct qdisc_skb_head {
	__u32 qlen;
} KERNEL;

struct Qdisc {
	unsigned int flags;
	struct qdisc_skb_head q;
} KERNEL;

#define QDISC_PER_CPU 0x20 /* TCQ_F_CPUSTATS: its length is spread over the processors */

struct netdev_queue {
	struct Qdisc *qdisc;
} KERNEL;

/* The part of these that only queues need. */
struct net_device___queue {
	struct netdev_queue *_tx;
} KERNEL;

struct sk_buff___queue {
	__u16 queue_mapping;
} KERNEL;

/*
 * Place of the interface, from 1; 0: no room. A function by itself, here and below: the
 * verifier looks at it once, not at each call.
 */
__noinline int queue_place(__u32 device)
{
	for (__u32 i = 0; i < PAIR_PROBES; i++) {
		__u32 place = (device + i) & (pair_places - 1) & (PAIRS_MAX - 1);
		__u32 there = queue_keys[place];

		if (!there)
			there = __sync_val_compare_and_swap(&queue_keys[place], 0, device);
		if (!there || there == device)
			return place + 1;
	}
	return 0;
}

/* Number of the queue in all that is kept of it. */
static __always_inline __u32 queue_number(__u32 device, __u32 side)
{
	__u32 place = device & (pair_places - 1) & (PAIRS_MAX - 1);

	if (queue_keys[place] == device)
		return (place + 1) * QUEUE_SIDES + side;
	return queue_place(device) * QUEUE_SIDES + side;
}

#define WRITE_FIRST() asm volatile("" ::: "memory")

static __always_inline void queue_enter(__u32 device, __u32 side, __u64 now)
{
	__u32 number = queue_number(device, side);
	struct queue *q = &queues[number & (QUEUES - 1)];
	struct queue_sum *s = bpf_map_lookup_elem(&queue_sums, &number);
	__u64 depth = __sync_fetch_and_add(&q->in, 1) - q->out;

	if (depth <= q->stuck)
		q->since = now;
	depth++;
	if (!s)
		return;
	s->arrivals++;
	WRITE_FIRST();
	s->moment -= now;
	if (s->epoch != queue_epoch) {
		s->epoch = queue_epoch;
		s->recent = 0;
	}
	/* Signed: one that left may be seen before the one that came. */
	if ((__s64)depth > (__s64)s->recent)
		s->recent = depth;
	if ((__s64)depth > (__s64)s->high)
		s->high = depth;
	WRITE_FIRST();
	s->events++;
}

/*
 * One packet whose end no hook saw would stay in the queue for ever and hide every
 * later coffee break.
 */
static __always_inline void queue_stuck(struct queue *q, __u64 depth, int passing)
{
	if (depth < q->stuck || (passing && depth != q->stuck))
		q->stuck = depth;
}

/* Counts the departing packet too; kernel is the kernel's own depth, without it. */
static __always_inline void queue_leave(__u32 device, __u32 side, __u64 came, __u64 now, __u32 kernel)
{
	__u32 number = queue_number(device, side);
	struct queue *q = &queues[number & (QUEUES - 1)];
	struct queue_sum *s = bpf_map_lookup_elem(&queue_sums, &number);
	struct queue_size *z = bpf_map_lookup_elem(&queue_sizes, &number);
	__u64 depth, between, in;

	depth = __sync_fetch_and_add(&q->out, 1);
	in = q->in;
	depth = in - depth;
	if (side == QUEUE_OUTPUT)
		queue_stuck(q, depth - 1, now - came <= PASSING_NS && now - q->since > STUCK_NS);
	between = in - __sync_lock_test_and_set(&q->counted, in);
	if (!s || !z)
		return;
	s->departures++;
	WRITE_FIRST();
	s->moment += now;
	s->waited += now - came;
	if (kernel != QUEUE_UNKNOWN) {
		s->found += depth;
		s->kernel += kernel + 1;
		s->kernel_read++;
		if (kernel + 1 > s->kernel_high)
			s->kernel_high = kernel + 1;
	}
	WRITE_FIRST();
	s->events++;
	z->sizes[depth < QUEUE_SIZES ? depth : QUEUE_SIZES - 1]++;
	if ((__s64)between < 0)
		between = 0;
	z->came[between < QUEUE_SIZES ? between : QUEUE_SIZES - 1]++;
}

/* It went no further. Softirqs may be on and interrupt anywhere. */
__noinline int queue_end(__u32 device, __u32 side, __u64 came, __u64 now)
{
	__u32 number = queue_number(device, side);
	struct queue_sum *s = bpf_map_lookup_elem(&queue_sums, &number);
	struct queue *q = &queues[number & (QUEUES - 1)];
	__u64 out = __sync_fetch_and_add(&q->out, 1);

	queue_stuck(q, q->in - out - 1, 0);
	if (!s)
		return 0;
	if (now < came) /* clocks of two processors */
		now = came;
	__sync_fetch_and_add(&s->departures, 1);
	__sync_fetch_and_add(&s->ended, 1);
	__sync_fetch_and_add(&s->moment, now);
	__sync_fetch_and_add(&s->waited, now - came);
	__sync_fetch_and_add(&s->events, 1);
	return 0;
}

static __always_inline __u32 backlog_length(const struct processor *c)
{
	const struct softnet_data *data;

	if (!c || !c->backlog)
		return QUEUE_UNKNOWN;
	data = AT(struct softnet_data, (const void *)(c->backlog - bpf_core_field_offset(struct softnet_data, backlog)));
	return data->input_pkt_queue.qlen + data->process_queue.qlen;
}

static __always_inline __u32 qdisc_length(struct sk_buff *skb, struct net_device *dev)
{
	__u64 offset = ((struct sk_buff___queue *)skb)->queue_mapping * (__u64)bpf_core_type_size(struct netdev_queue);
	const struct netdev_queue *queue;
	struct Qdisc *qdisc;

	queue = AT(struct netdev_queue, address(AT(struct net_device___queue, dev)->_tx, offset));
	qdisc = queue->qdisc;
	if (!qdisc || qdisc->flags & QDISC_PER_CPU)
		return QUEUE_UNKNOWN;
	return qdisc->q.qlen;
}

#endif
