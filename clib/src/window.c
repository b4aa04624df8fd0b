#include "window.h"

#include <stdio.h>
#include <stdlib.h>

#include "filter.h"
#include "sink.h"

struct window {
	struct filter *filters;
	int count;
	int samples;      /* per window, or 0 */
	int64_t interval; /* length of a window, ns, or 0 */
	int64_t taken;
	int64_t newest;   /* time of the newest sample */
	int64_t end;      /* monotonic ns; 0: not started */
};

void fields_free(struct field *fields, int count)
{
	for (int i = 0; i < count; i++)
		free(fields[i].name);
	free(fields);
}

void window_free(struct window *w)
{
	for (int i = 0; i < w->count; i++)
		filter_free(&w->filters[i]);
	free(w->filters);
	free(w);
}

static int find_field(const struct field *fields, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(fields[i].name, name) == 0)
			return i;
	return -1;
}

/* Appends the output fields of a filter. */
static int add_fields(struct field *fields, int count, const struct filter *f, const char *name)
{
	const char *ends[OUTPUTS];
	OmlValueT types[OUTPUTS];
	int outputs = operation_outputs(f->operation, f->type, ends, types);

	for (int i = 0; i < outputs; i++) {
		struct buffer text = {0};

		buffer_print(&text, "%s%s%s", name, ends[i][0] ? "_" : "", ends[i]);
		fields[count++] = (struct field){(char *)text.bytes, types[i]};
	}
	return count;
}

/* 0, or -1 with a message: a collector would reject a schema with such names. */
static int valid_outputs(const char *name, const struct field *fields, int count)
{
	for (int i = 0; i < count; i++) {
		int again = !valid_name(fields[i].name);

		for (int before = 0; before < i && !again; before++)
			again = strcmp(fields[before].name, fields[i].name) == 0;
		if (again) {
			logerror("oml: point %s: invalid or duplicate filter output name '%s'; use rename\n", name, fields[i].name ? fields[i].name : "");
			return -1;
		}
	}
	return 0;
}

int window_open(const char *name, const struct field *inputs, int input_count, const struct filter_spec *specs, int count,
		int samples, double interval, struct window **window, struct field **fields, int *field_count)
{
	struct window *w = calloc(1, sizeof *w);
	struct field *made = calloc((size_t)count * OUTPUTS + 1, sizeof *made);
	int n = 0;

	if (!w || !made || !(w->filters = calloc((size_t)count + 1, sizeof *w->filters)))
		abort(); /* out of memory */
	w->samples = samples;
	w->interval = samples > 0 ? 0 : (int64_t)(interval * 1e9);
	for (int i = 0; i < count; i++) {
		struct filter *f = &w->filters[w->count];

		f->field = find_field(inputs, input_count, specs[i].field);
		f->type = f->field < 0 ? OML_UNKNOWN_VALUE : inputs[f->field].type;
		f->operation = f->field < 0 ? NULL : operation_find(specs[i].operation, f->type);
		if (!f->operation) {
			logerror("oml: point %s: %s %s\n", name, f->field < 0 ? "unknown field" : "unknown filter, or not for the type of field",
				 specs[i].field);
			fields_free(made, n);
			window_free(w);
			return -1;
		}
		w->count++;
		n = add_fields(made, n, f, specs[i].rename ? specs[i].rename : specs[i].field);
	}
	if (valid_outputs(name, made, n) < 0) {
		fields_free(made, n);
		window_free(w);
		return -1;
	}
	*window = w;
	*fields = made;
	*field_count = n;
	return 0;
}

int window_default(struct OmlMP *p, struct window **window, struct field **fields, int *count)
{
	struct filter_spec specs[FIELDS];

	for (int i = 0; i < p->count; i++)
		specs[i] = (struct filter_spec){.field = p->fields[i].name};
	return window_open(p->name, p->fields, p->count, specs, p->count, library.options.samples, library.options.interval, window, fields, count);
}

void filters_list(void)
{
	const char *name;

	for (int i = 0; (name = operation_name(i)); i++) {
		const char *ends[OUTPUTS];
		OmlValueT types[OUTPUTS];
		int count = operation_outputs(operation_find(name, OML_DOUBLE_VALUE), OML_INPUT_VALUE, ends, types);

		printf("%-8s", name);
		for (int n = 0; n < count; n++)
			printf(" field%s%s:%s", ends[n][0] ? "_" : "", ends[n], types[n] == OML_INPUT_VALUE ? "type of the field" : type_name(types[n]));
		printf("\n");
	}
}

static void end_window(struct stream *s)
{
	struct window *w = s->window;
	struct value values[FIELDS];
	int n = 0;

	for (int i = 0; i < w->count; i++)
		n += filter_take(&w->filters[i], &values[n]);
	w->taken = w->end = 0;
	stream_send(s, w->newest, values);
}

void window_add(struct stream *s, int64_t time, const struct value *values)
{
	struct window *w = s->window;

	/* The tuple that ends with a window of its own source belongs to the next one. */
	if (s->parent && w->end > 0 && now_steady() >= w->end)
		end_window(s);
	if (w->taken++ == 0 && w->interval > 0)
		w->end = now_steady() + w->interval;
	w->newest = time;
	for (int i = 0; i < w->count; i++)
		filter_add(&w->filters[i], &values[w->filters[i].field]);
	if (w->samples > 0 && w->taken >= w->samples)
		end_window(s);
}

void window_set(struct stream *s, int64_t interval)
{
	s->window->interval = interval;
}

void window_end(struct stream *s)
{
	if (s->window->taken > 0)
		end_window(s);
}

/* Sources before what is computed from their tuples. */
static void each_of(struct stream *first, int64_t now, int all)
{
	for (struct stream *s = first; s; s = s->next) {
		if (s->window && s->window->taken > 0 && (all || (s->window->end > 0 && now >= s->window->end)))
			end_window(s);
		each_of(s->children, now, all);
	}
}

static void each(int64_t now, int all)
{
	int count = atomic_load(&library.point_count);

	for (int i = 0; i < count; i++)
		each_of(library.points[i]->streams, now, all);
}

void windows_expire(int64_t now)
{
	each(now, 0);
}

void windows_flush(void)
{
	each(0, 1);
}
