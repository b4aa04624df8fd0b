/* A collector: a server by TCP, or a file. */
#ifndef PILLION_SINK_H
#define PILLION_SINK_H

#include "address.h"
#include "library.h"

#define PAUSE_FIRST 100000000 /* ns until the second attempt */

enum state {
	SINK_DOWN,  /* not connected; retries at `retry` */
	SINK_FINDING, /* name lookup */
	SINK_CONNECTING,
	SINK_GREET, /* connected; waits for the collector's acknowledgements of this session */
	SINK_UP,
	SINK_ENDING, /* all sent; waits until the collector has received it */
	SINK_ENDED
};

/* Whether a collector sends acknowledgements. */
enum answers { ANSWERS_UNKNOWN, ANSWERS_GIVEN, ANSWERS_NONE };

struct sink {
	struct sink *next;
	char *uri, *host, *port, *path;
	char session[33]; /* identifies this run of the program for this collector */
	int flush; /* write each line at once */
	enum content content;
	/* Standard binary tuples; else with IEEE doubles, until a server turns out not to
	 * support them. */
	int plain;
	enum state state;
	enum answers answers;
	int fd;
	int slow; /* not a regular file: writes can block */
	struct address *address;
	const struct addrinfo *next_address; /* to try next */
	int64_t retry, pause, since; /* monotonic ns */
	int failures;
	int header_sent; /* streams in the header */
	struct stream *streams[STREAMS];
	int stream_count; /* including the stream of metadata, 0 */
	struct queue queue;
	int64_t stored[STREAMS];
	struct buffer header, answer;
	size_t header_done;
	int64_t notes; /* seq of the last metadata tuple */
	int64_t lost;  /* dropped tuples */
	int thin, thin_reported; /* the collector requests every n-th sample, initially 1 */
	int64_t rate;            /* the rate that it requests, bytes/s; 0: any */
	int64_t rate_reported;
	double allowed;          /* bytes that may be sent now */
	int64_t allowed_at;      /* monotonic ns */
	int aggregate, aggregate_reported; /* the window of aggregates that it requests, ms; 0: samples */
};

/* Sends aggregates instead of samples, or samples again, as the collector requests. */
void sink_aggregate(struct sink *sink);
/* Queues a tuple; 0, or -1 if the queue is full: it is counted, and leaves a gap in the
 * sequence numbers. */
int sink_take(struct sink *sink, int index, int64_t seq, int64_t time, const struct value *values, int count);
/* Creates a collector from a URI; NULL with a message in the log. */
struct sink *sink_open(const char *uri, int content);
/* Sends and receives without blocking; returns 1 if it made progress. */
int sink_step(struct sink *sink, int64_t now);
/* 1 if it has ended. */
int sink_done(const struct sink *sink);
void sink_close(struct sink *sink);
/* 1 while the queue is not full. */
int sink_has_room(const struct sink *sink);
/* Writes the header with all streams. */
int sink_header(struct sink *sink);
void sink_fail(struct sink *sink, int64_t now, const char *why);

/* Of a file, and of a server. */
int file_step(struct sink *sink, int64_t now);
int tcp_step(struct sink *sink, int64_t now);

#endif
