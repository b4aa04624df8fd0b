#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "sink.h"
#include "window.h"
#include "xml.h"

#define FILE_MOST (4u << 20) /* bytes */

/* The file, as long as the library works: points may come at any time. */
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
		logerror("oml: read %s: %s\n", path, length > FILE_MOST ? "it is too large" : strerror(errno));
		free(to);
		to = NULL;
	} else {
		to[length] = '\0';
	}
	if (file)
		fclose(file);
	return to;
}

static const char *value_or(const struct xml_element *e, const char *name, const char *old)
{
	const char *value = xml_value(e, name);

	return value ? value : old ? xml_value(e, old) : NULL;
}

static void replace(char **to, const char *value)
{
	if (!value)
		return;
	free(*to);
	*to = strdup(value);
}

/* Opens the collector of one element; 0 or -1. */
static int open_collect(struct xml_element *e)
{
	const char *url = value_or(e, "url", "url-list"), *encoding = xml_value(e, "encoding");
	int content = !encoding ? library.options.content : strcmp(encoding, "text") == 0 ? CONTENT_TEXT : strcmp(encoding, "binary") == 0 ? CONTENT_BINARY : -2;
	struct sink **last = &library.sinks;

	if (strcmp(e->name, "collect") != 0 || !url || content == -2) {
		logerror("oml: %s, line %d: %s\n", library.options.config, e->line,
			 strcmp(e->name, "collect") != 0 ? "only collect elements can be here" : !url ? "a collect element needs a url" : "the encoding is text or binary");
		return -1;
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
		logerror("oml: %s, line %d: the first element is omlc\n", path, root->line);
		return -1;
	}
	replace(&library.options.domain, value_or(root, "domain", "experiment"));
	replace(&library.options.id, xml_value(root, "id"));
	if (!library.options.id || !library.options.domain) {
		logerror("oml: %s: %s is missing, here and on the command line\n", path, library.options.id ? "domain" : "id");
		return -1;
	}
	for (struct xml_element *e = root->child; e; e = e->next)
		count++;
	places = calloc((size_t)count + 1, sizeof *places);
	for (struct xml_element *e = root->child; places && e; e = e->next)
		if (open_collect(e) < 0)
			return -1;
	if (place_count == 0)
		logerror("oml: %s: there is no collect element\n", path);
	return place_count > 0 ? 0 : -1;
}

/* The length of a window that a stream element asks for; 0 or -1. */
static int length_of(const struct xml_element *e, int *samples, double *interval)
{
	const char *n = xml_value(e, "samples"), *s = xml_value(e, "interval");
	char *end = (char *)"";

	*samples = 0;
	*interval = 0;
	if (n)
		*samples = (int)strtol(n, &end, 10);
	else if (s)
		*interval = strtod(s, &end);
	else
		*samples = 1;
	if (*end == '\0' && !(n && s) && (*samples > 0 || (*interval >= 0.001 && *interval < 1e9)))
		return 0;
	logerror("oml: %s, line %d: use samples=\"1\" and more, or interval=\"SECONDS\"\n", library.options.config, e->line);
	return -1;
}

/* 1 where a name is taken at that collector. */
static int taken(const struct sink *sink, const char *name)
{
	for (int i = 1; i < sink->stream_count; i++)
		if (strcmp(sink->streams[i]->name, name) == 0)
			return 1;
	return 0;
}

/* Gives a point the stream of one element. */
static int connect_stream(struct OmlMP *p, struct sink *sink, const struct xml_element *e)
{
	struct filter_spec specs[FIELDS];
	struct window *window = NULL;
	struct field *fields = p->fields;
	struct buffer name = {0};
	const char *own = value_or(e, "name", "rename");
	int count = p->count, n = 0, samples, failed;
	double interval;

	if (length_of(e, &samples, &interval) < 0)
		return -1;
	for (const struct xml_element *f = e->child; f && n < FIELDS; f = f->next, n++) {
		specs[n] = (struct filter_spec){value_or(f, "field", "pname"), xml_value(f, "operation"), value_or(f, "rename", "sname")};
		if (strcmp(f->name, "filter") != 0 || !specs[n].field) {
			logerror("oml: %s, line %d: a stream has filter elements with a field\n", library.options.config, f->line);
			return -1;
		}
		if (samples == 1 && !specs[n].operation)
			specs[n].operation = "first";
	}
	if (n == 0 && samples != 1)
		for (; n < p->count; n++)
			specs[n] = (struct filter_spec){.field = p->fields[n].name};
	if (n > 0 && window_open(p, specs, n, samples, interval, &window, &fields, &count) < 0)
		return -1;
	if (own)
		buffer_print(&name, "%s_%s", library.options.application, own);
	else
		buffer_print(&name, "%s", p->name);
	for (size_t plain = name.used, again = 2; taken(sink, (const char *)name.bytes); again++) {
		name.used = plain;
		buffer_print(&name, "_%zu", again);
	}
	failed = stream_add(p, sink, (const char *)name.bytes, fields, count, window) ? 0 : -1;
	if (fields != p->fields)
		fields_free(fields, count);
	buffer_free(&name);
	return failed;
}

int config_connect(struct OmlMP *p)
{
	const char *plain = p->name + strlen(library.options.application) + 1;
	int failed = 0;

	for (int i = 0; i < place_count; i++) {
		for (const struct xml_element *e = places[i].collect->child; e; e = e->next) {
			const char *mp = value_or(e, "mp", "name");

			if (mp && strcmp(e->name, "stream") == 0 && strcmp(mp, plain) == 0)
				failed |= connect_stream(p, places[i].sink, e);
		}
	}
	return failed;
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
