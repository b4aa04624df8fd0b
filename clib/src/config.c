#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "number.h"
#include "option.h"
#include "sink.h"
#include "window.h"
#include "xml.h"

#define FILE_MOST (4u << 20) /* bytes */

/* The file is kept: points may be added at any time. */
static char *text;
static struct xml_element *root;

struct place {
	struct xml_element *collect;
	struct sink *sink;
};
static struct place *places;
static int place_count;

static char *read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	char *to = file ? malloc(FILE_MOST + 1) : NULL;
	size_t length = to ? fread(to, 1, FILE_MOST + 1, file) : 0;

	if (!file || !to || ferror(file) || length > FILE_MOST) {
		logerror("oml: read %s: %s\n", path, length > FILE_MOST ? "file too large" : strerror(errno));
		free(to);
		to = NULL;
	} else {
		to[length] = '\0';
	}
	if (file)
		fclose(file);
	return to;
}

static void fail_at(const struct xml_element *e, const char *what)
{
	logerror("oml: %s, line %d: %s\n", library.options.config, e->line, what);
}

static const char *value_or(const struct xml_element *e, const char *name, const char *old)
{
	const char *value = xml_value(e, name);

	return value ? value : old ? xml_value(e, old) : NULL;
}

/* Opens the collector of one element; 0 or -1. */
static int open_collect(struct xml_element *e)
{
	const char *url = value_or(e, "url", "url-list"), *encoding = xml_value(e, "encoding");
	int content = !encoding ? library.options.content : strcmp(encoding, "text") == 0 ? CONTENT_TEXT : strcmp(encoding, "binary") == 0 ? CONTENT_BINARY : -2;
	struct sink **last = &library.sinks;

	if (strcmp(e->name, "collect") != 0 || !url || content == -2) {
		fail_at(e, strcmp(e->name, "collect") != 0 ? "expected a collect element" :
			    !url ? "collect element without url" : "encoding must be text or binary");
		return -1;
	}
	for (const struct xml_element *s = e->child; s; s = s->next) {
		if (strcmp(s->name, "stream") != 0 || !value_or(s, "mp", "name")) {
			fail_at(s, "expected stream elements with an mp");
			return -1;
		}
	}
	while (*last)
		last = &(*last)->next;
	*last = sink_open(url, content);
	if (!*last)
		return -1;
	places[place_count++] = (struct place){e, *last};
	return 0;
}

int config_read(const char *path)
{
	char fault[128];
	int count = 0;

	text = read_file(path);
	root = text ? xml_parse(text, fault, sizeof fault) : NULL;
	if (!root) {
		if (text)
			logerror("oml: %s, %s\n", path, fault);
		return -1;
	}
	if (strcmp(root->name, "omlc") != 0) {
		logerror("oml: %s, line %d: the root element must be omlc\n", path, root->line);
		return -1;
	}
	options_replace(&library.options.domain, value_or(root, "domain", "experiment"));
	options_replace(&library.options.id, xml_value(root, "id"));
	if (!library.options.id || !library.options.domain) {
		logerror("oml: %s: no %s, neither here nor on the command line\n", path, library.options.id ? "domain" : "id");
		return -1;
	}
	if (options_check(&library.options) < 0)
		return -1;
	for (struct xml_element *e = root->child; e; e = e->next)
		count++;
	places = calloc((size_t)count + 1, sizeof *places);
	for (struct xml_element *e = root->child; places && e; e = e->next)
		if (open_collect(e) < 0)
			return -1;
	if (place_count == 0)
		logerror("oml: %s: no collect element\n", path);
	return place_count > 0 ? 0 : -1;
}

/* Reads the window of a stream element; 0 or -1. */
static int length_of(const struct xml_element *e, int *samples, double *interval)
{
	const char *n = xml_value(e, "samples"), *s = xml_value(e, "interval");
	double count = s ? 0 : 1;

	*interval = 0;
	if ((n && s) || (n && number_read(n, &count) < 0) || (s && number_read(s, interval) < 0) ||
	    !(s ? *interval >= 0.001 && *interval <= 1e9 : count >= 1 && count <= 1e9)) {
		fail_at(e, "use samples=\"N\" with N of at least 1, or interval=\"SECONDS\" (0.001 to 1e9)");
		return -1;
	}
	*samples = (int)count;
	return 0;
}

/* 1 if the collector has a stream of that name. */
static int taken(const struct sink *sink, const char *name)
{
	for (int i = 1; i < sink->stream_count; i++)
		if (strcmp(sink->streams[i]->name, name) == 0)
			return 1;
	return 0;
}

/* Reads the filters of an element; returns their number, or -1 with a message. */
static int read_filters(const struct field *fields, int count, const struct xml_element *e, int samples, struct filter_spec *specs)
{
	int n = 0;

	for (const struct xml_element *f = e->child; f; f = f->next) {
		if (strcmp(f->name, "stream") == 0)
			continue;
		if (n == FIELDS || strcmp(f->name, "filter") != 0 || !value_or(f, "field", "pname")) {
			fail_at(f, n == FIELDS ? "too many filters" : "expected filter elements with a field");
			return -1;
		}
		specs[n] = (struct filter_spec){value_or(f, "field", "pname"), xml_value(f, "operation"), value_or(f, "rename", "sname")};
		if (samples == 1 && !specs[n].operation)
			specs[n].operation = "first";
		n++;
	}
	if (n == 0 && samples != 1)
		for (; n < count; n++)
			specs[n] = (struct filter_spec){.field = fields[n].name};
	return n;
}

/* 1 if a stream of this stream replaces it, 0 if not, -1 with a message. */
static int is_replaced(const struct xml_element *e)
{
	int replaced = 0;

	for (const struct xml_element *s = e->child; s; s = s->next) {
		const char *replace = strcmp(s->name, "stream") == 0 ? xml_value(s, "replace") : NULL;

		if (replace && strcmp(replace, "yes") != 0 && strcmp(replace, "no") != 0) {
			fail_at(s, "replace must be yes or no");
			return -1;
		}
		replaced |= replace && strcmp(replace, "yes") == 0;
	}
	return replaced;
}

/* An unused name for an element's stream. */
static void name_stream(const char *base, const struct sink *sink, const char *own, struct buffer *name)
{
	size_t plain;

	if (own)
		buffer_print(name, "%s_%s", library.options.application, own);
	else
		buffer_print(name, "%s", base);
	plain = name->used;
	for (int again = 2; name->bytes && taken(sink, (const char *)name->bytes); again++) {
		name->used = plain;
		buffer_print(name, "_%d", again);
	}
}

/* Adds the stream of one element to a point, or to another stream, with those inside it. */
static int connect_stream(struct OmlMP *p, struct stream *parent, struct sink *sink, const struct xml_element *e)
{
	struct filter_spec specs[FIELDS];
	struct window *window = NULL;
	struct field *inputs = parent ? parent->fields : p->fields, *fields = inputs;
	struct buffer name = {0};
	const char *base = parent ? parent->name : p->name, *own = value_or(e, "name", "rename");
	int count = parent ? parent->count : p->count, n, samples, failed = 0, replaced = is_replaced(e);
	struct stream *made = NULL;
	double interval;

	if (replaced < 0 || length_of(e, &samples, &interval) < 0)
		return -1;
	n = read_filters(inputs, count, e, samples, specs);
	if (n == 0 && parent) {
		fail_at(e, "a stream inside another one needs filters, or more than one sample");
		return -1;
	}
	if (n < 0 || (n > 0 && window_open(base, inputs, count, specs, n, samples, interval, &window, &fields, &count) < 0)) {
		fail_at(e, "invalid stream");
		return -1;
	}
	name_stream(base, sink, own, &name);
	if (!name.bytes || !valid_name((const char *)name.bytes)) {
		fail_at(e, "invalid stream name: use letters, digits and _");
		failed = -1;
	}
	if (!failed)
		made = stream_add(p, parent, sink, (const char *)name.bytes, fields, count, window, replaced);
	else if (window)
		window_free(window);
	if (fields != inputs)
		fields_free(fields, count);
	buffer_free(&name);
	if (!made)
		return -1;
	for (const struct xml_element *s = e->child; s; s = s->next)
		if (strcmp(s->name, "stream") == 0)
			failed |= connect_stream(p, made, sink, s);
	return failed;
}

static int is_of(const struct xml_element *e, const struct OmlMP *p)
{
	return strcmp(value_or(e, "mp", "name"), p->name + strlen(library.options.application) + 1) == 0;
}

int config_connect(struct OmlMP *p)
{
	int failed = 0;

	for (int i = 0; i < place_count; i++)
		for (const struct xml_element *e = places[i].collect->child; e; e = e->next)
			if (is_of(e, p))
				failed |= connect_stream(p, NULL, places[i].sink, e);
	return failed;
}

void config_check(void)
{
	int count = atomic_load(&library.point_count);

	for (int i = 0; i < place_count; i++) {
		for (const struct xml_element *e = places[i].collect->child; e; e = e->next) {
			int known = 0;

			for (int n = 0; n < count; n++)
				known |= is_of(e, library.points[n]);
			if (!known)
				logwarn("oml: %s, line %d: unknown point %s (so far)\n", library.options.config, e->line, value_or(e, "mp", "name"));
		}
	}
}

void config_free(void)
{
	if (root)
		xml_free(root);
	free(text);
	free(places);
	root = NULL;
	text = NULL;
	places = NULL;
	place_count = 0;
}
