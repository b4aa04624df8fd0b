/* The sending thread: takes samples from the ring, queues them for the collectors, and
 * sends the queues. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "sink.h"
#include "window.h"

#define STEP_MOST 4096          /* samples per step */
#define REST_LEAST 200000       /* ns to sleep when idle */
#define REST_MOST 10000000      /* grows up to this */
#define REST_ASIDE 20000        /* ns, to yield the lock to another thread */
#define REPORT_EVERY 1000000000 /* ns between reports of drops */
#define JOIN_MORE 500000000     /* ns after the deadline until the thread is abandoned */

static pthread_mutex_t end_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t end_changed;
static int ended;

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

	while (n < STEP_MOST  && room() && (record = ring_oldest(&library.ring))) {
		sample(record);
		ring_release(&library.ring, record);
		n++;
	}
	return n;
}

static void note_number(struct stream *s, const char *key, uint64_t n)
{
	char value[24];
	struct buffer subject = {0};

	snprintf(value, sizeof value, "%llu", (unsigned long long)n);
	if (buffer_print(&subject, ".%s", s->point->name) == 0)
		sink_note(s->sink, (const char *)subject.bytes, key, value);
	buffer_free(&subject);
}

static void report_streams(struct stream *first, uint64_t dropped)
{
	for (struct stream *s = first; s; s = s->next) {
		report_streams(s->children, dropped);
		if (s->replaced || dropped + s->lost == s->reported || !sink_has_room(s->sink))
			continue;
		if (!s->window)
			s->seq += (int64_t)(dropped - s->skipped);
		s->skipped = dropped;
		s->reported = dropped + s->lost;
		note_number(s, "dropped", s->reported);
	}
}

/* Reports to each collector the number of dropped samples of a point, which are gaps in
 * the sequence numbers of its streams. */
static void report(void)
{
	int count = atomic_load(&library.point_count);

	for (int i = 0; i < count; i++)
		report_streams(library.points[i]->streams, atomic_load(&library.points[i]->dropped));
}

static void note_samples(struct sink *s, const char *key, int n)
{
	for (int i = 1; i < s->stream_count; i++)
		if (!s->streams[i]->window)
			note_number(s->streams[i], key, (uint64_t)n);
}

/* Aggregates, or for streams that cannot have them the thinning that takes their place. */
static void note_aggregates(struct sink *s)
{
	for (int i = 1; i < s->stream_count; i++) {
		if (s->streams[i]->window)
			continue;
		if (s->streams[i]->aggregate)
			note_number(s->streams[i], "aggregated", (uint64_t)s->aggregate);
		else
			note_number(s->streams[i], "thinned", (uint64_t)stream_thin(s->streams[i]));
	}
}

static void note_rate(struct sink *s)
{
	char value[24];

	snprintf(value, sizeof value, "%lld", (long long)s->rate);
	sink_note(s, ".", "slowed", value);
}

/* Reports from where on a collector gets only every n-th sample, or aggregates, as
 * requested. */
static void report_requests(void)
{
	for (struct sink *s = library.sinks; s; s = s->next) {
		if (!sink_has_room(s))
			continue;
		if (s->thin != s->thin_reported)
			note_samples(s, "thinned", s->thin);
		s->thin_reported = s->thin;
		if (s->aggregate != s->aggregate_reported) {
			sink_aggregate(s);
			note_aggregates(s);
		}
		s->aggregate_reported = s->aggregate;
		if (s->rate != s->rate_reported)
			note_rate(s);
		s->rate_reported = s->rate;
	}
}

static int move(int64_t now)
{
	int moved = 0;

	for (struct sink *s = library.sinks; s; s = s->next)
		moved |= sink_step(s, now) > 0;
	return moved;
}

static int done(void)
{
	for (struct sink *s = library.sinks; s; s = s->next)
		if (!sink_done(s))
			return 0;
	return 1;
}

static void rest(int64_t ns)
{
	struct timespec t = {.tv_nsec = ns};

	nanosleep(&t, NULL);
}

/* One step of the thread; 1 if busy, 0 if idle, -1 at the end. */
static int step(int64_t now, int64_t *reported)
{
	int busy = drain() > 0;

	windows_expire(now);
	report_requests();
	if (now - *reported > REPORT_EVERY) {
		report();
		*reported = now;
	}
	/* When closing: incomplete windows, and counts. */
	if (atomic_load(&library.closing) == CLOSING_BEGUN && ring_is_empty(&library.ring) && room()) {
		windows_flush();
		report();
		atomic_store(&library.closing, CLOSING_LAST);
	}
	busy |= move(now);
	if (!atomic_load(&library.closing))
		return busy;
	return now > library.deadline || (atomic_load(&library.closing) == CLOSING_LAST && done()) ? -1 : busy;
}

static void *run(void *unused)
{
	int64_t pause = REST_LEAST, reported = now_steady();

	(void)unused;
	for (;;) {
		int busy;

		pthread_mutex_lock(&library.lock);
		busy = step(now_steady(), &reported);
		pthread_mutex_unlock(&library.lock);
		if (busy < 0)
			break;
		pause = busy ? REST_LEAST : pause * 2 > REST_MOST ? REST_MOST : pause * 2;
		if (!busy)
			rest(pause);
		else if (atomic_load(&library.waiting))
			rest(REST_ASIDE);
	}
	pthread_mutex_lock(&end_lock);
	ended = 1;
	pthread_cond_signal(&end_changed);
	pthread_mutex_unlock(&end_lock);
	return NULL;
}

int sender_begin(void)
{
	pthread_condattr_t steady;
	sigset_t all, before;
	int failed;

	pthread_condattr_init(&steady);
	pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
	pthread_cond_init(&end_changed, &steady);
	pthread_condattr_destroy(&steady);
	sigfillset(&all); /* signals go to the program's threads */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&library.thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return failed ? -1 : 0;
}

int sender_end(void)
{
	int64_t until = now_steady() + (int64_t)(library.options.patience * 1e9);
	struct timespec limit;
	int over;

	library.deadline = until;
	atomic_store(&library.closing, CLOSING_BEGUN);
	until += JOIN_MORE;
	limit = (struct timespec){.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
	pthread_mutex_lock(&end_lock);
	while (!ended && pthread_cond_timedwait(&end_changed, &end_lock, &limit) == 0)
		;
	over = ended;
	pthread_mutex_unlock(&end_lock);
	if (!over) {
		pthread_detach(library.thread);
		return -1;
	}
	pthread_join(library.thread, NULL);
	return 0;
}
