#include <stdlib.h>

#include "library.h"
#include "sink.h"

struct stream *stream_add(struct OmlMP *point, struct sink *sink, const char *name, const struct field *fields, int count,
			  struct window *window)
{
	struct stream *s = calloc(1, sizeof *s);

	if (!s || sink->stream_count >= STREAMS || count > FIELDS) {
		free(s);
		logerror("oml: stream %s: more than %d streams, or %d fields\n", name, STREAMS - 1, FIELDS);
		return NULL;
	}
	s->name = strdup(name);
	s->fields = calloc((size_t)count + 1, sizeof *fields);
	if (!s->name || !s->fields)
		abort(); /* nothing is left to go on with */
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
	if (sink->header_sent) { /* too late for the header: define it by a note */
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

/* Puts a tuple into the collector's queue. What has no room is counted, and its
 * number is left out. */
static void queue_tuple(struct sink *sink, int index, int64_t seq, int64_t time, const struct value *values, int count)
{
	struct chunk *chunk = queue_open(&sink->queue);
	enum content content = sink->content;
	size_t before;

	if (content == CONTENT_BINARY && sink->answers == ANSWERS_GIVEN)
		content = CONTENT_IEEE;
	if (!chunk) {
		sink->lost++;
		return;
	}
	before = chunk->tuples.used;
	if (encode_tuple(&chunk->tuples, content, index, seq, time - library.start * 1000000000, values, count) < 0) {
		sink->lost++;
		return;
	}
	queue_added(&sink->queue, before, index, seq);
}

void stream_send(struct stream *s, int64_t time, const struct value *values)
{
	queue_tuple(s->sink, s->index, ++s->seq, time, values, s->count);
}

static struct value text_value(const char *text)
{
	return (struct value){.type = OML_STRING_VALUE, .bytes = text, .length = strlen(text)};
}

void sink_note(struct sink *sink, const char *subject, const char *key, const char *value)
{
	struct value values[] = {text_value(subject), text_value(key), text_value(value)};

	queue_tuple(sink, 0, ++sink->notes, now_real(), values, 3);
}
