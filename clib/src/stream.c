#include <stdlib.h>

#include "library.h"
#include "sink.h"
#include "window.h"

/* Gives a stream a number in the collector's schema. */
static void announce(struct stream *s, struct sink *sink)
{
	struct buffer text = {0};

	s->index = sink->stream_count++;
	sink->streams[s->index] = s;
	if (!sink->header_sent)
		return;
	/* After the header: define it by metadata. */
	buffer_print(&text, "%d %s", s->index, s->name);
	for (int i = 0; i < s->count; i++)
		buffer_print(&text, " %s:%s", s->fields[i].name, type_name(s->fields[i].type));
	if (text.bytes)
		sink_note(sink, ".", "schema", (const char *)text.bytes);
	buffer_free(&text);
}

struct stream *stream_add(struct OmlMP *point, struct stream *parent, struct sink *sink, const char *name,
			  const struct field *fields, int count, struct window *window, int replaced)
{
	struct stream *s = calloc(1, sizeof *s), **list = parent ? &parent->children : &point->streams;

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
	s->parent = parent;
	s->replaced = replaced;
	s->next = *list;
	*list = s;
	if (!replaced)
		announce(s, sink);
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
	for (struct stream *child = s->children; child; child = child->next)
		window_add(child, time, values);
	if (s->replaced)
		return;
	if (!s->window && s->sink->thin > 1 && ++s->thinned < s->sink->thin)
		return;
	s->thinned = 0;
	if (sink_take(s->sink, s->index, ++s->seq, time, values, s->count) < 0)
		s->lost++;
}

void streams_free(struct stream *first)
{
	for (struct stream *s = first, *next; s; s = next) {
		next = s->next;
		streams_free(s->children);
		fields_free(s->fields, s->count);
		free(s->name);
		if (s->window)
			window_free(s->window);
		free(s);
	}
}
