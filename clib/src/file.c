/* Collectors that are files. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sink.h"

#define LINGER 200000000 /* ns that tuples may wait to be written together, except with flush: */

static int file_open(struct sink *s, int64_t now)
{
	struct stat about;

	s->fd = strcmp(s->path, "-") == 0 ? STDOUT_FILENO : open(s->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
	if (s->fd < 0) {
		sink_fail(s, now, strerror(errno));
		return 0;
	}
	s->slow = fstat(s->fd, &about) < 0 || !S_ISREG(about.st_mode);
	s->state = SINK_UP;
	s->since = now;
	return sink_header(s) == 0;
}

/* Writes; the number of bytes written, 0 if it would block, or -1. A pipe or terminal
 * that is writable accepts PIPE_BUF bytes without blocking. */
static ssize_t file_write(struct sink *s, const unsigned char *bytes, size_t length)
{
	struct pollfd room = {.fd = s->fd, .events = POLLOUT};
	ssize_t n;

	if (s->slow && poll(&room, 1, 0) == 0)
		return 0;
	if (s->slow && length > PIPE_BUF)
		length = PIPE_BUF;
	do
		n = write(s->fd, bytes, length);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n < 0 && s->failures++ == 0)
		logerror("oml: write %s: %s; will retry\n", s->path, strerror(errno));
	if (n >= 0)
		s->failures = 0;
	return n;
}

int file_step(struct sink *s, int64_t now)
{
	const unsigned char *bytes;
	size_t length;
	int moved = 0;

	if (s->state == SINK_ENDED || (s->state == SINK_DOWN && (now < s->retry || !file_open(s, now))))
		return 0;
	while (s->header_done < s->header.used) {
		ssize_t n = file_write(s, s->header.bytes + s->header_done, s->header.used - s->header_done);

		if (n <= 0)
			return 0;
		s->header_done += (size_t)n;
	}
	if (!s->flush && !atomic_load(&library.closing) && s->queue.bytes < CHUNK && now - s->since < LINGER)
		return 0;
	while ((length = queue_next(&s->queue, &bytes)) > 0) {
		ssize_t n = file_write(s, bytes, length);

		if (n <= 0)
			break;
		queue_sent(&s->queue, (size_t)n);
		moved = 1;
	}
	if (length > 0 && !moved)
		return 0;
	s->since = now;
	queue_release(&s->queue, NULL);
	if (atomic_load(&library.closing) == CLOSING_LAST && !s->queue.oldest)
		s->state = SINK_ENDED;
	return moved;
}
