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

/* What becomes of samples of a point. */
enum active {
	ACTIVE_NO,      /* they cannot be taken: not started, or ended */
	ACTIVE_YES,
	ACTIVE_UNWANTED /* the configuration has no stream of it */
};

/* A measurement point. What the threads that inject need comes first. */
struct OmlMP {
	uint32_t number;
	_Atomic int active; /* enum active */
	int count;
	OmlValueT *types;
	int has_long;
	_Atomic uint64_t injected, dropped;

	char *name; /* with the application's name before it: that of its streams */
	struct field *fields;
	struct stream *streams;
};

/* What one collector gets of one point. */
struct stream {
	struct stream *next; /* of the point */
	struct OmlMP *point;
	struct sink *sink;
	char *name;
	int index; /* in the collector's numbering */
	int64_t seq;
	uint64_t skipped; /* drops of the point that are left out of seq already */
	uint64_t lost;    /* tuples for which the collector's queue had no room */
	uint64_t told;    /* drops that the collector knows of */
	int64_t thinned;  /* samples since one was sent, where the collector wants fewer */
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

enum stage { STAGE_NONE, STAGE_READY, STAGE_RUNNING, STAGE_CLOSING, STAGE_OVER };
enum closing { CLOSING_NO, CLOSING_BEGUN, CLOSING_LAST /* nothing comes any more */ };

struct library {
	struct options options;
	struct ring ring;
	pthread_mutex_t lock;
	_Atomic int waiting; /* threads that want the lock */
	pthread_t thread;
	_Atomic int stage;
	_Atomic int closing;
	_Atomic int stuck; /* the sending thread did not end in time: nothing it has may be freed */
	int64_t start; /* s since 1970: times of tuples count from it */
	int64_t deadline; /* monotonic ns until which closing may last */
	struct OmlMP *points[POINTS];
	_Atomic int point_count;
	struct sink *sinks;
};

extern struct library library;

/* Clocks, ns. */
int64_t now_real(void);
int64_t now_steady(void);

/* Takes the lock before the sending thread takes it again. */
void library_lock(void);
void library_unlock(void);

/* 1 for a letter or _, then letters, digits and _. */
int valid_name(const char *name);
/* Gives a point its streams, once the collectors are known. */
int point_connect(struct OmlMP *point);
/* Adds a stream with those fields (which it copies) to a point. */
struct stream *stream_add(struct OmlMP *point, struct sink *sink, const char *name, const struct field *fields, int count,
			  struct window *window);
void point_free(struct OmlMP *point);
/* Frees the streams of a point. */
void streams_free(struct OmlMP *point);
/* Sends a tuple of a stream; time as in records. */
void stream_send(struct stream *stream, int64_t time, const struct value *values);
/* Sends a note about a subject to a collector. */
void sink_note(struct sink *sink, const char *subject, const char *key, const char *value);

/* The sending thread: begin and bounded end, 0 or -1. */
int sender_begin(void);
int sender_end(void);

#endif
