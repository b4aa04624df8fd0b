/* Collectors by TCP. OMSP has no acknowledgements; a Pillion server sends them, and
 * tuples are kept until acknowledged and stored exactly once. Nothing here blocks. */
#include <errno.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sink.h"

#define CONNECT_MOST 3000000000 /* ns: timeout of connecting to an address */
#define FIND_MOST 10000000000 /* ns: timeout of a name lookup */
#define GREETING_MOST 2000000000 /* ns: timeout of the greeting */
#define HOLD_MOST 300000000 /* ns that tuples wait for the first greeting */
#define ENDING_MOST 1000000000 /* ns: timeout of closing without acknowledgements */
#define CLOSING_PAUSE 200000000 /* ns between retries when the program ends */
#define ANSWER_MOST 65536 /* maximum length of a line, bytes */

/* Results of receiving: all available data, the end of the connection, an error. */
enum received { RECEIVED_ALL, RECEIVED_END, RECEIVED_FAULT };

static void find(struct sink *s, int64_t now)
{
	s->address = address_find(s->host, s->port);
	s->since = now;
	s->state = SINK_FINDING;
	if (!s->address)
		sink_fail(s, now, "out of memory");
}

/* Starts connecting to the next address; if none is left the collector is down. */
static void connect_next(struct sink *s, int64_t now, const char *why)
{
	while (s->next_address) {
		const struct addrinfo *a = s->next_address;

		s->next_address = a->ai_next;
		if (s->fd >= 0)
			close(s->fd);
		s->fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
		s->since = now;
		s->state = SINK_CONNECTING;
		if (s->fd >= 0 && (connect(s->fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS))
			return;
		why = strerror(errno);
	}
	sink_fail(s, now, why);
}

static void found(struct sink *s, int64_t now)
{
	const char *why = "";
	int ready = address_ready(s->address, &s->next_address, &why);

	if (ready > 0)
		connect_next(s, now, "no address");
	else if (ready < 0 || now - s->since > FIND_MOST)
		sink_fail(s, now, ready < 0 ? why : "name lookup timed out");
}

static void connected(struct sink *s, int64_t now)
{
	if (s->failures > 0)
		loginfo("oml: connected to collector %s\n", s->uri);
	setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	s->failures = 0;
	s->since = now;
	s->thin = 1;
	s->rate = s->aggregate = 0;
	s->state = s->answers == ANSWERS_GIVEN ? SINK_GREET : SINK_UP;
	if (s->answers == ANSWERS_NONE)
		queue_resume(&s->queue, s->content == CONTENT_TEXT);
	else
		queue_rewind(&s->queue);
	sink_header(s);
}

static void connecting(struct sink *s, int64_t now)
{
	struct pollfd wait = {.fd = s->fd, .events = POLLOUT};
	socklen_t size = sizeof(int);
	int fault = 0, ready = poll(&wait, 1, 0);

	if (ready > 0 && (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &fault, &size) < 0 || fault))
		connect_next(s, now, strerror(fault ? fault : errno));
	else if (ready > 0)
		connected(s, now);
	else if (now - s->since > CONNECT_MOST)
		connect_next(s, now, strerror(ETIMEDOUT));
}

/* Handles one line of the collector. */
static void take_line(struct sink *s, const char *line)
{
	int stream, n;
	long long seq;

	if (strcmp(line, "pillion 1") == 0) {
		s->answers = ANSWERS_GIVEN;
		s->plain = 0;
	} else if (strcmp(line, "go") == 0) {
		s->pause = PAUSE_FIRST;
		if (s->state == SINK_GREET)
			s->state = SINK_UP;
	} else if (sscanf(line, "stored %9d %18lld", &stream, &seq) == 2) {
		if (stream >= 0 && stream < STREAMS && seq > s->stored[stream])
			s->stored[stream] = seq;
	} else if (strncmp(line, "refused ", 8) == 0) {
		logwarn("oml: refused by collector %s: %s\n", s->uri, line + 8);
	} else if (sscanf(line, "thin %9d", &n) == 1 && n >= 1) {
		s->thin = n;
	} else if (sscanf(line, "slow %18lld", &seq) == 1 && seq >= 0) {
		s->rate = seq;
		s->allowed = 0;
		s->allowed_at = now_steady();
	} else if (sscanf(line, "aggregate %9d", &n) == 1 && n >= 0) {
		s->aggregate = n;
	} else {
		logdebug("oml: from collector %s: %s\n", s->uri, line);
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

static enum received receive(struct sink *s)
{
	for (;;) {
		unsigned char *to = buffer_room(&s->answer, 4096);
		ssize_t n = to ? recv(s->fd, to, 4096, MSG_DONTWAIT) : -1;

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return RECEIVED_ALL;
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			return RECEIVED_END;
		if (n < 0 || s->answer.used > ANSWER_MOST)
			return RECEIVED_FAULT;
		s->answer.used += (size_t)n;
		take_answers(s);
	}
}

/* Sends; the number of bytes sent, 0 if it would block, -1 if the connection is closed. */
static ssize_t send_some(struct sink *s, const unsigned char *bytes, size_t length)
{
	ssize_t n;

	do
		n = send(s->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	return n;
}

/* 1 while it is unknown whether the server supports IEEE doubles: its greeting may
 * still arrive. */
static int is_held(struct sink *s, int64_t now)
{
	if (s->plain || s->content != CONTENT_BINARY || s->answers == ANSWERS_GIVEN)
		return 0;
	if (now - s->since < HOLD_MOST)
		return 1;
	queue_plain(&s->queue);
	s->plain = 1;
	return 0;
}

/* How many of that many bytes may be sent at the rate that the collector requests. A
 * program that ends is not delayed. */
static size_t within_rate(struct sink *s, int64_t now, size_t length)
{
	double most = (double)s->rate / 10 + 1; /* of 100 ms */

	if (s->rate == 0 || atomic_load(&library.closing))
		return length;
	s->allowed += (double)(now - s->allowed_at) / 1e9 * (double)s->rate;
	s->allowed_at = now;
	if (s->allowed > most)
		s->allowed = most;
	return s->allowed < 1 ? 0 : (double)length < s->allowed ? length : (size_t)s->allowed;
}

/* Sends without blocking; 1 on progress, -1 if the connection is closed. */
static int push(struct sink *s, int64_t now)
{
	const unsigned char *bytes;
	size_t length;
	ssize_t n;
	int progress = 0;

	while (s->header_done < s->header.used) {
		n = send_some(s, s->header.bytes + s->header_done, s->header.used - s->header_done);
		if (n <= 0)
			return (int)n;
		s->header_done += (size_t)n;
		progress = 1;
	}
	if (s->state == SINK_GREET || is_held(s, now))
		return progress;
	while ((length = queue_next(&s->queue, &bytes)) > 0) {
		length = within_rate(s, now, length);
		if (length == 0)
			return progress;
		n = send_some(s, bytes, length);
		if (n <= 0)
			return n < 0 ? -1 : progress;
		queue_sent(&s->queue, (size_t)n);
		s->allowed -= (double)n;
		progress = 1;
	}
	return progress;
}

/* Closes the sending side when all is sent and, with acknowledgements, stored. */
static void wind_up(struct sink *s, int64_t now)
{
	const unsigned char *bytes;

	if (s->state == SINK_UP && s->header_done == s->header.used && queue_next(&s->queue, &bytes) == 0 &&
	    (s->answers != ANSWERS_GIVEN || !s->queue.oldest)) {
		shutdown(s->fd, SHUT_WR);
		s->state = SINK_ENDING;
		s->since = now;
	} else if (s->state == SINK_ENDING && s->answers == ANSWERS_GIVEN && !s->queue.oldest) {
		s->state = SINK_ENDED;
	} else if (s->state == SINK_ENDING && s->answers != ANSWERS_GIVEN && now - s->since > ENDING_MOST) {
		int left = 0;

		/* Without acknowledgements, data received by its host counts as delivered. */
		if (ioctl(s->fd, SIOCOUTQ, &left) < 0 || left > 0)
			return;
		queue_release(&s->queue, NULL);
		s->state = SINK_ENDED;
	}
}

/* The connection is closed: after everything was sent, or too early. */
static void ended(struct sink *s, int64_t now, enum received received)
{
	if (s->state == SINK_ENDING && received == RECEIVED_END) {
		if (s->answers != ANSWERS_GIVEN)
			queue_release(&s->queue, NULL);
		if (!s->queue.oldest) {
			s->state = SINK_ENDED;
			return;
		}
	}
	sink_fail(s, now, "connection closed");
}

/* Sends and receives; 1 on progress. */
static int exchange(struct sink *s, int64_t now)
{
	int progress = s->state == SINK_ENDING ? 0 : push(s, now);
	enum received received = receive(s);

	if (s->answers == ANSWERS_UNKNOWN && now - s->since > GREETING_MOST)
		s->answers = ANSWERS_NONE;
	if (s->answers == ANSWERS_GIVEN || (s->answers == ANSWERS_NONE && progress >= 0))
		queue_release(&s->queue, s->answers == ANSWERS_GIVEN ? s->stored : NULL);
	if (progress < 0 || received != RECEIVED_ALL) {
		ended(s, now, progress < 0 ? RECEIVED_FAULT : received);
		return 0;
	}
	if (s->state == SINK_GREET && now - s->since > GREETING_MOST) {
		sink_fail(s, now, "no acknowledgement");
		return 0;
	}
	if (atomic_load(&library.closing) == CLOSING_LAST)
		wind_up(s, now);
	return progress;
}

/* 1 when it is time to retry. */
static int is_time(const struct sink *s, int64_t now)
{
	return now >= s->retry || (atomic_load(&library.closing) && now >= s->since + CLOSING_PAUSE);
}

int tcp_step(struct sink *s, int64_t now)
{
	if (s->state == SINK_ENDED)
		return 0;
	if (s->state == SINK_DOWN && atomic_load(&library.closing) == CLOSING_LAST && !s->queue.oldest) {
		s->state = SINK_ENDED;
		return 0;
	}
	if (s->state == SINK_DOWN && is_time(s, now))
		find(s, now);
	if (s->state == SINK_FINDING)
		found(s, now);
	if (s->state == SINK_CONNECTING)
		connecting(s, now);
	return s->state < SINK_GREET ? 0 : exchange(s, now);
}
