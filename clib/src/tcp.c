/* Collectors that are servers. OMSP has no answers; where ours gives them, tuples
 * are kept until they are stored, and come once. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sink.h"

#define CONNECT_MOST 3000000000 /* ns until a connection counts as failed */
#define GREETING_MOST 2000000000 /* ns within which a collector that answers has begun to */
#define ENDING_MOST 1000000000 /* ns that one that does not may take to close */
#define ANSWER_MOST 65536 /* bytes of answers without an end of line */

/* Connects to one address within a time; a socket, or -1 with errno. */
static int connect_to(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	int64_t until = now_steady() + CONNECT_MOST;
	int fault = 0;
	socklen_t size = sizeof fault;

	if (fd < 0)
		return -1;
	if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
		return fd;
	if (errno == EINPROGRESS) {
		int64_t limit = atomic_load(&library.closing) && library.deadline < until ? library.deadline : until;
		int left = (int)((limit - now_steady()) / 1000000);

		if (poll(&wait, 1, left > 0 ? left : 0) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &size) == 0 && fault == 0)
			return fd;
		errno = fault ? fault : ETIMEDOUT;
	}
	fault = errno;
	close(fd);
	errno = fault;
	return -1;
}

static void tcp_connect(struct sink *s, int64_t now)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	int failed = getaddrinfo(s->host, s->port, &hints, &found);

	for (struct addrinfo *a = found; a && s->fd < 0; a = a->ai_next)
		s->fd = connect_to(a);
	if (found)
		freeaddrinfo(found);
	if (s->fd < 0) {
		sink_fail(s, now, failed ? gai_strerror(failed) : strerror(errno));
		return;
	}
	if (s->failures > 0)
		loginfo("oml: collector %s is there\n", s->uri);
	setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	s->failures = 0;
	s->since = now_steady();
	s->state = s->answers == ANSWERS_GIVEN ? SINK_GREET : SINK_UP;
	if (s->answers == ANSWERS_NONE)
		queue_resume(&s->queue, s->content == CONTENT_TEXT);
	else
		queue_rewind(&s->queue);
	sink_header(s);
}

/* Takes one line of the collector. */
static void take_line(struct sink *s, const char *line)
{
	int stream, n;
	long long seq;

	if (strcmp(line, "pillion 1") == 0) {
		s->answers = ANSWERS_GIVEN;
	} else if (strcmp(line, "go") == 0) {
		s->pause = 100000000;
		if (s->state == SINK_GREET)
			s->state = SINK_UP;
	} else if (sscanf(line, "stored %d %lld", &stream, &seq) == 2) {
		if (stream >= 0 && stream < STREAMS && seq > s->stored[stream])
			s->stored[stream] = seq;
	} else if (sscanf(line, "thin %d", &n) == 1 && n >= 1) {
		s->thin = n;
	} else {
		logdebug("oml: collector %s says: %s\n", s->uri, line);
	}
}

static void take_answers(struct sink *s)
{
	unsigned char *from = s->answer.bytes, *end;
	size_t left = s->answer.used;

	while (left > 0 && (end = memchr(from, '\n', left))) {
		*end = '\0';
		take_line(s, (const char *)from);
		left -= (size_t)(end + 1 - from);
		from = end + 1;
	}
	memmove(s->answer.bytes, from, left);
	s->answer.used = left;
}

/* Reads answers; 0, or -1 when the connection has ended. */
static int tcp_listen(struct sink *s)
{
	for (;;) {
		unsigned char *to = buffer_room(&s->answer, 4096);
		ssize_t n = to ? recv(s->fd, to, 4096, MSG_DONTWAIT) : -1;

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || s->answer.used > ANSWER_MOST)
			return -1;
		s->answer.used += (size_t)n;
		take_answers(s);
	}
}

/* Sends; bytes that went, 0 when there is no room now, -1 when the connection has ended. */
static ssize_t tcp_send(struct sink *s, const unsigned char *bytes, size_t length)
{
	ssize_t n;

	do
		n = send(s->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	return n;
}

/* Sends what can be sent; 1 when something was, -1 when the connection has ended. */
static int tcp_push(struct sink *s)
{
	const unsigned char *bytes;
	size_t length;
	ssize_t n;
	int moved = 0;

	while (s->header_done < s->header.used) {
		n = tcp_send(s, s->header.bytes + s->header_done, s->header.used - s->header_done);
		if (n <= 0)
			return (int)n;
		s->header_done += (size_t)n;
		moved = 1;
	}
	if (s->state == SINK_GREET)
		return moved;
	while ((length = queue_next(&s->queue, &bytes)) > 0) {
		n = tcp_send(s, bytes, length);
		if (n <= 0)
			return n < 0 ? -1 : moved;
		queue_sent(&s->queue, (size_t)n);
		moved = 1;
	}
	return moved;
}

/* Ends when all was sent and, of a collector that answers, stored. */
static void tcp_end(struct sink *s, int64_t now)
{
	const unsigned char *bytes;

	if (s->state == SINK_UP && s->header_done == s->header.used && queue_next(&s->queue, &bytes) == 0 &&
	    (s->answers != ANSWERS_GIVEN || !s->queue.oldest)) {
		shutdown(s->fd, SHUT_WR);
		s->state = SINK_ENDING;
		s->since = now;
	} else if (s->state == SINK_ENDING && now - s->since > ENDING_MOST) {
		s->state = SINK_ENDED;
	}
}

int tcp_turn(struct sink *s, int64_t now)
{
	int moved = 0;

	if (s->state == SINK_ENDED || (s->state == SINK_DOWN && now < s->again))
		return 0;
	if (s->state == SINK_DOWN) {
		tcp_connect(s, now);
		if (s->state == SINK_DOWN)
			return 0;
	}
	if (s->state != SINK_ENDING)
		moved = tcp_push(s);
	if (moved < 0 || tcp_listen(s) < 0) {
		if (s->state == SINK_ENDING)
			s->state = SINK_ENDED;
		else
			sink_fail(s, now, "the connection has ended");
		return 0;
	}
	if (s->answers == ANSWERS_UNKNOWN && now - s->since > GREETING_MOST)
		s->answers = ANSWERS_NONE;
	if (s->state == SINK_GREET && now - s->since > GREETING_MOST) {
		sink_fail(s, now, "it no longer answers");
		return 0;
	}
	if (s->answers != ANSWERS_UNKNOWN)
		queue_release(&s->queue, s->answers == ANSWERS_GIVEN ? s->stored : NULL);
	if (atomic_load(&library.closing) == 2)
		tcp_end(s, now);
	return moved;
}
