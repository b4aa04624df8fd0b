/* What the library knows: options, points, streams and collectors. There is one.
 *
 * Threads that inject read points and write the ring, and nothing else. All the
 * rest belongs to whoever holds the lock: the sending thread for the length of one
 * turn, or a thread that declares a point or sends a note. */
#ifndef PILLION_LIBRARY_H
#define PILLION_LIBRARY_H

#include <pthread.h>
#include <stdatomic.h>

#include "encode.h"
#include "queue.h"
#include "ring.h"
#include "value.h"

#define POINTS 255
#define FIELDS 255 /* what a packet has room for */

struct window; /* filters and what they have of the present window: window.h */
struct sink;   /* a collector: sink.h */

/* A measurement point. What the threads that inject need comes first. */
struct OmlMP {
	uint32_t number;
	_Atomic int active; /* somebody wants its samples */
	int count;
	OmlValueT *types;
	int has_long;
	_Atomic uint64_t injected, dropped;

	char *name; /* with the application's name before it: that of its streams */
	struct field *fields;
	struct stream *streams;
	uint64_t reported; /* drops that were told */
};

/* What one collector gets of one point. */
struct stream {
	struct stream *next; /* of the point */
	struct OmlMP *point;
	struct sink *sink;
	char *name;
	int index; /* in the collector's numbering */
	int64_t seq, meta_seq;
	struct field *fields;
	int count;
	struct window *window; /* NULL: samples pass */
};

/* What the user asked for. */
struct options {
	char *application, *id, *domain, *collect, *config;
	int samples;     /* of a window; 0: not said */
	double interval; /* of a window, s; 0: none */
	int content;     /* enum content, or -1: as suits the collector */
	size_t ring, kept; /* bytes */
	double patience; /* s that omlc_close may take */
	int noop;
};

struct library {
	struct options options;
	struct ring ring;
	pthread_mutex_t lock;
	pthread_t thread;
	int started;
	_Atomic int closing;
	int64_t start; /* s since 1970: times of tuples count from it */
	int64_t deadline; /* monotonic ns until which closing may last */
	struct OmlMP *points[POINTS];
	_Atomic int point_count;
	struct sink *sinks;
	char session[33];
};

extern struct library library;

/* Clocks, ns. */
int64_t now_real(void);
int64_t now_steady(void);

/* Gives a point its streams, once the collectors are known. */
int point_connect(struct OmlMP *point);
/* Adds a stream with those fields (which it copies) to a point. */
struct stream *stream_add(struct OmlMP *point, struct sink *sink, const char *name, const struct field *fields, int count,
			  struct window *window);
/* Sends a tuple of a stream; time as in records. */
void stream_send(struct stream *stream, int64_t time, const struct value *values);
/* Sends a note about a subject to a collector. */
void sink_note(struct sink *sink, const char *subject, const char *key, const char *value);

/* The sending thread. */
void *sender_run(void *unused);
/* Calls of the library's own log; as printf. */
#define LOG_ONCE_MAX 10

#endif
