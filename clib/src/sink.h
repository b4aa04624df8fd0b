/* A collector: a server by TCP, or a file. */
#ifndef PILLION_SINK_H
#define PILLION_SINK_H

#include "address.h"
#include "library.h"

#define PAUSE_FIRST 100000000 /* ns until the second try */

enum state {
	SINK_DOWN,  /* not connected; tries again at `again` */
	SINK_FINDING, /* its name is looked up */
	SINK_CONNECTING,
	SINK_GREET, /* connected; waits for what the collector has of this session */
	SINK_UP,
	SINK_ENDING, /* all was sent; waits for the collector to take it */
	SINK_ENDED
};

/* What is known of a collector's answers. */
enum answers { ANSWERS_UNKNOWN, ANSWERS_GIVEN, ANSWERS_NONE };

struct sink {
	struct sink *next;
	char *uri, *host, *port, *path;
	char session[33]; /* names what this collector gets of this run of the program */
	int flush; /* write each line at once */
	enum content content;
	/* Binary tuples are those that everybody reads; else they have whole doubles. That
	 * is so until a server was asked and did not answer. */
	int plain;
	enum state state;
	enum answers answers;
	int fd;
	int slow; /* no regular file: a write can make us wait */
	struct address *address;
	const struct addrinfo *next_address; /* to try */
	int64_t again, pause, since; /* steady ns */
	int failures;
	int header_sent; /* streams that the header told */
	struct stream *streams[STREAMS];
	int stream_count; /* with the one of notes, which is 0 */
	struct queue queue;
	int64_t stored[STREAMS];
	struct buffer header, answer;
	size_t header_done;
	int64_t notes; /* seq of the last note */
	int64_t lost;  /* tuples that had no room */
	int thin, thin_told; /* the collector asks for every n-th sample, 1 at first */
};

/* Puts a tuple into the queue; 0, or -1 where it has no room: then it is counted,
 * and its number is missing. */
int sink_take(struct sink *sink, int index, int64_t seq, int64_t time, const struct value *values, int count);
/* Makes the collector that a URI names; NULL with a message in the log. */
struct sink *sink_open(const char *uri, int content);
/* Moves what can be moved without waiting; returns 1 when something was. */
int sink_turn(struct sink *sink, int64_t now);
/* 1 when nothing more will come of waiting. */
int sink_done(const struct sink *sink);
void sink_close(struct sink *sink);
/* 1 while there is room for tuples. */
int sink_has_room(const struct sink *sink);
/* Writes the header with all streams. */
int sink_header(struct sink *sink);
void sink_fail(struct sink *sink, int64_t now, const char *why);

/* Of a file, and of a server. */
int file_turn(struct sink *sink, int64_t now);
int tcp_turn(struct sink *sink, int64_t now);

#endif
