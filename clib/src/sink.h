/* A collector: a server by TCP, or a file. */
#ifndef PILLION_SINK_H
#define PILLION_SINK_H

#include "library.h"

enum state {
	SINK_DOWN,  /* not connected; tries again at `again` */
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
	int flush; /* write each line at once */
	enum content content;
	enum state state;
	enum answers answers;
	int fd;
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
	int thin; /* the collector asks for every n-th sample */
};

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
