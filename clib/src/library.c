#include "library.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "config.h"
#include "option.h"
#include "sink.h"
#include "window.h"

struct library library = {.lock = PTHREAD_MUTEX_INITIALIZER};

int64_t now_real(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t now_steady(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Random bytes; from the clock if the kernel has none. */
static void random_bytes(void *to, size_t length)
{
	if (getrandom(to, length, 0) == (ssize_t)length)
		return;
	for (size_t i = 0; i < length; i++)
		((unsigned char *)to)[i] = (unsigned char)(now_steady() >> (i % 4 * 3));
}

oml_guid_t omlc_guid_generate(void)
{
	oml_guid_t id = OMLC_GUID_NULL;

	while (id == OMLC_GUID_NULL)
		random_bytes(&id, sizeof id);
	return id;
}

void library_lock(void)
{
	atomic_fetch_add(&library.waiting, 1);
	pthread_mutex_lock(&library.lock);
	atomic_fetch_sub(&library.waiting, 1);
}

void library_unlock(void)
{
	pthread_mutex_unlock(&library.lock);
}

int omlc_init(const char *application, int *argc, const char **argv, o_log_fn log)
{
	int off;

	if (library.options.application) {
		logerror("oml: omlc_init already called\n");
		return -1;
	}
	off = options_read(&library.options, application, argc, argv, log);
	if (off)
		return off;
	library.start = now_real() / 1000000000;
	if (ring_open(&library.ring, library.options.ring) < 0) {
		logerror("oml: out of memory for a ring of %zu bytes\n", library.options.ring);
		return -1;
	}
	atomic_store(&library.stage, STAGE_READY);
	return 0;
}

/* Opens the one collector of the command line or the environment. */
static int collect_all(void)
{
	library.sinks = sink_open(library.options.collect, library.options.content);
	return library.sinks ? 0 : -1;
}

/* Frees collectors and streams. Points are kept: a thread may still inject. */
static void free_sinks(void)
{
	int count = atomic_load(&library.point_count);

	for (int i = 0; i < count; i++) {
		atomic_store(&library.points[i]->active, ACTIVE_NO);
		streams_free(library.points[i]->streams);
		library.points[i]->streams = NULL;
	}
	for (struct sink *s = library.sinks, *next; s; s = next) {
		next = s->next;
		sink_close(s);
	}
	library.sinks = NULL;
}

/* A forked process has no sending thread: it measures nothing, and closes the
 * connections of its parent. */
static void before_fork(void)
{
	pthread_mutex_lock(&library.lock);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&library.lock);
}

static void after_fork_in_child(void)
{
	pthread_mutex_init(&library.lock, NULL);
	atomic_store(&library.waiting, 0);
	if (atomic_load(&library.stage) != STAGE_RUNNING && atomic_load(&library.stage) != STAGE_CLOSING)
		return;
	free_sinks();
	atomic_store(&library.stage, STAGE_OVER);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* Opens collectors and adds the streams of existing points; 0 or -1. */
static int connect_all(void)
{
	int failed = library.options.config ? config_read(library.options.config) : collect_all();
	int count = atomic_load(&library.point_count);

	for (int i = 0; !failed && i < count; i++)
		failed = point_connect(library.points[i]);
	if (!failed && library.options.config)
		config_check();
	return failed;
}

int omlc_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int stage = STAGE_READY, failed;

	if (library.options.noop)
		return 0;
	if (!atomic_compare_exchange_strong(&library.stage, &stage, STAGE_RUNNING)) {
		logerror("oml: omlc_start: %s\n", stage == STAGE_NONE ? "omlc_init not called, or failed" : "already called");
		return -1;
	}
	pthread_once(&once, watch_forks);
	library_lock();
	failed = connect_all();
	if (!failed && sender_begin() < 0) {
		logerror("oml: cannot create the sending thread\n");
		failed = -1;
	}
	if (failed) {
		free_sinks();
		atomic_store(&library.stage, STAGE_OVER);
	}
	library_unlock();
	return failed ? -1 : 0;
}

int point_connect(struct OmlMP *p)
{
	int failed = 0;

	if (library.options.config) {
		failed = config_connect(p);
	} else {
		struct window *window = NULL;
		struct field *fields = p->fields;
		int count = p->count;

		if (library.options.samples > 1 || library.options.interval > 0)
			failed = window_default(p, &window, &fields, &count);
		if (!failed)
			failed = stream_add(p, NULL, library.sinks, p->name, fields, count, window, 0) ? 0 : -1;
		if (fields != p->fields)
			fields_free(fields, count);
	}
	atomic_store_explicit(&p->active, failed ? ACTIVE_NO : p->streams ? ACTIVE_YES : ACTIVE_UNWANTED, memory_order_release);
	return failed;
}

/* Logs undelivered samples; 0, or -1 if there are any. */
static int settle(void)
{
	int failed = 0;

	for (struct sink *s = library.sinks; s; s = s->next) {
		if (s->queue.oldest || s->lost || !sink_done(s)) {
			logerror("oml: collector %s: not all samples delivered: %zu bytes queued, %lld samples dropped\n", s->uri,
				 s->queue.bytes, (long long)s->lost);
			failed = -1;
		}
	}
	if (!ring_is_empty(&library.ring)) {
		logerror("oml: unsent samples discarded\n");
		failed = -1;
	}
	return failed;
}

int omlc_close(void)
{
	int stage = STAGE_RUNNING, failed, count;

	if (library.options.noop)
		return 0;
	if (!atomic_compare_exchange_strong(&library.stage, &stage, STAGE_CLOSING))
		return -1;
	count = atomic_load(&library.point_count);
	for (int i = 0; i < count; i++)
		atomic_store(&library.points[i]->active, ACTIVE_NO);
	if (sender_end() < 0) {
		logerror("oml: the sending thread did not stop in time; its samples are lost\n");
		atomic_store(&library.stuck, 1);
		atomic_store(&library.stage, STAGE_OVER);
		return -1;
	}
	failed = settle();
	library_lock();
	free_sinks();
	library_unlock();
	atomic_store(&library.stage, STAGE_OVER);
	return failed;
}

/* At exit no thread injects any more. */
__attribute__((destructor)) static void library_end(void)
{
	int count = atomic_load(&library.point_count);

	if (atomic_load(&library.stage) == STAGE_RUNNING || atomic_load(&library.stuck))
		return; /* omlc_close was not called: the thread ends with the process */
	for (int i = 0; i < count; i++)
		point_free(library.points[i]);
	atomic_store(&library.point_count, 0);
	ring_close(&library.ring);
	config_free();
	options_free(&library.options);
	log_close();
}
