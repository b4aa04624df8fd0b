#include "library.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

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

/* Random bytes; of a kernel that gives none the clock's. */
static void draw(void *to, size_t length)
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
		draw(&id, sizeof id);
	return id;
}

int omlc_init(const char *application, int *argc, const char **argv, o_log_fn log)
{
	unsigned char random[16];
	int off;

	if (library.options.application) {
		logerror("oml: omlc_init was called before\n");
		return -1;
	}
	off = options_read(&library.options, application, argc, argv, log);
	if (off)
		return off;
	library.start = now_real() / 1000000000;
	draw(random, sizeof random);
	for (size_t i = 0; i < sizeof random; i++)
		snprintf(library.session + 2 * i, 3, "%02x", random[i]);
	if (ring_open(&library.ring, library.options.ring) < 0) {
		logerror("oml: no memory for a ring of %zu bytes\n", library.options.ring);
		return -1;
	}
	return 0;
}

/* One collector, of the command line or the environment, gets all points. */
static int collect_all(void)
{
	library.sinks = sink_open(library.options.collect, library.options.content);
	return library.sinks ? 0 : -1;
}

int omlc_start(void)
{
	int count;

	if (!library.options.application || library.started || library.options.noop)
		return library.options.noop ? 0 : -1;
	if (library.options.config ? config_read(library.options.config) : collect_all())
		return -1;
	pthread_mutex_lock(&library.lock);
	count = atomic_load(&library.point_count);
	for (int i = 0; i < count; i++)
		point_connect(library.points[i]);
	library.started = 1;
	pthread_mutex_unlock(&library.lock);
	if (pthread_create(&library.thread, NULL, sender_run, NULL) != 0) {
		logerror("oml: no thread that sends\n");
		library.started = 0;
		return -1;
	}
	return 0;
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
		if (!failed && !stream_add(p, library.sinks, p->name, fields, count, window))
			failed = -1;
		if (fields != p->fields)
			fields_free(fields, count);
	}
	if (!failed && p->streams)
		atomic_store_explicit(&p->active, 1, memory_order_release);
	return failed;
}

/* A value as text, for notes. */
static void note_text(struct buffer *to, OmlValueT type, const OmlValueU *value)
{
	struct value v;

	if (omlc_is_vector_type(type) || type == OML_BLOB_VALUE) /* notes are short */
		return;
	value_of(&v, type, value);
	if (type == OML_STRING_VALUE)
		buffer_add(to, v.bytes, v.length);
	else
		encode_scalar(to, &v);
}

int omlc_inject_metadata(OmlMP *mp, const char *key, const OmlValueU *value, OmlValueT type, const char *field)
{
	struct buffer subject = {0}, text = {0};
	int told = -1;

	if (!library.started || !key || !value || (field && !mp))
		return -1;
	buffer_print(&subject, ".%s%s%s", mp ? mp->name : "", field ? "." : "", field ? field : "");
	note_text(&text, type, value);
	if (subject.bytes && text.used > 0 && buffer_add(&text, "", 1) == 0) {
		pthread_mutex_lock(&library.lock);
		for (struct sink *s = library.sinks; s; s = s->next)
			sink_note(s, (const char *)subject.bytes, key, (const char *)text.bytes);
		pthread_mutex_unlock(&library.lock);
		told = 0;
	}
	buffer_free(&subject);
	buffer_free(&text);
	return told;
}

static void point_free(struct OmlMP *p)
{
	for (struct stream *s = p->streams, *next; s; s = next) {
		next = s->next;
		for (int i = 0; i < s->count; i++)
			free(s->fields[i].name);
		free(s->fields);
		free(s->name);
		if (s->window)
			window_free(s->window);
		free(s);
	}
	for (int i = 0; i < p->count; i++)
		free(p->fields[i].name);
	free(p->fields);
	free(p->types);
	free(p->name);
	free(p);
}

/* Frees everything, except points that a thread may still inject into: these stay,
 * switched off. */
static void forget(void)
{
	for (struct sink *s = library.sinks, *next; s; s = next) {
		next = s->next;
		sink_close(s);
	}
	library.sinks = NULL;
}

int omlc_close(void)
{
	int failed = 0, count = atomic_load(&library.point_count);

	if (!library.started)
		return library.options.noop ? 0 : -1;
	library.deadline = now_steady() + (int64_t)(library.options.patience * 1e9);
	for (int i = 0; i < count; i++)
		atomic_store(&library.points[i]->active, 0);
	atomic_store(&library.closing, 1);
	pthread_join(library.thread, NULL);
	for (struct sink *s = library.sinks; s; s = s->next) {
		if (s->queue.oldest || s->lost || !sink_done(s)) {
			logerror("oml: collector %s: not all samples were delivered: %zu bytes left, %lld samples had no room\n", s->uri,
				 s->queue.bytes, (long long)s->lost);
			failed = -1;
		}
	}
	if (ring_oldest(&library.ring))
		failed = -1;
	forget();
	library.started = 0;
	return failed;
}

/* At the end of the program nobody injects any more. */
__attribute__((destructor)) static void library_end(void)
{
	int count = atomic_load(&library.point_count);

	if (library.started)
		return; /* the program never called omlc_close: its thread goes with it */
	for (int i = 0; i < count; i++)
		point_free(library.points[i]);
	atomic_store(&library.point_count, 0);
	ring_close(&library.ring);
	config_free();
	options_free(&library.options);
}
