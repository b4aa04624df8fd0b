#include <stdio.h>
#include <stdlib.h>

#include "sink.h"
#include "window.h"

int valid_name(const char *name)
{
	if (!name || !*name || (*name >= '0' && *name <= '9'))
		return 0;
	for (; *name; name++)
		if (!(*name == '_' || (*name >= '0' && *name <= '9') || (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z')))
			return 0;
	return 1;
}

static int valid_fields(const char *name, const OmlMPDef *definition)
{
	int n = 0;

	for (; definition[n].name; n++) {
		if (!valid_name(definition[n].name) || !type_name(definition[n].param_types)) {
			logerror("oml: point %s: invalid name or type of field %d, '%s'\n", name, n + 1, definition[n].name);
			return -1;
		}
		for (int before = 0; before < n; before++) {
			if (strcmp(definition[before].name, definition[n].name) == 0) {
				logerror("oml: point %s: duplicate field %s\n", name, definition[n].name);
				return -1;
			}
		}
	}
	if (n > FIELDS)
		logerror("oml: point %s: %d fields, limit %d\n", name, n, FIELDS);
	return n > FIELDS ? -1 : n;
}

static struct OmlMP *point_new(const char *name, const OmlMPDef *definition, int count)
{
	struct OmlMP *p = calloc(1, sizeof *p);

	if (!p)
		return NULL;
	p->count = count;
	p->types = calloc((size_t)count + 1, sizeof *p->types);
	p->fields = calloc((size_t)count + 1, sizeof *p->fields);
	if (!p->types || !p->fields || asprintf(&p->name, "%s_%s", library.options.application, name) < 0)
		return NULL; /* out of memory: not freed either */
	for (int i = 0; i < count; i++) {
		p->types[i] = definition[i].param_types;
		p->fields[i] = (struct field){strdup(definition[i].name), definition[i].param_types};
		p->has_long |= type_is_long(p->types[i]);
	}
	return p;
}

void point_free(struct OmlMP *p)
{
	streams_free(p->streams);
	fields_free(p->fields, p->count);
	free(p->types);
	free(p->name);
	free(p);
}

OmlMP *omlc_add_mp(const char *name, OmlMPDef *definition)
{
	struct OmlMP *p;
	int number, count;

	if (!library.options.application || !definition || !valid_name(name)) {
		logerror("oml: point '%s': %s\n", name ? name : "(null)",
			 !library.options.application ? "call omlc_init first" : "invalid name: use letters, digits and _");
		return NULL;
	}
	count = valid_fields(name, definition);
	p = count < 0 ? NULL : point_new(name, definition, count);
	if (!p)
		return NULL;
	library_lock();
	number = atomic_load(&library.point_count);
	if (number == POINTS) {
		library_unlock();
		point_free(p);
		logerror("oml: point %s: limit of %d points reached\n", name, POINTS);
		return NULL;
	}
	p->number = (uint32_t)number;
	library.points[number] = p;
	atomic_store(&library.point_count, number + 1);
	if (atomic_load(&library.stage) == STAGE_RUNNING)
		point_connect(p);
	library_unlock();
	return p;
}

/* time: ns since 1970, or 0: now. */
static int inject(OmlMP *p, OmlValueU *values, int64_t time)
{
	struct record *record;
	size_t length;
	int active;

	if (!p || (!values && p->count > 0))
		return -1;
	active = atomic_load_explicit(&p->active, memory_order_acquire);
	if (active != ACTIVE_YES)
		return active == ACTIVE_UNWANTED || library.options.noop ? 0 : -1;
	if (time == 0)
		time = now_real();
	length = p->has_long ? values_size(p->types, p->count, values) : (size_t)p->count * 8;
	record = ring_reserve(&library.ring, length);
	if (!record) {
		atomic_fetch_add_explicit(&p->dropped, 1, memory_order_relaxed);
		return -1;
	}
	record->point = p->number;
	record->time = time;
	values_pack((unsigned char *)(record + 1), p->types, p->count, values);
	ring_put(record, length);
	atomic_fetch_add_explicit(&p->injected, 1, memory_order_relaxed);
	return 0;
}

int omlc_inject(OmlMP *p, OmlValueU *values)
{
	return inject(p, values, 0);
}

int pillion_inject_at(OmlMP *p, OmlValueU *values, int64_t time_ns)
{
	return inject(p, values, time_ns);
}

void omlc_process(OmlMP *mp, OmlValueU *values)
{
	omlc_inject(mp, values);
}

uint64_t pillion_injected(const OmlMP *mp)
{
	return mp ? atomic_load(&mp->injected) : 0;
}

uint64_t pillion_dropped(const OmlMP *mp)
{
	return mp ? atomic_load(&mp->dropped) : 0;
}
