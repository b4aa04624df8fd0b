/* The thread that sends: takes samples out of the ring, puts them into the queues
 * of the collectors, and moves those. */
#include <stdio.h>
#include <time.h>

#include "sink.h"
#include "window.h"

#define TURN_MOST 4096          /* samples between two looks at the collectors */
#define REST_LEAST 200000       /* ns to sleep when there is nothing to do */
#define REST_MOST 10000000      /* grows up to this */
#define REPORT_EVERY 1000000000 /* ns between notes of what was dropped */

static void sample(struct record *record)
{
	struct OmlMP *point = library.points[record->point];
	struct value values[FIELDS];

	values_unpack((const unsigned char *)(record + 1), point->types, point->count, values);
	for (struct stream *s = point->streams; s; s = s->next) {
		if (s->window)
			window_add(s, record->time, values);
		else
			stream_send(s, record->time, values);
	}
}

static int room(void)
{
	if (!library.sinks)
		return 1;
	for (struct sink *s = library.sinks; s; s = s->next)
		if (sink_has_room(s))
			return 1;
	return 0;
}

static int drain(void)
{
	int n = 0;
	struct record *record;

	while (n < TURN_MOST && room() && (record = ring_oldest(&library.ring))) {
		sample(record);
		ring_release(&library.ring, record);
		n++;
	}
	return n;
}

/* Tells each collector how many samples of a point were dropped; their numbers are
 * left out of its streams. */
static void report(void)
{
	int count = atomic_load(&library.point_count);

	for (int i = 0; i < count; i++) {
		struct OmlMP *p = library.points[i];
		uint64_t dropped = atomic_load(&p->dropped);
		char subject[512], value[24];

		if (dropped == p->reported || !room())
			continue;
		snprintf(subject, sizeof subject, ".%s", p->name);
		snprintf(value, sizeof value, "%llu", (unsigned long long)dropped);
		for (struct stream *s = p->streams; s; s = s->next) {
			if (!s->window)
				s->seq += (int64_t)(dropped - p->reported);
			sink_note(s->sink, subject, "dropped", value);
		}
		p->reported = dropped;
	}
}

static int move(int64_t now)
{
	int moved = 0;

	for (struct sink *s = library.sinks; s; s = s->next)
		moved |= sink_turn(s, now) > 0;
	return moved;
}

static int done(void)
{
	for (struct sink *s = library.sinks; s; s = s->next)
		if (!sink_done(s))
			return 0;
	return 1;
}

/* What is left when the program ends: windows that are not full, and counts. */
static void finish(void)
{
	windows_flush();
	report();
	atomic_store(&library.closing, 2);
}

static void rest(int64_t ns)
{
	struct timespec t = {.tv_nsec = ns};

	nanosleep(&t, NULL);
}

void *sender_run(void *unused)
{
	int64_t pause = REST_LEAST, told = now_steady();

	(void)unused;
	for (;;) {
		int busy, ended;
		int64_t now = now_steady();

		pthread_mutex_lock(&library.lock);
		busy = drain() > 0;
		windows_turn(now);
		if (now - told > REPORT_EVERY) {
			report();
			told = now;
		}
		if (atomic_load(&library.closing) == 1 && !busy && room())
			finish();
		busy |= move(now);
		ended = atomic_load(&library.closing) && (now > library.deadline || (atomic_load(&library.closing) == 2 && done()));
		pthread_mutex_unlock(&library.lock);
		if (ended)
			return NULL;
		pause = busy ? REST_LEAST : pause * 2 > REST_MOST ? REST_MOST : pause * 2;
		if (!busy)
			rest(pause);
	}
}
