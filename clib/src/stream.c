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

/* Streams that cannot be aggregated are thinned by the window's tenths of a second. */
int64_t stream_thin(const struct stream *s)
{
	int64_t tenths = s->sink->aggregate / 100;

	return s->sink->aggregate > 0 && !s->aggregate ? (tenths > 1 ? tenths : 2) : s->sink->thin;
}

void stream_send(struct stream *s, int64_t time, const struct value *values)
{
	for (struct stream *child = s->children; child; child = child->next)
		if (!child->idle)
			window_add(child, time, values);
	if (s->replaced || (s->aggregate && !s->aggregate->idle))
		return;
	if (!s->window && stream_thin(s) > 1 && ++s->thinned < stream_thin(s))
		return;
	s->thinned = 0;
	if (sink_take(s->sink, s->index, ++s->seq, time, values, s->count) < 0)
		s->lost++;
}

/* 1 if a stream can be announced after the header: a collector reads its schema from a
 * string, which in binary has at most 255 bytes. */
static int is_announceable(const struct stream *s, const struct field *fields, int count)
{
	size_t length = strlen(s->name) + sizeof "255 _aggregate";

	for (int i = 0; i < count; i++)
		length += strlen(fields[i].name) + strlen(type_name(fields[i].type)) + 2;
	return s->sink->content == CONTENT_TEXT || !s->sink->header_sent || length <= 255;
}

/* Adds the stream with the aggregates of another one; NULL if it cannot have any. */
static struct stream *aggregate_add(struct stream *s)
{
	struct filter_spec specs[FIELDS];
	struct window *window;
	struct field *fields;
	struct stream *made;
	struct buffer name = {0};
	int count;

	for (int i = 0; i < s->count; i++)
		specs[i] = (struct filter_spec){.field = s->fields[i].name};
	if (s->count == 0 || window_open(s->name, s->fields, s->count, specs, s->count, 0, 1, &window, &fields, &count) < 0)
		return NULL;
	if (!is_announceable(s, fields, count)) {
		loginfo("oml: stream %s has too many fields to be aggregated in binary: it is thinned\n", s->name);
		fields_free(fields, count);
		window_free(window);
		return NULL;
	}
	buffer_print(&name, "%s_aggregate", s->name);
	made = stream_add(s->point, s, s->sink, name.bytes ? (const char *)name.bytes : "aggregate", fields, count, window, 0);
	fields_free(fields, count);
	buffer_free(&name);
	return made;
}

void sink_aggregate(struct sink *sink)
{
	int count = sink->stream_count; /* without those that are added */

	for (int i = 1; i < count; i++) {
		struct stream *s = sink->streams[i];

		if (s->window)
			continue;
		if (!s->aggregate && sink->aggregate > 0)
			s->aggregate = aggregate_add(s);
		if (!s->aggregate)
			continue;
		if (sink->aggregate > 0)
			window_set(s->aggregate, (int64_t)sink->aggregate * 1000000);
		else
			window_end(s->aggregate);
		s->aggregate->idle = sink->aggregate == 0;
	}
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
