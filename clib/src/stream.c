#include <stdlib.h>

#include "library.h"
#include "sink.h"
#include "window.h"

struct stream *stream_add(struct OmlMP *point, struct sink *sink, const char *name, const struct field *fields, int count,
			  struct window *window)
{
	struct stream *s = calloc(1, sizeof *s);

	if (!s || sink->stream_count >= STREAMS || count > FIELDS) {
		free(s);
		if (window)
			window_free(window);
		logerror("oml: stream %s: limit of %d streams or %d fields exceeded\n", name, STREAMS - 1, FIELDS);
		return NULL;
	}
	s->name = strdup(name);
	s->fields = calloc((size_t)count + 1, sizeof *fields);
	if (!s->name || !s->fields)
		abort(); /* out of memory */
	for (int i = 0; i < count; i++)
		s->fields[i] = (struct field){strdup(fields[i].name), fields[i].type};
	s->count = count;
	s->point = point;
	s->sink = sink;
	s->window = window;
	s->index = sink->stream_count++;
	sink->streams[s->index] = s;
	s->next = point->streams;
	point->streams = s;
	if (sink->header_sent) { /* after the header: define it by metadata */
		struct buffer text = {0};

		buffer_print(&text, "%d %s", s->index, s->name);
		for (int i = 0; i < count; i++)
			buffer_print(&text, " %s:%s", fields[i].name, type_name(fields[i].type));
		if (text.bytes)
			sink_note(sink, ".", "schema", (const char *)text.bytes);
		buffer_free(&text);
	}
	return s;
}

int sink_take(struct sink *sink, int index, int64_t seq, int64_t time, const struct value *values, int count)
{
	struct chunk *chunk = queue_open(&sink->queue);
	enum content content = sink->content;
	size_t before;

	if (content == CONTENT_BINARY && !sink->plain)
		content = CONTENT_IEEE;
	before = chunk ? chunk->tuples.used : 0;
	if (!chunk || encode_tuple(&chunk->tuples, content, index, seq, time - library.start * 1000000000, values, count) < 0) {
		sink->lost++;
		return -1;
	}
	queue_added(&sink->queue, before, index, seq);
	return 0;
}

void stream_send(struct stream *s, int64_t time, const struct value *values)
{
	if (!s->window && s->sink->thin > 1 && ++s->thinned < s->sink->thin)
		return;
	s->thinned = 0;
	if (sink_take(s->sink, s->index, ++s->seq, time, values, s->count) < 0)
		s->lost++;
}

void streams_free(struct OmlMP *p)
{
	for (struct stream *s = p->streams, *next; s; s = next) {
		next = s->next;
		fields_free(s->fields, s->count);
		free(s->name);
		if (s->window)
			window_free(s->window);
		free(s);
	}
	p->streams = NULL;
}
