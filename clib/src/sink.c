#include "sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PAUSE_MOST 5000000000   /* ns between attempts */

static const struct field note_fields[] = {
	{(char *)"subject", OML_STRING_VALUE}, {(char *)"key", OML_STRING_VALUE}, {(char *)"value", OML_STRING_VALUE}};

/* The stream of notes is defined by the protocol. */
static struct stream notes = {.name = (char *)"_experiment_metadata", .fields = (struct field *)note_fields, .count = 3};

/* Splits [tcp:[//]]host[:port]; an IPv6 address stands in brackets. */
static int split_address(struct sink *s, const char *text)
{
	const char *end, *port = "3003";
	size_t length;

	if (strncmp(text, "tcp:", 4) == 0)
		text += 4;
	if (strncmp(text, "//", 2) == 0)
		text += 2;
	if (*text == '[') {
		end = strchr(++text, ']');
		if (!end || (end[1] != '\0' && end[1] != ':'))
			return -1;
		length = (size_t)(end - text);
		if (end[1] == ':')
			port = end + 2;
	} else {
		end = strchr(text, ':');
		length = end ? (size_t)(end - text) : strlen(text);
		if (end)
			port = end + 1;
	}
	if (length == 0 || *port == '\0' || strchr(port, ':'))
		return -1;
	s->host = strndup(text, length);
	s->port = strdup(port);
	return s->host && s->port ? 0 : -1;
}

struct sink *sink_open(const char *uri, int content)
{
	struct sink *s = calloc(1, sizeof *s);
	int is_file = strncmp(uri, "file:", 5) == 0, is_flush = strncmp(uri, "flush:", 6) == 0;

	if (!s)
		return NULL;
	s->fd = -1;
	s->thin = s->thin_reported = 1;
	s->uri = strdup(uri);
	s->queue.limit = library.options.kept;
	s->pause = PAUSE_FIRST;
	snprintf(s->session, sizeof s->session, "%016llx%016llx", (unsigned long long)omlc_guid_generate(), (unsigned long long)omlc_guid_generate());
	s->streams[s->stream_count++] = &notes;
	s->flush = is_flush;
	if (is_file || is_flush)
		s->path = strdup(uri + (is_flush ? 6 : 5));
	if (!s->uri || (s->path ? *s->path == '\0' : split_address(s, uri) < 0)) {
		logerror("oml: invalid collector '%s': use [tcp:]host[:port], file:path or flush:path\n", uri);
		sink_close(s);
		return NULL;
	}
	s->plain = is_file || is_flush;
	s->content = content >= 0 ? (enum content)content : s->path ? CONTENT_TEXT : CONTENT_BINARY;
	return s;
}

int sink_header(struct sink *s)
{
	struct buffer *h = &s->header;
	int vectors = 0;

	for (int i = 1; i < s->stream_count; i++)
		for (int n = 0; n < s->streams[i]->count; n++)
			vectors |= omlc_is_vector_type(s->streams[i]->fields[n].type);
	h->used = s->header_done = 0;
	buffer_print(h, "protocol: %d\ndomain: %s\nstart-time: %lld\nsender-id: %s\napp-name: %s\n", vectors ? 5 : 4,
		     library.options.domain, (long long)library.start, library.options.id, library.options.application);
	if (!s->path)
		buffer_print(h, "pillion-session: %s\npillion-feedback: thin slow aggregate\n", s->session);
	for (int i = 0; i < s->stream_count; i++) {
		buffer_print(h, "schema: %d %s", i, s->streams[i]->name);
		for (int n = 0; n < s->streams[i]->count; n++)
			buffer_print(h, " %s:%s", s->streams[i]->fields[n].name, type_name(s->streams[i]->fields[n].type));
		buffer_print(h, "\n");
	}
	s->header_sent = s->stream_count;
	return buffer_print(h, "content: %s\n\n", s->content == CONTENT_TEXT ? "text" : "binary");
}

void sink_fail(struct sink *s, int64_t now, const char *why)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	if (s->address)
		address_drop(s->address);
	s->address = NULL;
	s->next_address = NULL;
	s->answer.used = 0;
	if (s->state >= SINK_GREET && now - s->since > PAUSE_MOST)
		s->pause = PAUSE_FIRST;
	s->since = now;
	if (s->failures++ == 0)
		logwarn("oml: collector %s: %s; samples are queued until it is reachable\n", s->uri, why);
	s->state = SINK_DOWN;
	s->retry = now + s->pause;
	s->pause = s->pause * 2 > PAUSE_MOST ? PAUSE_MOST : s->pause * 2;
}

int sink_step(struct sink *s, int64_t now)
{
	return s->path ? file_step(s, now) : tcp_step(s, now);
}

int sink_has_room(const struct sink *s)
{
	return s->state != SINK_ENDED && s->queue.bytes < s->queue.limit;
}

int sink_done(const struct sink *s)
{
	return s->state == SINK_ENDED;
}

void sink_close(struct sink *s)
{
	if (s->fd > STDERR_FILENO)
		close(s->fd);
	if (s->address)
		address_drop(s->address);
	queue_free(&s->queue);
	buffer_free(&s->header);
	buffer_free(&s->answer);
	free(s->uri);
	free(s->host);
	free(s->port);
	free(s->path);
	free(s);
}
