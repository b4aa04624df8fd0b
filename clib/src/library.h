/* The state of the library: options, points, streams and collectors. It is global.
 *
 * Injecting threads only read points and write to the ring. Everything else is guarded
 * by the lock, held by the sending thread for one step, or by a thread that declares a
 * point or sends metadata. */
#ifndef PILLION_LIBRARY_H
#define PILLION_LIBRARY_H

#include <pthread.h>
#include <stdatomic.h>

#include "encode.h"
#include "queue.h"
#include "ring.h"
#include "value.h"

#define POINTS 255
#define FIELDS 255 /* limit of a packet */

struct window; /* filters and their state: window.h */
struct sink;   /* a collector: sink.h */

/* Whether samples of a point are accepted. */
enum active {
	ACTIVE_NO,      /* not started, or closed */
	ACTIVE_YES,
	ACTIVE_UNWANTED /* no stream in the configuration: discarded */
};

/* A measurement point. Fields used by injecting threads come first. */
struct OmlMP {
	uint32_t number;
	_Atomic int active; /* enum active */
	int count;
	OmlValueT *types;
	int has_long;
	_Atomic uint64_t injected, dropped;

	char *name; /* with the application's name as prefix: the name of its streams */
	struct field *fields;
	struct stream *streams;
};

/* The samples of a point for one collector. */
struct stream {
	struct stream *next; /* of the point */
	struct OmlMP *point;
	struct sink *sink;
	char *name;
	int index; /* in the collector's numbering */
	int64_t seq;
	uint64_t skipped;  /* drops of the point already counted in seq */
	uint64_t lost;     /* tuples dropped because the collector's queue was full */
	uint64_t reported; /* drops reported to the collector */
	int64_t thinned;   /* samples since the last one sent, if the collector requested fewer */
	struct field *fields;
	int count;
	struct window *window; /* NULL: samples are sent unchanged */
	/* Streams whose samples are the tuples of this one, which is not sent itself if one
	 * replaces it: then its index is 0. */
	struct stream *children;
	struct stream *parent;
	int replaced;
	/* The child with the aggregates that the collector requested, which replace this
	 * stream while it is not idle. */
	struct stream *aggregate;
	int idle;
};

/* Options of the user. */
struct options {
	char *application, *id, *domain, *collect, *config;
	int samples;     /* of a window; 0: unset */
	double interval; /* of a window, s; 0: none */
	int content;     /* enum content, or -1: default of the collector */
	size_t ring, kept; /* bytes */
	double patience; /* timeout of omlc_close, s */
	int noop;
};

enum stage { STAGE_NONE, STAGE_READY, STAGE_RUNNING, STAGE_CLOSING, STAGE_OVER };
enum closing { CLOSING_NO, CLOSING_BEGUN, CLOSING_LAST /* no more samples */ };

struct library {
	struct options options;
	struct ring ring;
	pthread_mutex_t lock;
	_Atomic int waiting; /* threads waiting for the lock */
	pthread_t thread;
	_Atomic int stage;
	_Atomic int closing;
	_Atomic int stuck; /* the sending thread did not stop in time: its memory must not be freed */
	int64_t start; /* s since 1970: times of tuples are relative to it */
	int64_t deadline; /* monotonic ns: the deadline of closing */
	struct OmlMP *points[POINTS];
	_Atomic int point_count;
	struct sink *sinks;
};

extern struct library library;

/* Clocks, ns. */
int64_t now_real(void);
int64_t now_steady(void);

/* Takes the lock, with priority over the sending thread. */
void library_lock(void);
void library_unlock(void);

/* 1 for a letter or _, then letters, digits and _. */
int valid_name(const char *name);
/* Adds the streams of a point, once the collectors are known. */
int point_connect(struct OmlMP *point);
/* Adds a stream with the given fields, which it copies, of a point or of another stream. */
struct stream *stream_add(struct OmlMP *point, struct stream *parent, struct sink *sink, const char *name,
			  const struct field *fields, int count, struct window *window, int replaced);
void point_free(struct OmlMP *point);
/* Frees a list of streams, with the streams of their tuples. */
void streams_free(struct stream *first);
/* Of how many samples of a stream one is sent. */
int64_t stream_thin(const struct stream *stream);
/* Sends a tuple of a stream; time as in records. */
void stream_send(struct stream *stream, int64_t time, const struct value *values);
/* Sends metadata about a subject to a collector. */
void sink_note(struct sink *sink, const char *subject, const char *key, const char *value);

/* Starts the sending thread, and stops it with a timeout; 0 or -1. */
int sender_begin(void);
int sender_end(void);

#endif
